// Builds headgate/serve/ui. One rule: the same sources and the same locked packages give the same bytes.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "..", "headgate", "serve", "ui");
const shipped = ["@dagrejs/dagre", "@dagrejs/graphlib", "preact", "uplot"];

function filesIn(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? filesIn(path) : [path];
  });
}

function sha256(data) {
  return createHash("sha256").update(data).digest("hex");
}

// tests/unit/test_ui_bundle.py does the same, and sees whether somebody forgot to build.
function hashOfSources() {
  const single = ["build.mjs", "package-lock.json", "package.json", "tsconfig.json"].map((name) => join(here, name));
  const named = [...single, ...filesIn(join(here, "src"))].map((path) => [relative(here, path).split(sep).join("/"), path]);
  named.sort(([a], [b]) => (a < b ? -1 : 1));
  return sha256(named.map(([name, path]) => `${name}\n${sha256(readFileSync(path))}\n`).join(""));
}

const sources = hashOfSources();
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });

await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx", theme: "src/theme.ts" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2022", "chrome111", "firefox115", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  charset: "utf8",
  logLevel: "warning",
});

const page = readFileSync(join(here, "src", "index.html"), "utf8");
writeFileSync(join(out, "index.html"), page.replaceAll("__HASH__", sources.slice(0, 12)));
writeFileSync(join(out, "icon.svg"), readFileSync(join(here, "src", "icon.svg")));
const licences = shipped.map((name) => {
  const folder = join(here, "node_modules", name);
  const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  return `${name} ${version}\n\n${readFileSync(join(folder, "LICENSE"), "utf8").trim()}\n`;
});
writeFileSync(join(out, "licenses.txt"), licences.join(`\n${"-".repeat(72)}\n\n`));

const files = Object.fromEntries(
  readdirSync(out)
    .sort()
    .map((name) => [name, sha256(readFileSync(join(out, name)))]),
);
writeFileSync(join(out, "manifest.json"), `${JSON.stringify({ sources, files }, null, 1)}\n`);
for (const name of Object.keys(files)) console.log(`${String(statSync(join(out, name)).size).padStart(8)}  ${name}`);
