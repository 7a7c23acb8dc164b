// A long list of rows of one height: only those in sight are in the document.
import { useEffect, useRef, useState } from 'preact/hooks';

// Rows beyond the edges, so that scrolling shows no gap.
const SPARE = 8;

export function Rows({ count, height, most, row, label, class: name = '' }) {
  const box = useRef();
  const [top, setTop] = useState(0);
  const visible = Math.min(count * height, most);
  useEffect(() => {
    const { current } = box;
    const scroll = () => setTop(current.scrollTop);
    current.addEventListener('scroll', scroll, { passive: true });
    return () => current.removeEventListener('scroll', scroll);
  }, []);
  const from = Math.max(0, Math.floor(top / height) - SPARE);
  const to = Math.min(count, Math.ceil((top + visible) / height) + SPARE);
  const rows = [];
  for (let at = from; at < to; at++) rows.push(row(at));
  return (
    <div ref={box} class={`rows ${name}`} style={{ maxHeight: `${most}px` }} role="rowgroup" aria-label={label} tabIndex={count * height > most ? 0 : undefined}>
      <div style={{ height: `${from * height}px` }} aria-hidden="true" />
      {rows}
      <div style={{ height: `${(count - to) * height}px` }} aria-hidden="true" />
    </div>
  );
}
