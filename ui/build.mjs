// Builds the page's bundle into the Python package. React, Chakra and the router are Airflow's own: globals of the page that loads the bundle.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
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

await build({
  entryPoints: ["src/plugin.tsx"],
  outfile: process.argv[2] ?? "../airflow_provider_connect/rest/ui/connect.js",
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "ascii",
  jsx: "automatic",
  legalComments: "inline",
  loader: { ".css": "text" },
  define: { "process.env.NODE_ENV": '"production"' },
  banner: { js: `/* sources sha256:${hash.digest("hex")} */` },
  plugins: [hostGlobals],
  logLevel: "warning",
});
