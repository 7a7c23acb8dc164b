// The view that the address names, as in #/trees/12.
import { Store } from './store.js';

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // typed by hand
  }
}

const read = () => location.hash.replace(/^#\/?/, '').split('/').map(decoded);

export const route = new Store(read());

addEventListener('hashchange', () => route.set(read()));

export const go = (...parts) => (location.hash = `/${parts.map(encodeURIComponent).join('/')}`);
