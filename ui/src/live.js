// The live state: a stream of events, one a second, that is opened again when it breaks.
import { ask, token } from './gateway.js';
import { Store } from './store.js';

export const HISTORY_S = 300;
const EVENTS_MAX = 200;
// The gateway sends an event each second.
const SILENT_MS = 15_000;
const PAUSE_MAX_MS = 15_000;

export const live = new Store({
  phase: 'connecting', // connecting, live, broken, denied, token
  problem: null,
  status: null,
  shares: null,
  before: null, // the status of the snapshot before, with its time
  at: 0,
  seconds: new Map(),
  latestTree: null,
  events: [],
});

let abort = null;

// Follows the stream for as long as the page is open.
export async function follow() {
  token.follow(({ wanted }) => !wanted && live.value.phase !== 'live' && restart());
  let pause = 500;
  for (;;) {
    try {
      await read(() => (pause = 500));
      live.change({ phase: 'broken', problem: 'The gateway has ended the connection.' });
    } catch (error) {
      const phase = error.status === 401 ? 'token' : error.kind === 'denied' ? 'denied' : 'broken';
      live.change({ phase, problem: error.name === 'AbortError' ? 'The gateway was silent.' : error.message });
    }
    await sleep(pause);
    pause = Math.min(pause * 2, PAUSE_MAX_MS);
  }
}

let wake = () => {};
const sleep = (ms) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    wake = () => (clearTimeout(timer), resolve());
  });

function restart() {
  abort?.abort();
  wake();
}

async function read(isSound) {
  abort = new AbortController();
  const { signal } = abort;
  let silence = setTimeout(() => abort.abort(), SILENT_MS);
  try {
    const response = await ask('v1/watch', { signal });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(silence);
      silence = setTimeout(() => abort.abort(), SILENT_MS);
      rest += value;
      for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
        take(rest.slice(0, end));
        rest = rest.slice(end + 2);
        isSound();
      }
    }
  } finally {
    clearTimeout(silence);
  }
}

function take(text) {
  const lines = text.split('\n');
  const field = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
  const data = JSON.parse(field('data') ?? 'null');
  if (field('event') === 'history') {
    live.value.seconds.clear();
    addSeconds(data.seconds);
  } else if (field('event') === 'snapshot') {
    addSeconds(data.seconds);
    const { status, at, events } = live.value;
    live.change({
      phase: 'live',
      problem: null,
      status: data.status,
      shares: data.shares,
      before: status && { status, at },
      at: data.at_ms,
      latestTree: data.latest_tree,
      events: status ? [...changes(status, data.status), ...events].slice(0, EVENTS_MAX) : events,
    });
  } else if (field('event') === 'problem') {
    live.change({ phase: 'broken', problem: data.detail });
  }
}

function addSeconds(seconds) {
  const { seconds: all } = live.value;
  for (const second of seconds) all.set(second.at_ms, second);
  // Keys are in order of time, except when the machine's clock was set back.
  for (const at of all.keys()) {
    if (all.size <= HISTORY_S) break;
    all.delete(at);
  }
}

// Members that came or went between two snapshots.
function changes(before, now) {
  const at = Date.now();
  const names = (status) => new Map(status.members.map((member) => [member.addr, member]));
  const [old, present] = [names(before), names(now)];
  const list = [];
  for (const [addr, member] of present) if (!old.has(addr)) list.push({ at, kind: 'joined', addr, member });
  for (const [addr, member] of old) if (!present.has(addr)) list.push({ at, kind: 'left', addr, member });
  return list;
}

// The last minutes as columns: times, and for each figure a value a second.
export function columns({ at, seconds }) {
  const times = [];
  const found = [];
  for (let back = HISTORY_S - 1; back >= 0; back--) {
    times.push((at - back * 1000) / 1000);
    found.push(seconds.get(at - back * 1000));
  }
  const column = (figure) => found.map(figure);
  return { times, column };
}

// The last complete second.
export const lastSecond = ({ at, seconds }) => seconds.get(at);

// Growth of a counter in a second, between the last two snapshots.
export function rate({ status, before, at }, name) {
  if (!status || !before || at <= before.at) return null;
  return ((status.counters[name] - before.status.counters[name]) * 1000) / (at - before.at);
}

// The members with the node itself first.
export const membersOf = (status) => (status ? [status.node, ...status.members] : []);
