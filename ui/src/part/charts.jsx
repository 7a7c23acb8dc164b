// Curves of the last minutes: calls a second, their durations, and their coverage.
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { duration, perSecond, percent } from '../format.js';
import { HISTORY_S, columns, lastSecond, live } from '../live.js';
import { useStore } from '../store.js';
import { colour, theme } from '../theme.js';
import { useWidth } from './canvas.jsx';
import { Panel } from './panel.jsx';

const HEIGHT = 150;

const CURVES = {
  calls: {
    title: 'Calls per second',
    show: perSecond,
    series: [
      ['Full', 'good', ({ full }) => full],
      ['Partial', 'middling', ({ partial }) => partial],
      ['No answer', 'bad', ({ insufficient, failed }) => insufficient + failed],
    ],
    idle: 0,
    fills: true,
    range: (u, least, most) => [0, Math.max(1, most * 1.1)],
  },
  durations: {
    title: 'Duration of calls',
    show: duration,
    series: [
      ['p50', 'accent', ({ p50_us }) => p50_us],
      ['p99', 'violet', ({ p99_us }) => p99_us],
    ],
    idle: null,
    range: (u, least, most) => [0, Math.max(100, most * 1.15)],
  },
  coverage: {
    title: 'Coverage of answers',
    show: percent,
    series: [['Mean', 'accent', ({ coverage }) => coverage]],
    idle: null,
    fills: true,
    range: () => [0, 1.04],
  },
};

// Points without a neighbour would be lines of no length.
const lonely = (u, at) => {
  const values = u.data[at];
  const shown = [];
  for (let index = 0; index < values.length; index++) {
    if (values[index] != null && values[index - 1] == null && values[index + 1] == null) shown.push(index);
  }
  return shown;
};

// Without a pointer over the curve, the legend has the last second.
function showLast(u) {
  if (u.cursor.idx == null) u.setLegend({ idx: u.data[0].length - 1 }, false);
}

function optionsOf({ series, show, range, fills }, width) {
  const [quiet, grid] = [colour('quiet'), colour('grid')];
  const font = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
  const axis = { stroke: quiet, font, grid: { stroke: grid, width: 1 }, ticks: { show: false } };
  return {
    width,
    height: HEIGHT,
    padding: [8, 18, 0, 0],
    cursor: { y: false, points: { size: 6 } },
    select: { show: false },
    scales: { y: { range } },
    legend: { live: true, markers: { width: 0, fill: (u, at) => colour(series[at - 1][1]) } },
    hooks: { setCursor: [showLast] },
    axes: [
      { ...axis, size: 24, gap: 4, space: 48, values: [[60, '{HH}:{mm}', null, null, null, null, null, null, 1], [1, '{HH}:{mm}:{ss}', null, null, null, null, null, null, 1]] },
      { ...axis, size: 58, gap: 6, space: 30, values: (u, splits) => splits.map((value) => (value > 1 && show === percent ? '' : show(value))) },
    ],
    series: [
      { label: 'Time', value: '{HH}:{mm}:{ss}' },
      ...series.map(([label, name]) => ({
        label,
        stroke: colour(name),
        width: 1.5,
        fill: fills ? `${colour(name)}22` : undefined,
        value: (u, value) => (value == null ? '–' : show(value)),
        points: { show: true, size: 4, fill: colour(name), filter: lonely },
      })),
    ],
  };
}

function Curve({ curve }) {
  const box = useRef();
  const plot = useRef();
  const width = useWidth(box);
  const state = useStore(live);
  const { dark } = useStore(theme);
  const data = () => {
    const { times, column } = columns(state);
    return [times, ...curve.series.map(([, , figure]) => column((second) => (second ? figure(second) : curve.idle)))];
  };
  useEffect(() => {
    if (!width) return undefined;
    plot.current = new uPlot(optionsOf(curve, width), data(), box.current);
    showLast(plot.current);
    return () => plot.current.destroy();
  }, [width, dark]);
  useEffect(() => {
    if (!plot.current) return;
    plot.current.setData(data());
    showLast(plot.current);
  }, [state.at]);
  const second = lastSecond(state);
  const now = curve.series.map(([label, , figure]) => `${label} ${second ? curve.show(figure(second)) : curve.idle === 0 ? '0' : '–'}`);
  return (
    <Panel title={curve.title} note={`last ${HISTORY_S / 60} minutes`} class="curve">
      <div ref={box} class="plot" role="img" aria-label={`${curve.title}, last second: ${now.join(', ')}`} />
    </Panel>
  );
}

export const Charts = () => (
  <div class="charts">
    {Object.entries(CURVES).map(([name, curve]) => (
      <Curve key={name} curve={curve} />
    ))}
  </div>
);
