declare module "*.css" {
  const text: string;
  export default text;
}

/** What the page uses of Chakra; build.mjs writes it. */
declare module "chakra-used";
