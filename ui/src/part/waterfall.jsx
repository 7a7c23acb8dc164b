// A call's tree as a waterfall: a row for each node below its parent, and a bar for the times of the node.
import { useMemo } from 'preact/hooks';
import { duration, ranges } from '../format.js';
import { Rows } from './rows.jsx';

const ROW = 26;
const MOST = 520;
const PARTS = [
  ['queue', 'queue_us', 'Queued'],
  ['local', 'local_us', 'Local'],
  ['fold', 'reduce_us', 'Fold'],
  ['wait', 'wait_us', 'Waiting for children'],
];

// The rows of a tree, depth first, with the lines that lead to each.
function rowsOf(tree) {
  const rows = [];
  const open = [{ node: tree, rails: [] }];
  while (open.length) {
    const row = open.pop();
    rows.push(row);
    const { children } = row.node;
    for (let at = children.length - 1; at >= 0; at--) {
      open.push({ node: children[at], rails: [...row.rails, at < children.length - 1] });
    }
  }
  return rows;
}

// The parts of a bar, as shares of the whole. Locals run side by side, so their sum may be longer than the node's time; the
// bar is then as long as the node's time.
function barOf(node, scale) {
  const sum = PARTS.reduce((all, [, field]) => all + node[field], 0);
  const fit = sum > node.total_us && sum > 0 ? node.total_us / sum : 1;
  return PARTS.map(([name, field]) => [name, (node[field] * fit) / scale]).filter(([, width]) => width > 0);
}

export function Waterfall({ tree }) {
  const rows = useMemo(() => rowsOf(tree), [tree]);
  const scale = Math.max(1, ...rows.map(({ node }) => node.total_us));
  return (
    <div class="waterfall" role="table" aria-label="Times of each node">
      <div class="legend">
        {PARTS.map(([name, , label]) => (
          <span key={name}>
            <i class={name} /> {label}
          </span>
        ))}
      </div>
      <div class="fall head" role="row">
        <span role="columnheader">Node</span>
        <span role="columnheader">Partitions</span>
        <span role="columnheader" class="scale">
          <span>0</span>
          <span>{duration(scale / 2)}</span>
          <span>{duration(scale)}</span>
        </span>
        {PARTS.map(([name, , label]) => (
          <span role="columnheader" class="number detail" key={name} title={label}>
            {label.split(' ')[0]}
          </span>
        ))}
        <span role="columnheader" class="number">
          Total
        </span>
      </div>
      <Rows count={rows.length} height={ROW} most={MOST} label="Nodes" row={(at) => <Row key={at} {...rows[at]} scale={scale} />} />
      <p class="hint">Each bar begins when the call reached the node. Locals of several partitions run side by side.</p>
    </div>
  );
}

function Row({ node, rails, scale }) {
  const times = PARTS.map(([, field, label]) => `${label.toLowerCase()} ${duration(node[field])}`).join(', ');
  const place = node.rack ? `${node.node}, rack ${node.rack}` : node.node;
  return (
    <div class="fall" role="row" title={`${place}: ${times}, total ${duration(node.total_us)}`}>
      <span role="cell" class="name">
        {rails.map((goesOn, depth) => (
          <i key={depth} class={depth < rails.length - 1 ? (goesOn ? 'rail' : 'no-rail') : goesOn ? 'tee' : 'elbow'} aria-hidden="true" />
        ))}
        <span>{node.node}</span>
      </span>
      <span role="cell" class="quiet cut">
        {node.partitions.length ? ranges(node.partitions) : 'relay'}
      </span>
      <span role="cell" class="track">
        {barOf(node, scale).map(([name, width]) => (
          <i key={name} class={name} style={{ width: `${width * 100}%` }} />
        ))}
      </span>
      {PARTS.map(([name, field]) => (
        <span role="cell" class="number detail quiet" key={name}>
          {node[field] ? duration(node[field]) : '·'}
        </span>
      ))}
      <span role="cell" class="number">
        {duration(node.total_us)}
      </span>
    </div>
  );
}
