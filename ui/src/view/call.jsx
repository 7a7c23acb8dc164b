// A box to make any call.
import { useRef, useState } from 'preact/hooks';
import { duration } from '../format.js';
import { call } from '../gateway.js';
import { live } from '../live.js';
import { Badge, Coverage, Missing, Refusal } from '../part/coverage.jsx';
import { Panel } from '../part/panel.jsx';
import { useStore } from '../store.js';
import { TreePanels } from './trees.jsx';

// Aggregations of Treefold's own services, as suggestions: nodes do not tell the names of theirs.
const KNOWN = {
  search: ['topk', 'terms', 'sample', 'categorise', 'words'],
  micro: ['sum', 'spin', 'sleep', 'concat'],
  hosts: ['now'],
};
const SAMPLES = { 'search/topk': '{"query": "tree", "k": 5}', 'search/terms': '{"query": "tree"}', 'micro/spin': '{"local_ms": 5}' };
const SHOWN_MAX = 20_000;

// The fields outlast a change of view.
const fields = { service: '', aggregation: '', params: '', deadline: '2s', min_coverage: '1', partitions: '' };

export function Call() {
  const { status } = useStore(live);
  const [, draw] = useState(0);
  const [state, setState] = useState({ outcome: null, problem: null, isBusy: false });
  const running = useRef();
  const services = Object.keys(status?.totals ?? {});
  fields.service ||= services[0] ?? '';
  const set = (name) => (event) => {
    fields[name] = event.currentTarget.value;
    draw((number) => number + 1);
  };

  const submit = async (event) => {
    event.preventDefault();
    running.current?.abort();
    running.current = new AbortController();
    const { signal } = running.current;
    // A later call has taken this one's place on the page.
    const isCurrent = () => running.current.signal === signal;
    setState({ outcome: null, problem: null, isBusy: true });
    try {
      const { service, aggregation, params, deadline, min_coverage, partitions } = fields;
      const given = params.trim() === '' ? undefined : parsed(params);
      const outcome = await call(service, aggregation, given, { deadline, min_coverage, partitions, explain: true, signal });
      if (isCurrent()) setState({ outcome, problem: null, isBusy: false });
    } catch (problem) {
      if (!isCurrent()) return;
      if (!signal.aborted) setState({ outcome: null, problem, isBusy: false });
      else setState((now) => ({ ...now, isBusy: false }));
    }
  };
  const { outcome, problem, isBusy } = state;
  const sample = SAMPLES[`${fields.service}/${fields.aggregation}`];
  return (
    <div class="view split">
      <h1 class="hidden">Call</h1>
      <Panel title="Make a call">
        <form class="form pad" onSubmit={submit}>
          <label class="field">
            <span>Service</span>
            <input list="services" required value={fields.service} onInput={set('service')} autocomplete="off" spellcheck={false} />
            <datalist id="services">
              {services.map((name) => (
                <option key={name} value={name} />
              ))}
            </datalist>
          </label>
          <label class="field">
            <span>Aggregation</span>
            <input list="aggregations" required value={fields.aggregation} onInput={set('aggregation')} autocomplete="off" spellcheck={false} />
            <datalist id="aggregations">
              {(KNOWN[fields.service] ?? []).map((name) => (
                <option key={name} value={name} />
              ))}
            </datalist>
          </label>
          <label class="field wide">
            <span>Parameters (JSON; empty for none)</span>
            <textarea rows={4} value={fields.params} onInput={set('params')} spellcheck={false} placeholder={sample} />
          </label>
          <label class="field">
            <span>Deadline</span>
            <input value={fields.deadline} onInput={set('deadline')} placeholder="2s" spellcheck={false} />
          </label>
          <label class="field">
            <span>Minimum coverage</span>
            <input type="number" min="0" max="1" step="any" value={fields.min_coverage} onInput={set('min_coverage')} />
          </label>
          <label class="field wide">
            <span>Partitions (empty for all)</span>
            <input value={fields.partitions} onInput={set('partitions')} placeholder="0-3,7" spellcheck={false} />
          </label>
          <div class="wide buttons">
            <button class="primary" aria-busy={isBusy}>
              Call
            </button>
            {isBusy && (
              <button type="button" class="plain" onClick={() => running.current.abort()}>
                Cancel
              </button>
            )}
          </div>
        </form>
      </Panel>
      <div class="stack">
        <div role="status" class="hidden">
          {isBusy ? 'The call runs' : outcome ? `The answer is ${outcome.status}` : ''}
        </div>
        {problem && <Refusal problem={problem} />}
        {!outcome && !problem && <p class="quiet pad">{isBusy ? 'Waiting for the answer…' : 'The answer and its tree appear here.'}</p>}
        {outcome && <Outcome {...outcome} />}
      </div>
    </div>
  );
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw Object.assign(new Error(error.message), { document: { title: 'The parameters are not JSON' } });
  }
}

function Outcome({ status, value, coverage, missing, elapsed_us, tree }) {
  const text = JSON.stringify(value, null, 2);
  return (
    <>
      <Panel title="Answer" note={duration(elapsed_us)} actions={<Badge status={status} />}>
        <div class="pad">
          <Coverage coverage={coverage} missing={missing} />
          <Missing missing={missing} />
        </div>
        {status !== 'insufficient' && (
          <pre class="value" tabIndex={0} aria-label="Value">
            {text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}\n…` : text}
          </pre>
        )}
      </Panel>
      {tree && <TreePanels tree={tree} missing={missing} />}
    </>
  );
}
