// A stand-in for a gateway, with members and calls that are made up: for clusters that are larger than a test can start.
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const page = fileURLToPath(new URL('../../crates/gateway/page/', import.meta.url));
const FILES = { '/': ['index.html', 'text/html'], '/page.js': ['page.js', 'text/javascript'], '/page.css': ['page.css', 'text/css'] };
const COUNTERS = ['calls_started', 'calls_full', 'calls_partial', 'calls_insufficient', 'waves_answered', 'locals_run', 'stream_waves', 'pushes', 'pushes_dropped', 'stream_repairs', 'bad_messages'];

// A generator of numbers from 0 to 1 that repeats itself from run to run.
function drawer(seed) {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296;
    return state / 4_294_967_296;
  };
}

export function membersOf(count, draw) {
  return Array.from({ length: count }, (_, at) => ({
    addr: `10.${Math.floor(at / 200)}.${Math.floor((at % 200) / 25)}.${(at % 25) + 1}:7700`,
    zone: `zone-${'abc'[Math.floor((at * 3) / count)]}`,
    rack: `rack-${Math.floor(at / 25) + 1}`,
    roles: at % 25 === 0 ? ['provider', 'relay'] : ['provider'],
    processors: 8,
    load_ms: Math.exp(draw() * 8 - 3),
    in_flight: Math.floor(draw() * 9),
    latency_us: Math.floor(500 + draw() * 4_000),
    load_age_ms: at === 0 ? 0 : Math.floor(draw() * 900),
    services: { logs: { partitions: [at * 2, at * 2 + 1], total: count * 2, declared: true } },
  }));
}

// A tree with four children for each node, or with one after the other.
export function treeOf(members) {
  const nodes = members.map(({ addr, rack }, at) => ({
    node: addr, rack, partitions: [at * 2, at * 2 + 1],
    queue_us: 40 + (at % 7) * 20, local_us: 900 + (at % 13) * 110, reduce_us: 60, wait_us: 300, total_us: 1_400 + (at % 13) * 120, children: [],
  }));
  nodes.slice(1).forEach((node, at) => nodes[Math.floor(at / 4)].children.push(node));
  for (const node of nodes.toReversed()) {
    const slowest = Math.max(0, ...node.children.map((child) => child.total_us));
    node.total_us = Math.max(node.total_us, slowest + 300);
    node.wait_us = Math.max(0, node.total_us - node.queue_us - node.local_us - node.reduce_us);
  }
  return nodes[0];
}

// Starts it. Returns its address, and a function that ends it.
export async function standIn({ count = 500, everyMs = 1_000 } = {}) {
  const draw = drawer(7);
  const members = membersOf(count, draw);
  const counters = Object.fromEntries(COUNTERS.map((name) => [name, 0]));
  const total = { total: count * 2, declared: true, refused: [] };
  const second = (at_ms) => {
    const calls = Math.floor(800 + 300 * Math.sin(at_ms / 20_000) + draw() * 60);
    const partial = draw() < 0.1 ? 12 : 0;
    const p50_us = Math.floor(2_400 + draw() * 400);
    return { at_ms, calls, full: calls - partial, partial, insufficient: 0, failed: 0, p50_us, p99_us: p50_us * 3, coverage: 1 - partial / 8_000 };
  };
  const account = (service, part) => ({ service, share: 1, class: 'interactive', part_recent: part, part_of_processors: part / 2, used_ms: 9e5, recent_ms: 4e3, jobs_done: 81_000, jobs_queued: 3, queued_ms: 2.5, refused: 0, held_bytes: 0, held_bytes_max: 1e7 });
  const shares = { node: members[0].addr, processors: 8, uptime_s: 812, window_s: 60, services: [account('logs', 0.8), account('*', 0.2)] };
  const start = Math.floor(Date.now() / 1_000) * 1_000;
  let at = start;
  const snapshot = () => {
    at += 1_000;
    for (const name of COUNTERS) counters[name] += Math.floor(draw() * 900);
    for (const member of members) member.load_ms = Math.max(0.02, member.load_ms * (0.8 + draw() * 0.42));
    const open = { calls: 12, waves: 40, waves_kept: 9, kept_bytes: 9_100, held_bytes: 71_000, jobs_queued: 3, jobs_running: 7, jobs_stuck: 0, streams: 2, stream_bytes: 5_120, workers: 4 };
    const [node, ...others] = members;
    return { at_ms: at, status: { node, members: others, totals: { logs: total }, counters, open, unreached_by_udp: false, slow: [{ addr: others[0].addr, aggregation: 'logs/matching', time_us: 310_000, usual_us: 9_000, lasts_ms: 42_000 }] }, shares, seconds: [second(at)], latest_tree: 1 };
  };
  const named = { call: 1, at_ms: start, service: 'logs', aggregation: 'matching', status: 'full', sampled: true, nodes: count, coverage: { asked: count * 2, contributed: count * 2 }, elapsed_us: 9_300 };
  const send = (response, value) => response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  const server = createServer((request, response) => {
    const file = FILES[request.url];
    if (file) return response.writeHead(200, { 'content-type': file[1] }).end(readFileSync(page + file[0]));
    if (request.url === '/v1/trees') return send(response, { trees: [named] });
    if (request.url === '/v1/trees/1') return send(response, { ...named, total_is_guess: false, missing: [], tree: treeOf(members) });
    if (request.url !== '/v1/watch') return response.writeHead(404, { 'content-type': 'application/problem+json' }).end('{}');
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const write = (name, data) => response.write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
    write('history', { seconds: Array.from({ length: 300 }, (_, back) => second(at - (299 - back) * 1_000)) });
    write('snapshot', snapshot());
    const timer = setInterval(() => write('snapshot', snapshot()), everyMs);
    response.on('close', () => clearInterval(timer));
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  const close = () => (server.closeAllConnections(), server.close());
  return { url: `http://127.0.0.1:${server.address().port}/`, close };
}
