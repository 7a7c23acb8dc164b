// The cluster at a glance: figures, curves, members, services, and members that come and go.
import { clock, count, duration, milliseconds, perSecond, percent, plural, ranges } from '../format.js';
import { lastSecond, live, membersOf } from '../live.js';
import { Charts } from '../part/charts.jsx';
import { Members } from '../part/members.jsx';
import { Figure, Panel } from '../part/panel.jsx';
import { useStore } from '../store.js';

export function Cluster() {
  const state = useStore(live);
  const { status, phase, problem, events } = state;
  if (!status) return <Unseen phase={phase} problem={problem} />;
  return (
    <div class="view">
      <h1 class="hidden">Cluster</h1>
      {phase === 'broken' && <p class="warning" role="alert">{problem} The figures below are the last ones known.</p>}
      <Figures state={state} />
      <Charts />
      <div class="columns">
        <Members status={status} />
        <div class="stack">
          <Services status={status} />
          <Events events={events} />
        </div>
      </div>
    </div>
  );
}

export const Unseen = ({ phase, problem }) => (
  <div class="panel token">
    <h1>{phase === 'denied' ? 'This token may not read' : 'No news from the gateway'}</h1>
    <p class="quiet">{phase === 'denied' ? 'It has no right to see the cluster (read). Calls and their trees may work.' : problem}</p>
  </div>
);

function Figures({ state }) {
  const { status } = state;
  const second = lastSecond(state);
  const members = membersOf(status);
  const loads = members.map(({ load_ms }) => load_ms);
  const most = Math.max(...loads);
  const cover = second?.coverage;
  return (
    <dl class="figures">
      <Figure label="Members" value={count(members.length)} />
      <Figure label="Calls per second" value={perSecond(second?.calls ?? 0)} />
      <Figure label="Median duration" value={second ? duration(second.p50_us) : '–'} />
      <Figure label="99th percentile" value={second ? duration(second.p99_us) : '–'} />
      <Figure label="Coverage" value={percent(cover)} mood={cover != null && cover < 1 ? 'middling' : ''} />
      <Figure label="Highest load" value={milliseconds(most)} />
    </dl>
  );
}

// For each service, the partitions that no member in sight holds, and the least and most replicas of the others.
function Services({ status }) {
  const services = Object.entries(status.totals).map(([name, { total, declared, refused }]) => {
    const replicas = new Uint16Array(total);
    const hosts = membersOf(status).filter(({ services: all }) => all[name]);
    for (const { services: all } of hosts) for (const id of all[name].partitions) if (id < total) replicas[id]++;
    const unheld = [];
    let [least, most] = [Infinity, 0];
    replicas.forEach((number, id) => {
      if (number === 0) unheld.push(id);
      else [least, most] = [Math.min(least, number), Math.max(most, number)];
    });
    return { name, total, declared, refused, hosts: hosts.length, unheld, least: Math.min(least, most), most };
  });
  return (
    <Panel title="Services" note="partitions in sight">
      {services.length === 0 && <p class="quiet pad">No member provides a service.</p>}
      <ul class="services">
        {services.map(({ name, total, declared, refused, hosts, unheld, least, most }) => (
          <li key={name}>
            <strong>{name}</strong>
            <span class="quiet">
              {plural(total, 'partition')}
              {!declared && ' or more'} on {plural(hosts, 'member')}, {least === most ? least : `${least} to ${most}`} {most === 1 ? 'copy' : 'copies'} each
            </span>
            {unheld.length > 0 ? (
              <span class="bad-text">No member holds {ranges(unheld, 8)}</span>
            ) : (
              <span class="good-text">All partitions are held</span>
            )}
            {refused.length > 0 && <span class="bad-text">{plural(refused.length, 'member')} with another total</span>}
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function Events({ events }) {
  return (
    <Panel title="Members that come and go" note="since this page was opened">
      {events.length === 0 ? (
        <p class="quiet pad">No change yet.</p>
      ) : (
        <ol class="events" tabIndex={0} aria-label="Events, latest first">
          {events.map(({ at, kind, addr, member }, index) => (
            <li key={`${at} ${addr} ${index}`}>
              <time>{clock(at)}</time>
              <i class={kind} aria-hidden="true" />
              <span>
                <code>{addr}</code> {kind}
                {member.rack && <span class="quiet"> · {[member.zone, member.rack].filter(Boolean).join(' / ')}</span>}
              </span>
            </li>
          ))}
        </ol>
      )}
    </Panel>
  );
}
