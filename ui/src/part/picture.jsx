// A call's tree as a picture: the root on the left, leaves on the right, the slowest branch in bold, and the nodes whose
// partitions are missing beside it.
import { useCallback, useMemo, useRef } from 'preact/hooks';
import { duration, groupMissing, plural, ranges, reason } from '../format.js';
import { colour } from '../theme.js';
import { Canvas, SMALL, cut, useWidth } from './canvas.jsx';

// Heights of a leaf: with a label, and at least.
const LABELLED = 15;
const LEAST = 1.2;
const MOST_HEIGHT = 460;
const PAD = 14;

// Places of the nodes: a leaf has a line of its own, and a parent is in the middle of its children.
function placesOf(tree, missing) {
  const places = [];
  let line = 0;
  let depth = 0;
  const enter = (node, level, parent, isSlowest) => {
    const place = { node, level, parent, isSlowest, line: 0 };
    places.push(place);
    depth = Math.max(depth, level);
    return place;
  };
  // Depth first without recursion: a chain of nodes may be long.
  const open = [[enter(tree, 0, null, true), 0]];
  while (open.length) {
    const top = open.at(-1);
    const [place, next] = top;
    const { children } = place.node;
    if (next < children.length) {
      top[1]++;
      const slowest = children.reduce((most, child) => (child.total_us > most.total_us ? child : most));
      const child = children[next];
      open.push([enter(child, place.level + 1, place, place.isSlowest && child === slowest), 0]);
      place.first ??= open.at(-1)[0];
      place.last = open.at(-1)[0];
      continue;
    }
    place.line = children.length ? (place.first.line + place.last.line) / 2 : line++;
    open.pop();
  }
  const lost = groupMissing(missing, ['node', 'reason', 'detail']).map((group) => ({ group, level: 1, line: line++, parent: places[0] }));
  if (lost.length) depth = Math.max(depth, 1);
  return { places, lost, lines: Math.max(1, line), depth };
}

export function Picture({ tree, missing }) {
  const box = useRef();
  const width = useWidth(box);
  const { places, lost, lines, depth } = useMemo(() => placesOf(tree, missing), [tree, missing]);
  // Up to sixty leaves have labels, if need be with scrolling; more are fitted in.
  const fitted = MOST_HEIGHT / lines;
  const spacing = lines > 60 ? Math.max(LEAST, fitted) : Math.min(30, Math.max(LABELLED, fitted));
  const height = Math.max(64, lines * spacing + 2 * PAD);
  const draw = useCallback(
    (context) => paint(context, { places, lost, depth, width, spacing, height, lines }),
    [places, lost, width],
  );
  const text = `Tree with ${plural(places.length, 'node')} on ${plural(depth + 1, 'level')}; ${lost.length ? `missing: ${lost.map(({ group }) => group.node ?? 'no node').join(', ')}` : 'nothing is missing'}. The table below has the same.`;
  return (
    <div class="picture" ref={box}>
      {width > 0 && <Canvas width={width} height={height} draw={draw} role="img" aria-label={text} />}
    </div>
  );
}

function paint(context, { places, lost, depth, width, spacing, height, lines }) {
  const [ink, quiet, line, accent, bad, surface] = ['ink', 'quiet', 'rule', 'accent', 'bad', 'surface'].map(colour);
  const hasLabels = spacing >= LABELLED;
  // The last column has room for labels.
  const label = hasLabels ? Math.min(190, width * 0.34) : 12;
  const step = depth ? (width - 2 * PAD - label) / depth : 0;
  const top = (height - (lines - 1) * spacing) / 2;
  const x = ({ level }) => PAD + 4 + level * step;
  const y = (place) => top + place.line * spacing;
  context.font = SMALL;
  context.textBaseline = 'middle';
  const edge = (from, to) => {
    const middle = (x(from) + x(to)) / 2;
    context.beginPath();
    context.moveTo(x(from), y(from));
    context.bezierCurveTo(middle, y(from), middle, y(to), x(to), y(to));
    context.stroke();
  };
  context.strokeStyle = line;
  context.lineWidth = 1.2;
  for (const place of places) if (place.parent && !place.isSlowest) edge(place.parent, place);
  context.strokeStyle = bad;
  context.setLineDash([3, 3]);
  for (const place of lost) edge(place.parent, place);
  context.setLineDash([]);
  context.strokeStyle = accent;
  context.lineWidth = 2;
  for (const place of places) if (place.parent && place.isSlowest) edge(place.parent, place);

  const radius = Math.max(1.2, Math.min(4.5, spacing / 2.6));
  const dot = (place, fill, stroke) => {
    context.beginPath();
    context.arc(x(place), y(place), radius, 0, 2 * Math.PI);
    context.fillStyle = fill;
    context.fill();
    if (stroke) {
      context.strokeStyle = stroke;
      context.lineWidth = 1.5;
      context.stroke();
    }
  };
  for (const place of places) {
    dot(place, place.isSlowest ? accent : place.node.partitions.length ? quiet : surface, place.node.partitions.length ? null : quiet);
  }
  for (const place of lost) dot(place, surface, bad);
  if (!hasLabels) return;
  for (const place of places) {
    // The edges to missing nodes begin at the root.
    const isInner = place.node.children.length > 0 || (place.level === 0 && lost.length > 0);
    const room = isInner ? step - 14 : width - x(place) - 10;
    const name = place.node.node.replace(/^127\.0\.0\.1/, '');
    const whole = `${name} · ${duration(place.node.total_us)}`;
    const text = context.measureText(whole).width > room ? name : whole;
    const shown = cut(context, text, room);
    if (isInner) {
      // Above its edges, which may not cross it.
      context.fillStyle = surface;
      context.fillRect(x(place) - 5, y(place) - 19, context.measureText(shown).width + 2, 13);
    }
    context.fillStyle = place.isSlowest ? ink : quiet;
    if (isInner) {
      context.fillText(shown, x(place) - 4, y(place) - 12);
    } else {
      context.fillText(shown, x(place) + 9, y(place));
    }
  }
  context.fillStyle = bad;
  for (const place of lost) {
    const { node, partitions } = place.group;
    const text = `${node ? `${node.replace(/^127\.0\.0\.1/, '')} · ` : ''}${ranges(partitions, 4)} · ${reason(place.group.reason)}`;
    context.fillText(cut(context, text, width - x(place) - 12), x(place) + 9, y(place));
  }
}
