// The members by zone and rack with their load, as a map that keys walk over or as a table, and the chosen one in detail.
import { useCallback, useMemo, useRef, useState } from 'preact/hooks';
import { count, duration, milliseconds, plural, ranges } from '../format.js';
import { membersOf } from '../live.js';
import { Canvas, useWidth } from './canvas.jsx';
import { STEPS, isOld, layout, neighbour, paint, placeAt } from './map.js';
import { Panel } from './panel.jsx';
import { Rows } from './rows.jsx';

export function Members({ status }) {
  const [asTable, setAsTable] = useState(false);
  const [chosen, choose] = useState(null);
  const members = membersOf(status);
  const member = members.find(({ addr }) => addr === chosen);
  const zones = new Set(members.map(({ zone }) => zone)).size;
  const racks = new Set(members.map(({ zone, rack }) => `${zone} ${rack}`)).size;
  const note = `${plural(members.length, 'member')} · ${plural(zones, 'zone')} · ${plural(racks, 'rack')}`;
  const View = asTable ? Table : Map;
  return (
    <Panel
      title="Members"
      note={note}
      class="members"
      actions={
        <button class="plain" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
          {asTable ? 'Show map' : 'Show table'}
        </button>
      }
    >
      <View members={members} self={status.node.addr} chosen={chosen} choose={choose} />
      {!asTable && <Legend />}
      <Detail member={member} self={status.node.addr} />
    </Panel>
  );
}

const Legend = () => (
  <div class="legend">
    <span class="quiet">Queued work per processor</span>
    {STEPS.map(([, name, label]) => (
      <span key={name}>
        <i class={name} /> {label}
      </span>
    ))}
    <span>
      <i class="old" /> no news for 10 s
    </span>
  </div>
);

function Map({ members, self, chosen, choose }) {
  const box = useRef();
  const width = useWidth(box);
  const [hasFocus, setHasFocus] = useState(false);
  const places = useMemo(() => (width ? layout(members, width) : null), [members, width]);
  const draw = useCallback((context) => paint(context, places, { self, chosen, hasFocus }), [places, chosen, hasFocus]);
  const press = (event) => {
    const from = places.places.find(({ member }) => member.addr === chosen);
    if (event.key === 'Escape') choose(null);
    if (!event.key.startsWith('Arrow')) return;
    event.preventDefault();
    choose((from ? neighbour(places.places, from, event.key) : places.places[0]).member.addr);
  };
  const point = (event) => {
    const { left, top } = event.currentTarget.getBoundingClientRect();
    choose(placeAt(places.places, event.clientX - left, event.clientY - top)?.member.addr ?? null);
  };
  return (
    <div class="map" ref={box}>
      {places && (
        <Canvas
          width={width}
          height={places.height}
          draw={draw}
          tabIndex={0}
          role="application"
          aria-label="Map of the members. Arrow keys choose one."
          onKeyDown={press}
          onClick={point}
          onFocus={() => setHasFocus(true)}
          onBlur={() => setHasFocus(false)}
        />
      )}
    </div>
  );
}

function Table({ members, chosen, choose }) {
  return (
    <div class="table members-table" role="table" aria-label="Members">
      <div class="line head" role="row">
        {['Address', 'Zone', 'Rack', 'Load', 'Latency', 'Open'].map((title, at) => (
          <span role="columnheader" key={title} class={at > 2 ? 'number' : ''}>
            {title}
          </span>
        ))}
      </div>
      <Rows
        count={members.length}
        height={28}
        most={420}
        label="Members"
        row={(at) => {
          const member = members[at];
          return (
            <button class={`line ${member.addr === chosen ? 'chosen' : ''} ${isOld(member) ? 'old' : ''}`} role="row" key={member.addr} onClick={() => choose(member.addr)}>
              <span role="cell">{member.addr}</span>
              <span role="cell">{member.zone || '–'}</span>
              <span role="cell">{member.rack || '–'}</span>
              <span role="cell" class="number">{milliseconds(member.load_ms)}</span>
              <span role="cell" class="number">{duration(member.latency_us)}</span>
              <span role="cell" class="number">{count(member.in_flight)}</span>
            </button>
          );
        }}
      />
    </div>
  );
}

function Detail({ member, self }) {
  if (!member) return <p class="hint">Choose a member with the mouse or the arrow keys.</p>;
  const services = Object.entries(member.services);
  const facts = [
    ['Zone', member.zone || '–'],
    ['Rack', member.rack || '–'],
    ['Roles', member.roles.join(', ') || 'none'],
    ['Processors', count(member.processors)],
    ['Queued work', milliseconds(member.load_ms)],
    ['Open requests', count(member.in_flight)],
    ['Recent latency', duration(member.latency_us)],
    ['Last news', member.addr === self ? 'this node' : member.load_age_ms == null ? 'none yet' : `${milliseconds(member.load_age_ms)} ago`],
  ];
  return (
    <div class="detail-box" aria-live="polite">
      <strong>{member.addr}</strong>
      <dl class="facts">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
        {services.map(([name, { partitions, total }]) => (
          <div key={name} class="wide">
            <dt>{name}</dt>
            <dd>{partitions.length ? `partitions ${ranges(partitions, 24)} of ${count(total)}` : 'no partitions'}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}
