// How much of a call's partitions is in its answer, and why the rest is not.
import { count, groupMissing, percent, plural, ranges, reason, share } from '../format.js';

const CELLS_MAX = 128;
// Nodes of missing partitions that are named; more are counted.
const NODES_NAMED_MAX = 3;

export function Badge({ status }) {
  const mood = { full: 'good', partial: 'middling', insufficient: 'bad', refused: 'bad' }[status];
  return <span class={`badge ${mood}`}>{status}</span>;
}

export function Coverage({ coverage, missing }) {
  const { asked, contributed } = coverage;
  const lost = new Set(missing.map(({ partition }) => partition));
  const hasCells = asked <= CELLS_MAX && missing.every(({ partition }) => partition < asked);
  const text = `${contributed} of ${asked} partitions, ${percent(share(coverage))}`;
  return (
    <div class="coverage">
      <div class="cover-text">
        <strong>{percent(share(coverage))}</strong>
        <span class="quiet">
          {count(contributed)} of {plural(asked, 'partition')}
        </span>
      </div>
      <div class="cover" role="img" aria-label={text}>
        {hasCells ? (
          Array.from({ length: asked }, (_, id) => <i key={id} class={lost.has(id) ? 'lost' : ''} title={`Partition ${id}${lost.has(id) ? ': missing' : ''}`} />)
        ) : (
          <>
            <i style={{ flexGrow: contributed }} />
            {contributed < asked && <i class="lost" style={{ flexGrow: asked - contributed }} />}
          </>
        )}
      </div>
    </div>
  );
}

export function Missing({ missing }) {
  if (!missing.length) return null;
  return (
    <ul class="missing">
      {groupMissing(missing, ['reason', 'detail']).map((group) => (
        <li key={`${group.reason} ${group.detail}`}>
          <span>
            <strong>
              {group.partitions.length === 1 ? 'Partition' : 'Partitions'} {ranges(group.partitions, 12)}
            </strong>
            {group.nodes.length > NODES_NAMED_MAX ? ` at ${plural(group.nodes.length, 'node')}` : group.nodes.map((node, at) => (
              <span key={node}>
                {at ? ', ' : ' at '}
                <code>{node}</code>
              </span>
            ))}
          </span>
          <span class="quiet">
            <code>{group.reason}</code> · {reason(group.reason)}
            {group.detail && `: ${group.detail}`}
          </span>
        </li>
      ))}
    </ul>
  );
}

export function Refusal({ problem }) {
  const { document = {}, message } = problem;
  return (
    <div class="refusal" role="alert">
      <strong>{document.title ?? 'The request failed'}</strong>
      <span>{message}</span>
    </div>
  );
}
