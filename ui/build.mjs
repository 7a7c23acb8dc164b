// Builds the page into crates/gateway/page, and records the hashes of its sources and of the built files. A test in
// crates/gateway compares them, so that it needs no Node.
import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, '..', 'crates', 'gateway', 'page');
const configuration = ['.npmrc', 'build.mjs', 'package-lock.json', 'package.json'];

const filesBelow = (directory) =>
  readdirSync(join(here, directory), { withFileTypes: true }).flatMap((entry) => {
    const path = join(directory, entry.name);
    return entry.isDirectory() ? filesBelow(path) : [path];
  });

const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

// One line for each source, in the order of bytes: hash, space, path.
function sources() {
  const paths = [...configuration, ...filesBelow('src')].map((path) => relative('.', path).split(sep).join('/'));
  const lines = paths.sort().map((path) => `${sha256(readFileSync(join(here, path)))} ${path}\n`);
  return sha256(lines.join(''));
}

// The licences of the packages that the page contains.
const licences = ['preact', 'uplot'].map((name) => {
  const text = readFileSync(join(here, 'node_modules', name, 'LICENSE'), 'utf8').trim();
  return `/* This page contains ${name}.\n\n${text}\n*/\n`;
});

const result = await build({
  absWorkingDir: here,
  entryPoints: { page: 'src/main.jsx' },
  bundle: true,
  minify: true,
  format: 'iife',
  target: ['es2022'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  banner: { js: licences.join('').trim() },
  charset: 'ascii',
  outdir: out,
  write: false,
});

mkdirSync(out, { recursive: true });
const built = result.outputFiles.map((file) => [file.path.split(sep).pop(), Buffer.from(file.contents)]);
built.push(['index.html', readFileSync(join(here, 'src', 'index.html'))]);
built.sort(([a], [b]) => (a < b ? -1 : 1));
const record = [`sources ${sources()}\n`];
for (const [name, bytes] of built) {
  writeFileSync(join(out, name), bytes);
  record.push(`${name} ${sha256(bytes)}\n`);
  console.log(`${name}: ${(bytes.length / 1024).toFixed(1)} KiB`);
}
writeFileSync(join(out, 'built-from.txt'), record.join(''));
