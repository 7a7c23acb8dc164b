// Real nodes, each a process of the command `treefold`, one of them with a gateway.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const target = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL('../../target', import.meta.url));
const PLACES = [process.env.TREEFOLD, `${target}/debug/treefold`, `${target}/lean/treefold`, `${target}/release/treefold`];
export const command = PLACES.find((path) => path && existsSync(path));

const STARTED_MS = 30_000;

// Every process that was started.
const started = new Set();

function launch(args, stdio) {
  const child = spawn(command, args, { stdio });
  started.add(child);
  child.on('exit', () => started.delete(child));
  return child;
}

// Ends all processes, so that a test that failed leaves none, and does not keep its own process alive.
export function killAll() {
  for (const child of started) {
    child.kill('SIGCONT');
    child.kill('SIGKILL');
  }
}

// Starts a node. Waits until its standard output has a line for each pattern.
function start(args, patterns) {
  const child = launch(args, ['ignore', 'pipe', 'pipe']);
  return new Promise((resolve, reject) => {
    let text = '';
    const late = setTimeout(() => reject(new Error(`no start: ${text}`)), STARTED_MS);
    const read = (chunk) => {
      text += chunk;
      const found = patterns.map((pattern) => text.match(pattern)?.[1]);
      if (found.every(Boolean)) {
        clearTimeout(late);
        resolve({ child, found });
      }
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    child.on('exit', (code) => reject(new Error(`exit ${code}: ${text}`)));
  });
}

const LISTENING = /listening on (\S+)/;
const GATEWAY = /gateway at (\S+)/;

// Makes a token, and adds it to a file.
export function tokenFor(name, file, rights) {
  const args = ['gateway', 'token', name, '--file', file, '--services', '*', '--rights', rights];
  return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
}

// A trace of events, and a process that feeds it to mirrors.
export const flights = (events) =>
  execFileSync(command, ['mirror', 'flights', '--events', `${events}`], { encoding: 'utf8', maxBuffer: 64 << 20 });

export const startFeed = (feed, trace, addr) =>
  launch(['mirror', 'feed', feed, trace, '--as-recorded', '--at', addr], 'ignore');

// Starts nodes, the first one with a gateway. `serve` gives the services of each.
export async function startCluster(count, serve, more = () => []) {
  const nodes = [];
  for (let at = 0; at < count; at++) {
    const args = ['node', '--listen', '127.0.0.1:0', ...serve(at).flatMap((text) => ['--serve', text]), ...more(at)];
    if (at === 0) args.push('--gateway', '127.0.0.1:0');
    else args.push('--join', nodes[0].addr);
    const { child, found } = await start(args, at === 0 ? [LISTENING, GATEWAY] : [LISTENING]);
    nodes.push({ child, addr: found[0], url: found[1] });
  }
  const { url } = nodes[0];
  for (let tries = 0; count > 1; tries++) {
    const { nodes: seen } = await (await fetch(`${url}/v1/nodes`)).json();
    if (seen.length === count) break;
    if (tries > 200) throw new Error(`only ${seen.length} of ${count} nodes are in sight`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const stop = async () => {
    for (const { child } of nodes) {
      child.kill('SIGCONT');
      child.kill('SIGKILL');
    }
    await Promise.all(nodes.map(({ child }) => child.exitCode ?? child.signalCode ?? new Promise((done) => child.once('exit', done))));
  };
  return { nodes, url: `${url}/`, stop };
}
