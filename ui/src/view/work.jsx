// The work of the node that carries this gateway: streams, shares, pushes, open tables and counters; and the cluster's
// mirrors and relays.
import { bytes, count, duration, milliseconds, perSecond, percent, words } from '../format.js';
import { live, membersOf, rate } from '../live.js';
import { Feed, feedsOf } from '../part/mirrors.jsx';
import { Figure, Panel } from '../part/panel.jsx';
import { useStore } from '../store.js';
import { Unseen } from './cluster.jsx';

const GROUPS = [
  ['Calls', /^calls_/],
  ['Waves and locals', /^(waves|locals|reductions|partials|repairs|retries|hedges|polls)/],
  ['Streams', /^stream_/],
  ['Pushes', /^pushes/],
  ['Messages', /./],
];

const slowLine = ({ addr, aggregation, time_us, usual_us, lasts_ms }) =>
  `${addr} has been slow for ${milliseconds(lasts_ms)}: ${duration(time_us)} ${aggregation ? `in ${aggregation}` : 'as a relay'}, where ${duration(usual_us)} are usual.`;

export function Work() {
  const state = useStore(live);
  const { status, phase, problem } = state;
  if (!status) return <Unseen phase={phase} problem={problem} />;
  const { open, node } = status;
  return (
    <div class="view">
      <h1 class="hidden">Work of this node</h1>
      <dl class="figures">
        <Figure label="This node" value={<span class="addr">{node.addr}</span>} />
        <Figure label="Open calls" value={count(open.calls)} />
        <Figure label="Open waves" value={count(open.waves)} />
        <Figure label="Jobs running" value={count(open.jobs_running)} note={` of ${node.processors}`} />
        <Figure label="Jobs queued" value={count(open.jobs_queued)} />
        <Figure label="Jobs stuck" value={count(open.jobs_stuck)} mood={open.jobs_stuck ? 'bad' : ''} />
      </dl>
      {status.slow.map((slow) => <p class="warning">{slowLine(slow)}</p>)}
      {status.unreached_by_udp && <p class="warning">No member reaches this node by UDP, so membership uses TCP.</p>}
      <div class="columns even">
        <div class="stack">
          <Panel title="Streams" note="that this node takes part in">
            <Facts
              rows={[
                ['Open streams', count(open.streams)],
                ['Waves', `${perSecond(rate(state, 'stream_waves'))} per second`],
                ['Held for the rest of a wave, or not yet taken', bytes(open.stream_bytes)],
                ['Abandoned children', count(status.counters.stream_repairs)],
              ]}
            />
            <Streams streams={status.streams ?? []} />
          </Panel>
          {feedsOf(status).map((feed) => (
            <Feed key={feed} feed={feed} />
          ))}
          <Relays status={status} />
          <Panel title="Workers of applications" note="attached to this node">
            <Facts
              rows={[
                ['Attached workers', count(open.workers)],
                ['Pushes', `${perSecond(rate(state, 'pushes'))} per second`],
                ['Requested again for lack of room', count(status.counters.pushes_dropped)],
              ]}
            />
          </Panel>
          <Panel title="Memory of partial answers">
            <Facts
              rows={[
                ['Waiting to be folded', bytes(open.held_bytes)],
                ['Kept for repair', `${bytes(open.kept_bytes)} of ${count(open.waves_kept)} waves`],
              ]}
            />
          </Panel>
        </div>
        <div class="stack">
          <Shares shares={state.shares} />
          <Counters state={state} />
        </div>
      </div>
    </div>
  );
}

const Facts = ({ rows }) => (
  <dl class="pairs">
    {rows.map(([name, value]) => (
      <div key={name}>
        <dt>{name}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
);

function Streams({ streams }) {
  if (!streams.length) return null;
  return (
    <div class="table streams" role="table" aria-label="Streams" tabIndex={0}>
      <div class="line head" role="row">
        {['Service', 'Part', 'Endpoints', 'Away', 'Children', 'Held'].map((title, at) => (
          <span role="columnheader" key={title} class={at > 1 ? 'number' : ''}>
            {title}
          </span>
        ))}
      </div>
      {streams.map((stream, at) => (
        <div class="line" role="row" key={at}>
          <span role="cell" title={stream.up_filter ? `filter ${stream.up_filter}` : 'no filter'}>
            {stream.service}
          </span>
          <span role="cell">{stream.is_front ? 'front-end' : stream.children ? 'inner' : 'leaf'}</span>
          <span role="cell" class="number">{count(stream.endpoints)}</span>
          <span role="cell" class={`number ${stream.away ? 'bad-text' : ''}`}>{count(stream.away)}</span>
          <span role="cell" class="number">{count(stream.children)}</span>
          <span role="cell" class="number">{bytes(stream.held_bytes)}</span>
        </div>
      ))}
    </div>
  );
}

function Relays({ status }) {
  const relays = membersOf(status).filter(({ roles }) => roles.includes('relay'));
  return (
    <Panel title="Relays" note="nodes that fold where the network's paths meet">
      {relays.length === 0 ? (
        <p class="quiet pad">No member is a relay.</p>
      ) : (
        <div class="table relays" role="table" aria-label="Relays" tabIndex={0}>
          <div class="line head" role="row">
            {['Address', 'Place', 'Load', 'Latency', 'Open'].map((title, at) => (
              <span role="columnheader" key={title} class={at > 1 ? 'number' : ''}>
                {title}
              </span>
            ))}
          </div>
          {relays.map((relay) => (
            <div class="line" role="row" key={relay.addr}>
              <span role="cell">{relay.addr}</span>
              <span role="cell">{[relay.zone, relay.rack].filter(Boolean).join(' / ') || '–'}</span>
              <span role="cell" class="number">{milliseconds(relay.load_ms)}</span>
              <span role="cell" class="number">{duration(relay.latency_us)}</span>
              <span role="cell" class="number">{count(relay.in_flight)}</span>
            </div>
          ))}
        </div>
      )}
    </Panel>
  );
}

// Shares count against those of the same class, so a service with a share of 2 gets twice the time of one with 1.
function Shares({ shares }) {
  const services = shares?.services ?? [];
  return (
    <Panel title="Shares of this node" note={shares && `processor time of the last ${count(Math.round(shares.window_s))} s`}>
      <div class="table shares" role="table" aria-label="Shares" tabIndex={0}>
        <div class="line head" role="row">
          {['Service', 'Share', 'Used', 'Queued', 'Refused'].map((title, at) => (
            <span role="columnheader" key={title} class={at ? 'number' : ''}>
              {title}
            </span>
          ))}
        </div>
        {services.map((service) => (
          <div class="line" role="row" key={service.service}>
            <span role="cell">{service.service === '*' ? 'all other work' : service.service}</span>
            <span role="cell" class="number">
              {service.share}
              {service.class === 'batch' && ' batch'}
            </span>
            <span role="cell" class="number">{percent(service.part_of_processors)}</span>
            <span role="cell" class="number">{milliseconds(service.queued_ms)}</span>
            <span role="cell" class="number">{count(service.refused)}</span>
          </div>
        ))}
      </div>
    </Panel>
  );
}

function Counters({ state }) {
  const rest = new Map(Object.entries(state.status.counters));
  const groups = GROUPS.map(([title, pattern]) => {
    const names = [...rest.keys()].filter((name) => pattern.test(name));
    names.forEach((name) => rest.delete(name));
    return [title, names];
  });
  return (
    <Panel title="Counters" note="since the node started">
      <table class="counters">
        <thead>
          <tr>
            <th scope="col">Counter</th>
            <th scope="col" class="number">
              Total
            </th>
            <th scope="col" class="number">
              Per second
            </th>
          </tr>
        </thead>
        {groups.map(([title, names]) => (
          <tbody key={title}>
            <tr class="group">
              <th scope="rowgroup" colSpan={3}>
                {title}
              </th>
            </tr>
            {names.map((name) => (
              <Counter key={name} name={name} state={state} />
            ))}
          </tbody>
        ))}
      </table>
    </Panel>
  );
}

function Counter({ name, state }) {
  const growth = rate(state, name);
  return (
    <tr>
      <th scope="row">{words(name)}</th>
      <td class="number">{count(state.status.counters[name])}</td>
      <td class={`number ${growth ? '' : 'quiet'}`}>{perSecond(growth)}</td>
    </tr>
  );
}
