// What the browser keeps for the next visit, or for this tab. A browser that keeps nothing is no error.

/** @typedef {Pick<Storage, "getItem" | "setItem" | "removeItem">} Store */

/** @param {() => Storage} storage  whose getter throws if the browser forbids it */
function guarded(storage) {
  /**
   * @template T
   * @param {(storage: Storage) => T} use
   * @param {T} otherwise
   */
  const attempt = (use, otherwise) => {
    try {
      return use(storage());
    } catch {
      return otherwise;
    }
  };
  /** @type {Store} */
  const store = {
    getItem: (name) => attempt((kept) => kept.getItem(name), null),
    setItem: (name, value) => attempt((kept) => kept.setItem(name, value), undefined),
    removeItem: (name) => attempt((kept) => kept.removeItem(name), undefined),
  };
  return store;
}

export const browserStore = guarded(() => localStorage);
export const tabStore = guarded(() => sessionStorage);
