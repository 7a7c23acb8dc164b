// The latest calls whose trees the gateway keeps, and one of them in detail.
import { useEffect, useState } from 'preact/hooks';
import { clock, duration, percent, plural, share } from '../format.js';
import { askJson } from '../gateway.js';
import { live } from '../live.js';
import { Badge, Coverage, Missing, Refusal } from '../part/coverage.jsx';
import { Panel } from '../part/panel.jsx';
import { Picture } from '../part/picture.jsx';
import { Waterfall } from '../part/waterfall.jsx';
import { go, route } from '../route.js';
import { useStore } from '../store.js';

// Pause between two looks at the list, for tokens that see no snapshots.
const LOOK_MS = 3_000;

function useTrees(isHeld) {
  const { latestTree, phase } = useStore(live);
  const [trees, setTrees] = useState({ list: null, problem: null });
  const [beat, setBeat] = useState(0);
  useEffect(() => {
    if (phase === 'live') return undefined;
    const timer = setInterval(() => setBeat((number) => number + 1), LOOK_MS);
    return () => clearInterval(timer);
  }, [phase]);
  useEffect(() => {
    if (isHeld && trees.list) return;
    askJson('v1/trees').then(
      ({ trees: list }) => setTrees({ list, problem: null }),
      (problem) => setTrees({ list: null, problem }),
    );
  }, [latestTree, beat, isHeld]);
  return trees;
}

function useTree(call) {
  const [tree, setTree] = useState({ content: null, problem: null });
  useEffect(() => {
    if (call == null) return;
    let isWanted = true;
    askJson(`v1/trees/${call}`).then(
      (content) => isWanted && setTree({ content, problem: null }),
      (problem) => isWanted && setTree({ content: null, problem }),
    );
    return () => (isWanted = false);
  }, [call]);
  return tree;
}

export function Trees() {
  const [, named] = useStore(route);
  const [isHeld, hold] = useState(false);
  const { list, problem } = useTrees(isHeld);
  // An address that names no call shows the latest one.
  const chosen = /^\d{1,15}$/.test(named ?? '') ? Number(named) : list?.[0]?.call;
  const { content, problem: gone } = useTree(chosen);
  return (
    <div class="view split">
      <h1 class="hidden">Trees</h1>
      <Panel
        title="Latest calls"
        class="calls"
        actions={
          <button class="plain" aria-pressed={isHeld} onClick={() => hold(!isHeld)}>
            {isHeld ? 'Resume' : 'Hold'}
          </button>
        }
      >
        {problem && <Refusal problem={problem} />}
        {list?.length === 0 && <p class="quiet pad">No call has been made through this gateway yet.</p>}
        <ol class="call-list">
          {(list ?? []).map((line) => (
            <li key={line.call}>
              <a href={`#/trees/${line.call}`} aria-current={line.call === chosen ? 'true' : undefined}>
                <i class={`dot ${line.status}`} title={line.status} />
                <span class="what">
                  {line.service}/{line.aggregation}
                </span>
                <span class="number">{duration(line.elapsed_us)}</span>
                <span class="quiet when">
                  {clock(line.at_ms)} · {plural(line.nodes, 'node')}
                </span>
                <span class={`number ${line.status === 'full' ? 'quiet' : 'bad-text'}`}>{percent(share(line.coverage))}</span>
              </a>
            </li>
          ))}
        </ol>
      </Panel>
      <div class="stack">
        {gone && named && (
          <Panel title={`Call ${named}`}>
            <Refusal problem={gone} />
            <button class="plain" onClick={() => go('trees')}>
              Show the latest
            </button>
          </Panel>
        )}
        {content && !gone && <Detail {...content} />}
      </div>
    </div>
  );
}

function Detail({ service, aggregation, status, coverage, missing, elapsed_us, tree, sampled, at_ms }) {
  return (
    <>
      <Panel title={`${service}/${aggregation}`} note={`${clock(at_ms)} · ${duration(elapsed_us)}${sampled ? ' · sampled by the gateway' : ''}`} actions={<Badge status={status} />}>
        <div class="pad">
          <Coverage coverage={coverage} missing={missing} />
          <Missing missing={missing} />
        </div>
      </Panel>
      <TreePanels tree={tree} missing={missing} />
    </>
  );
}

export const TreePanels = ({ tree, missing }) => (
  <>
    <Panel title="Tree" note="the slowest branch is bold">
      <Picture tree={tree} missing={missing} />
    </Panel>
    <Panel title="Waterfall" note="time at each node">
      <Waterfall tree={tree} />
    </Panel>
  </>
);
