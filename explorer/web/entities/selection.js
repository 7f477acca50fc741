// Which entities are selected. Knows nothing of what they hold.

/** @template T */
export class Selection {
  /** @type {Set<T>} */
  #items = new Set();
  /** The line that a range starts from. */
  anchor = 0;

  get size() {
    return this.#items.size;
  }

  /** @param {T} item */
  has(item) {
    return this.#items.has(item);
  }

  /** @param {T} item */
  toggle(item) {
    if (!this.#items.delete(item)) this.#items.add(item);
  }

  /** @param {T[]} list @param {number} line */
  range(list, line) {
    const from = Math.max(0, Math.min(this.anchor, line));
    const to = Math.min(list.length - 1, Math.max(this.anchor, line));
    this.#items = new Set(list.slice(from, to + 1));
  }

  /** @param {T[]} list */
  all(list) {
    this.#items = new Set(list);
  }

  clear() {
    this.#items.clear();
  }

  /** Follows what was replaced. @param {Map<T, T | null>} replaced */
  follow(replaced) {
    for (const [before, after] of replaced) {
      if (this.#items.delete(before) && after) this.#items.add(after);
    }
  }

  /** @param {T[]} list */
  of(list) {
    return this.#items.size === 0 ? [] : list.filter((item) => this.#items.has(item));
  }
}
