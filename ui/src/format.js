// Figures and words as readers expect them.

const number = (digits) => new Intl.NumberFormat('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
const whole = number(0);
const tenths = number(1);
const hundredths = number(2);

export const count = (value) => (value == null ? '–' : whole.format(value));

export function perSecond(value) {
  if (value == null) return '–';
  return value > 0 && value < 10 && !Number.isInteger(value) ? tenths.format(value) : whole.format(value);
}

// A duration from microseconds.
export function duration(us) {
  if (us == null) return '–';
  if (us < 1_000) return `${whole.format(us)} µs`;
  const ms = us / 1_000;
  if (ms < 10) return `${hundredths.format(ms)} ms`;
  if (ms < 100) return `${tenths.format(ms)} ms`;
  if (ms < 1_000) return `${whole.format(ms)} ms`;
  return `${hundredths.format(ms / 1_000)} s`;
}

export const milliseconds = (ms) => (ms == null ? '–' : duration(ms * 1_000));

export function bytes(value) {
  if (value == null) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let at = 0;
  let rest = value;
  while (rest >= 1024 && at < units.length - 1) (rest /= 1024), at++;
  return `${at === 0 || rest >= 100 ? whole.format(rest) : tenths.format(rest)} ${units[at]}`;
}

export function percent(share) {
  if (share == null) return '–';
  if (share === 1) return '100 %';
  // Never rounded up to all.
  return `${(Math.floor(share * 1000) / 10).toFixed(1)} %`;
}

export const share = ({ asked, contributed }) => (asked ? contributed / asked : 1);

export const clock = (ms) => new Date(ms).toLocaleTimeString('en-GB');

// Ids as ranges: 0-3, 7.
export function ranges(ids, most = Infinity) {
  const sorted = [...ids].sort((a, b) => a - b);
  const parts = [];
  for (let at = 0; at < sorted.length; ) {
    let end = at;
    while (sorted[end + 1] === sorted[end] + 1) end++;
    parts.push(end > at ? `${sorted[at]}–${sorted[end]}` : `${sorted[at]}`);
    at = end + 1;
  }
  return parts.length > most ? `${parts.slice(0, most).join(', ')} …` : parts.join(', ');
}

export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

// Names of counters and tables in sentence case.
export const words = (name) => name.replaceAll('_', ' ').replace(/^./, (letter) => letter.toUpperCase());

const REASONS = {
  no_replica: 'no node in sight holds it',
  lost: 'the connection to its node broke, or its node left',
  late: 'its node did not answer in time',
  too_busy: 'its node was too busy to answer by the deadline',
  full: 'a queue or table of its node was full',
  unknown_aggregation: 'its node does not know the aggregation',
  not_hosted: 'its node does not hold it, or no longer',
  local_failed: 'its local function failed',
  local_panicked: 'its local function crashed',
  invalid_params: 'the aggregation does not accept the parameters',
  reduce_failed: 'a fold of its partial answer failed',
  filter_failed: 'a filter failed',
  overlap: 'its partial answer came on two ways',
  cancelled: 'the call was cancelled, or could no longer reach its minimum coverage',
  shutting_down: 'its node is shutting down',
  lagging: 'it is too far behind the others',
  other: 'a reason of a newer version',
};

export const reason = (name) => REASONS[name] ?? words(name);

// Missing partitions, those with the same values of the named fields together. Each group has its nodes.
export function groupMissing(missing, fields) {
  const groups = new Map();
  for (const lost of missing) {
    const key = JSON.stringify(fields.map((field) => lost[field]));
    if (!groups.has(key)) groups.set(key, { ...lost, partitions: [], nodes: [] });
    const group = groups.get(key);
    group.partitions.push(lost.partition);
    if (lost.node && !group.nodes.includes(lost.node)) group.nodes.push(lost.node);
  }
  return [...groups.values()];
}
