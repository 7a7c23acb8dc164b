// The search service: a box, documents, and how much of the index the answer is from.
import { useEffect, useRef, useState } from 'preact/hooks';
import { count, duration, plural } from '../format.js';
import { call } from '../gateway.js';
import { Coverage, Missing, Refusal } from '../part/coverage.jsx';
import { Panel } from '../part/panel.jsx';
import { route } from '../route.js';
import { useStore } from '../store.js';
import { TreePanels } from './trees.jsx';

const SHOWN = 20;
const DEADLINE_MS = 2_000;

// Two calls, as `treefold demo` makes them. The first counts the words in all partitions, so that all score alike; without
// its answer, each partition scores by its own counts.
async function search(query, signal) {
  const began = performance.now();
  const options = { min_coverage: 0, signal };
  const terms = await call('search', 'terms', { query }, { ...options, deadline: `${DEADLINE_MS / 2}ms` });
  // A partition that cannot count the query's words cannot search for them either.
  if (!terms.value && terms.missing.some(({ reason }) => reason === 'local_failed')) return terms;
  const left = Math.max(100, Math.round(DEADLINE_MS - (performance.now() - began)));
  const params = { query, k: SHOWN, statistics: terms.value };
  const answer = await call('search', 'topk', params, { ...options, deadline: `${left}ms`, explain: true });
  return { ...answer, elapsed_us: Math.round((performance.now() - began) * 1_000) };
}

export function Search() {
  const [, given = ''] = useStore(route);
  const [state, setState] = useState({ query: null, answer: null, problem: null, isBusy: false });
  const input = useRef();
  const running = useRef();

  const ask = async (query) => {
    running.current?.abort();
    running.current = new AbortController();
    const { signal } = running.current;
    setState((before) => ({ ...before, query, isBusy: true }));
    try {
      const answer = await search(query, signal);
      setState({ query, answer, problem: null, isBusy: false });
    } catch (problem) {
      if (!signal.aborted) setState({ query, answer: null, problem, isBusy: false });
    }
  };
  useEffect(() => {
    input.current.value = given;
    if (given) ask(given);
    else input.current.focus({ preventScroll: true });
    return () => running.current?.abort();
  }, [given]);

  const submit = (event) => {
    event.preventDefault();
    const query = input.current.value.trim();
    if (!query) return;
    if (query === given) ask(query);
    else location.hash = `/search/${encodeURIComponent(query)}`;
  };
  const { answer, problem, isBusy } = state;
  return (
    <div class={`view ${answer ? '' : 'fresh'}`}>
      <form class="search" role="search" onSubmit={submit}>
        <h1>Search all partitions</h1>
        <div class="search-box">
          <input id="query" ref={input} type="search" aria-label="Query" placeholder="Words, “a phrase”, title:word" autocomplete="off" spellcheck={false} enterkeyhint="search" />
          <button class="primary" aria-busy={isBusy}>
            Search
          </button>
        </div>
        {!answer && !problem && (
          <p class="hint">
            One call reaches every partition. Partial answers fold up a tree of nodes. Press <kbd>/</kbd> to come back to this box.
          </p>
        )}
      </form>
      {problem && <Refusal problem={problem} />}
      {answer && <Answer answer={answer} query={state.query} isOld={isBusy} />}
    </div>
  );
}

function Answer({ answer, query, isOld }) {
  const { value, coverage, missing, elapsed_us, tree } = answer;
  const hits = value?.hits ?? [];
  return (
    <div class={`answer ${isOld ? 'old-answer' : ''}`}>
      <div class="stack">
        <Panel title="Documents" note={value ? `${plural(value.matched, 'document')} in ${duration(elapsed_us)}` : `no answer in ${duration(elapsed_us)}`}>
          {!value && <p class="warning">No partition gave an answer.</p>}
          {value && hits.length === 0 && <p class="quiet pad">No document has “{query}”.</p>}
          <ol class="hits">
            {hits.map((hit) => (
              <Hit key={`${hit.partition} ${hit.document}`} {...hit} />
            ))}
          </ol>
          {value && value.matched > hits.length && <p class="hint">The best {count(hits.length)} are shown.</p>}
        </Panel>
      </div>
      <div class="stack">
        <Panel title="Coverage" note={missing.length ? 'some partitions are missing' : 'every partition answered'}>
          <div class="pad">
            <Coverage coverage={coverage} missing={missing} />
            <Missing missing={missing} />
          </div>
        </Panel>
        {tree && <TreePanels tree={tree} missing={missing} />}
      </div>
    </div>
  );
}

function Hit({ title, path, score, snippet, highlights, partition }) {
  return (
    <li>
      <div class="hit-head">
        <strong>{title || path}</strong>
        <span class="number quiet" title="Score (BM25)">
          {score.toFixed(2)}
        </span>
      </div>
      <p>{marked(snippet, highlights)}</p>
      <span class="quiet path">
        <code>{path}</code> · partition {partition}
      </span>
    </li>
  );
}

// The snippet with its highlights, whose places count characters.
function marked(snippet, highlights) {
  const letters = [...snippet];
  const parts = [];
  let at = 0;
  for (const [begin, end] of highlights) {
    parts.push(letters.slice(at, begin).join(''), <mark key={begin}>{letters.slice(begin, end).join('')}</mark>);
    at = end;
  }
  parts.push(letters.slice(at).join(''));
  return parts;
}
