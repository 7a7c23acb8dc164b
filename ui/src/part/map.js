// Places of the members on the map, by zone and rack, and their drawing.
import { milliseconds } from '../format.js';
import { colour } from '../theme.js';
import { FONT, SMALL, cut } from './canvas.jsx';

// Above this number members are tiles.
const CARDS_MAX = 64;
const CARD = { width: 158, height: 50, gap: 8 };
const TILE = { width: 18, height: 18, gap: 3 };
const RACK_GAP = 18;
const LABEL = 18;
// Load figures that are older than this are of a member that may be stalled.
export const OLD_MS = 10_000;

// Steps of load: predicted milliseconds of queued work for each processor.
export const STEPS = [
  [1, 'load0', 'below 1 ms'],
  [10, 'load1', '1–10 ms'],
  [50, 'load2', '10–50 ms'],
  [250, 'load3', '50–250 ms'],
  [Infinity, 'load4', 'above'],
];
const stepOf = (load) => STEPS.findIndex(([most]) => load < most);

export const isOld = (member) => member.load_age_ms != null && member.load_age_ms > OLD_MS;

// Members by zone, then by rack, in the order of names.
function grouped(members) {
  const order = new Intl.Collator('en', { numeric: true }).compare;
  const zones = new Map();
  for (const member of members) {
    if (!zones.has(member.zone)) zones.set(member.zone, new Map());
    const racks = zones.get(member.zone);
    if (!racks.has(member.rack)) racks.set(member.rack, []);
    racks.get(member.rack).push(member);
  }
  const sorted = (map) => [...map].sort(([a], [b]) => order(a, b));
  return sorted(zones).map(([zone, racks]) => ({
    zone,
    racks: sorted(racks).map(([rack, list]) => ({ rack, members: list.sort((a, b) => order(a.addr, b.addr)) })),
  }));
}

// A place for each member: racks flow from left to right within their zone.
export function layout(members, width) {
  const isCards = members.length <= CARDS_MAX;
  const size = isCards ? { ...CARD, width: Math.min(CARD.width, width) } : TILE;
  const pitch = { x: size.width + size.gap, y: size.height + size.gap };
  const places = [];
  const labels = [];
  let y = 0;
  for (const { zone, racks } of grouped(members)) {
    if (zone) {
      labels.push({ text: zone, x: 0, y: y + 10, isZone: true });
      y += LABEL + 2;
    }
    let [x, high] = [0, 0];
    for (const { rack, members: list } of racks) {
      const most = Math.max(1, Math.floor((width + size.gap) / pitch.x));
      const wanted = isCards ? list.length : Math.max(5, Math.ceil(Math.sqrt(list.length)));
      const perRow = Math.min(list.length, most, wanted);
      const wide = Math.max(perRow * pitch.x - size.gap, isCards ? 0 : 60);
      if (x > 0 && x + wide > width) {
        y += high + RACK_GAP - 6;
        [x, high] = [0, 0];
      }
      const head = rack ? LABEL : 0;
      if (rack) labels.push({ text: rack, x, y: y + 8, width: wide });
      list.forEach((member, at) => {
        const place = { x: x + (at % perRow) * pitch.x, y: y + head + Math.floor(at / perRow) * pitch.y };
        places.push({ member, ...place, width: size.width, height: size.height });
      });
      high = Math.max(high, head + Math.ceil(list.length / perRow) * pitch.y - size.gap);
      x += wide + RACK_GAP;
    }
    y += high + RACK_GAP;
  }
  return { places, labels, isCards, height: Math.max(40, y - RACK_GAP + 2) };
}

export function paint(context, { places, labels, isCards }, { self, chosen, hasFocus }) {
  const [ink, quiet, rule, surface, accent, track] = ['ink', 'quiet', 'rule', 'raised', 'accent', 'grid'].map(colour);
  const loads = STEPS.map(([, name]) => colour(name));
  context.textBaseline = 'middle';
  for (const { text, x, y, width, isZone } of labels) {
    context.font = isZone ? `600 ${FONT}` : SMALL;
    context.fillStyle = isZone ? ink : quiet;
    context.fillText(isZone ? text : cut(context, text, width), x, y);
  }
  const box = ({ x, y, width, height }, radius) => {
    context.beginPath();
    context.roundRect(x, y, width, height, radius);
  };
  for (const place of places) {
    const { member, x, y, width, height } = place;
    const step = stepOf(member.load_ms);
    if (!isCards) {
      box(place, 3);
      context.fillStyle = loads[step];
      context.fill();
    } else {
      box({ x: x + 0.5, y: y + 0.5, width: width - 1, height: height - 1 }, 6);
      context.fillStyle = surface;
      context.fill();
      context.strokeStyle = rule;
      context.lineWidth = 1;
      context.stroke();
      context.fillStyle = loads[step];
      context.beginPath();
      context.arc(x + 13, y + 15, 4, 0, 2 * Math.PI);
      context.fill();
      context.font = FONT;
      context.fillStyle = ink;
      context.fillText(cut(context, member.addr, width - 34), x + 23, y + 15.5);
      context.font = SMALL;
      context.fillStyle = quiet;
      const marks = [member.addr === self && 'this node', member.roles.includes('relay') && 'relay'].filter(Boolean);
      const text = [...marks, isOld(member) ? 'no news' : `${milliseconds(member.load_ms)}${marks.length ? '' : ' queued'}`].join(' · ');
      context.fillText(cut(context, text, width - 20), x + 10, y + 32);
      const share = Math.min(1, Math.log1p(member.load_ms) / Math.log1p(500));
      context.fillStyle = track;
      context.fillRect(x + 10, y + 42, width - 20, 2);
      context.fillStyle = loads[step];
      context.fillRect(x + 10, y + 42, (width - 20) * share, 2);
    }
    if (isOld(member)) {
      box(place, isCards ? 6 : 3);
      context.fillStyle = `${colour('surface')}b0`;
      context.fill();
      context.strokeStyle = colour('bad');
      context.setLineDash([3, 2]);
      context.stroke();
      context.setLineDash([]);
    }
    if (member.addr === self && !isCards) {
      context.fillStyle = ink;
      context.beginPath();
      context.arc(x + width / 2, y + height / 2, 2.5, 0, 2 * Math.PI);
      context.fill();
    }
    if (member.addr === chosen) {
      box({ x: x - 1, y: y - 1, width: width + 2, height: height + 2 }, isCards ? 7 : 4);
      context.strokeStyle = hasFocus ? accent : quiet;
      context.lineWidth = 2;
      context.stroke();
    }
  }
}

// The nearest member in the direction of an arrow key.
export function neighbour(places, from, key) {
  const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  let best = null;
  let least = Infinity;
  for (const place of places) {
    const [x, y] = [place.x - from.x, place.y - from.y];
    const along = x * dx + y * dy;
    if (place === from || along <= 0) continue;
    // A member in line is nearer than one beside the line.
    const distance = along + 3 * Math.abs(x * dy + y * dx);
    if (distance < least) [best, least] = [place, distance];
  }
  return best ?? from;
}

export const placeAt = (places, x, y) =>
  places.find((place) => x >= place.x && x < place.x + place.width && y >= place.y && y < place.y + place.height);
