// Feeds: their origin's queues, and how far each mirror is behind. The page asks by ordinary calls, as `treefold mirror
// status` does.
import { useEffect, useState } from 'preact/hooks';
import { bytes, count, milliseconds, plural, ranges, reason } from '../format.js';
import { call } from '../gateway.js';
import { Panel } from './panel.jsx';

const LOOK_MS = 2_000;
const ORIGIN = '.origin';
const options = { deadline: '1500ms', min_coverage: 0 };

// Feeds have two services: one of their mirrors, and one of their origin.
export const feedsOf = (status) =>
  Object.keys(status.totals)
    .filter((name) => name.endsWith(ORIGIN))
    .map((name) => name.slice(0, -ORIGIN.length));

async function look(feed) {
  const [mirrors, origin] = await Promise.all([
    call(feed, 'status', null, options),
    call(`${feed}${ORIGIN}`, 'status', null, options).catch(() => ({ value: null })),
  ]);
  return { mirrors: mirrors.value ?? [], missing: mirrors.missing, origin: origin.value };
}

export function Feed({ feed }) {
  const [state, setState] = useState(null);
  useEffect(() => {
    let timer;
    let isWanted = true;
    const again = async () => {
      const found = await look(feed).catch((problem) => ({ problem: problem.message }));
      if (!isWanted) return;
      setState(found);
      timer = setTimeout(again, LOOK_MS);
    };
    again();
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [feed]);
  return (
    <Panel title={`Mirrors of ${feed}`} note={state?.origin ? `epoch ${state.origin.epoch}, mode ${state.origin.mode}` : 'no origin in sight'}>
      {!state && <p class="quiet pad">Asking the mirrors…</p>}
      {state?.problem && <p class="warning">{state.problem}</p>}
      {state?.mirrors && <Mirrors {...state} />}
    </Panel>
  );
}

function Mirrors({ mirrors, origin, missing }) {
  const epoch = Math.max(0, ...mirrors.map((mirror) => mirror.epoch));
  const furthest = Math.max(0, ...mirrors.filter((mirror) => mirror.epoch === epoch).map(({ position }) => position));
  const behind = (mirror) => (mirror.epoch === epoch ? count(furthest - mirror.position) : 'earlier epoch');
  const queue = ({ events, bytes: size }) => `${plural(events, 'event')}, ${bytes(size)}`;
  return (
    <>
      {origin && (
        <dl class="pairs">
          <div>
            <dt>Origin: waiting to be sent</dt>
            <dd>{queue(origin.ready)}</dd>
          </div>
          <div>
            <dt>Origin: sent, not yet at all mirrors</dt>
            <dd>{queue(origin.backup)}</dd>
          </div>
        </dl>
      )}
      <div class="table mirrors" role="table" aria-label="Mirrors" tabIndex={0}>
        <div class="line head" role="row">
          {['Mirror', 'Behind', 'Position', 'Keys', 'Readers', 'Last news'].map((title, at) => (
            <span role="columnheader" key={title} class={at ? 'number' : ''}>
              {title}
            </span>
          ))}
        </div>
        {mirrors.map((mirror) => (
          <div class="line" role="row" key={mirror.mirror}>
            <span role="cell">
              <i class={`dot ${mirror.is_current ? 'full' : 'partial'}`} title={mirror.is_current ? 'current' : 'not current'} /> {mirror.mirror}
            </span>
            <span role="cell" class="number">{behind(mirror)}</span>
            <span role="cell" class="number">{count(mirror.position)}</span>
            <span role="cell" class="number">{count(mirror.keys)}</span>
            <span role="cell" class="number">{count(mirror.readers)}</span>
            <span role="cell" class="number">{mirror.silent_ms == null ? 'none' : `${milliseconds(mirror.silent_ms)} ago`}</span>
          </div>
        ))}
      </div>
      {missing.length > 0 && (
        <p class="hint bad-text">
          No answer from {missing.length === 1 ? 'mirror' : 'mirrors'} {ranges(missing.map(({ partition }) => partition))}: {reason(missing[0].reason)}
        </p>
      )}
    </>
  );
}
