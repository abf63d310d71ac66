// Builds two scripts into the Python package. connect.js is the page; React, Chakra and the router are globals of the page that loads it, Airflow's
// own. host.js brings these globals where there is no Airflow, of Chakra only what connect.js uses, and host.licenses.txt has the licences of all it contains.
import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const HOST = {
  "react": "React",
  "react-dom": "ReactDOM",
  "react/jsx-runtime": "ReactJSXRuntime",
  "react-router-dom": "ReactRouterDOM",
  "@chakra-ui/react": "ChakraUI",
};

const hostGlobals = {
  name: "host-globals",
  setup(builder) {
    builder.onResolve({ filter: /^[@a-z]/ }, ({ path }) => {
      if (path in HOST) return { path, namespace: "host" };
      if (/^(react|react-dom|@chakra-ui|@emotion)(\/|$)/.test(path)) return { errors: [{ text: `${path} is not offered by the host` }] };
      return undefined;
    });
    builder.onLoad({ filter: /.*/, namespace: "host" }, ({ path }) => ({
      loader: "js",
      contents: `module.exports = globalThis[${JSON.stringify(HOST[path])}]`,
    }));
  },
};

// tests/unit/rest/test_page.py computes the same hash: the committed bundle is that of the committed sources
const sources = ["build.mjs", "package-lock.json", ...readdirSync("src").sort().map((name) => `src/${name}`)];
const hash = createHash("sha256");
for (const name of sources) hash.update(`${name}\n`).update(readFileSync(name));

const names = readdirSync("src").filter((name) => name !== "host.tsx").flatMap((name) => {
  const found = [...readFileSync(`src/${name}`, "utf8").matchAll(/import \{([^}]*)\} from "@chakra-ui\/react"/g)];
  return found.flatMap(([, list]) => list.split(",").map((each) => each.trim())).filter((each) => each && !each.startsWith("type "));
});
const chakraUsed = {
  name: "chakra-used",
  setup(builder) {
    builder.onResolve({ filter: /^chakra-used$/ }, () => ({ path: "chakra-used", namespace: "used" }));
    builder.onLoad({ filter: /.*/, namespace: "used" }, () => ({
      contents: `export { ${[...new Set(names)].sort().join(", ")} } from "@chakra-ui/react"`,
      resolveDir: process.cwd(),
    }));
  },
};

const folder = process.argv[2] ?? "../airflow_provider_connect/rest/ui";
const common = {
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "ascii",
  jsx: "automatic",
  loader: { ".css": "text" },
  define: { "process.env.NODE_ENV": '"production"' },
  banner: { js: `/* sources sha256:${hash.digest("hex")} */` },
  logLevel: "warning",
};
await build({ ...common, entryPoints: ["src/plugin.tsx"], outfile: `${folder}/connect.js`, legalComments: "inline", plugins: [hostGlobals] });
const { metafile } = await build({ ...common, entryPoints: ["src/host.tsx"], outfile: `${folder}/host.js`, legalComments: "none", metafile: true, plugins: [chakraUsed] });

const [output] = Object.values(metafile.outputs);
const contained = Object.entries(output.inputs).filter(([, { bytesInOutput }]) => bytesInOutput > 0);
const packages = new Set(contained.flatMap(([path]) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []));
const texts = [...packages].sort().map((name) => {
  const about = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
  const file = ["LICENSE", "LICENSE.md", "LICENSE.txt", "license", "license.md"].map((each) => `node_modules/${name}/${each}`).find((path) => existsSync(path));
  const text = file ? readFileSync(file, "utf8").trim() : `Licensed under ${about.license}; author: ${about.author?.name ?? about.author ?? "see the package"}`;
  return `${name} ${about.version} (${about.license})\n\n${text}\n`;
});
writeFileSync(`${folder}/host.licenses.txt`, `host.js contains these packages, under these licences.\n\n${texts.join(`\n${"-".repeat(80)}\n\n`)}`);
