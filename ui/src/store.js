// A value that parts of the page read and follow.
import { useEffect, useState } from 'preact/hooks';

export class Store {
  #followers = new Set();

  constructor(value) {
    this.value = value;
  }

  set(value) {
    this.value = value;
    for (const follower of [...this.#followers]) follower(value);
  }

  change(parts) {
    this.set({ ...this.value, ...parts });
  }

  follow(follower) {
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }
}

// The store's value; the part is drawn again when it changes.
export function useStore(store) {
  const [value, set] = useState(store.value);
  useEffect(() => {
    set(store.value);
    return store.follow(set);
  }, [store]);
  return value;
}
