declare module "*.css" {
  const text: string;
  export default text;
}

/** The Chakra components that the page uses; build.mjs generates this module. */
declare module "chakra-used";
