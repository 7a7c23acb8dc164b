// A canvas that fits its place, and is drawn again when its place, the theme or its content changes.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { useStore } from '../store.js';
import { theme } from '../theme.js';

export function useWidth(ref) {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const { current } = ref;
    setWidth(current.clientWidth);
    const observer = new ResizeObserver(() => setWidth(current.clientWidth));
    observer.observe(current);
    return () => observer.disconnect();
  }, []);
  return width;
}

export function Canvas({ width, height, draw, ...rest }) {
  const canvas = useRef();
  const { dark } = useStore(theme);
  useEffect(() => {
    const { current } = canvas;
    const scale = devicePixelRatio || 1;
    const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
    if (current.width !== wide || current.height !== high) Object.assign(current, { width: wide, height: high });
    const context = current.getContext('2d');
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    draw(context);
  }, [width, height, draw, dark]);
  return <canvas ref={canvas} style={{ width: `${width}px`, height: `${height}px` }} {...rest} />;
}

const measured = new Map();

// A text cut to a width.
export function cut(context, text, width) {
  const key = `${context.font}|${Math.floor(width)}|${text}`;
  const known = measured.get(key);
  if (known !== undefined) return known;
  let shown = text;
  if (context.measureText(text).width > width) {
    let [least, most] = [0, text.length];
    while (least < most) {
      const middle = Math.ceil((least + most) / 2);
      if (context.measureText(`${text.slice(0, middle)}…`).width <= width) least = middle;
      else most = middle - 1;
    }
    shown = least > 0 ? `${text.slice(0, least)}…` : '';
  }
  if (measured.size > 5_000) measured.clear();
  measured.set(key, shown);
  return shown;
}

export const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
export const SMALL = FONT.replace('12px', '11px');
