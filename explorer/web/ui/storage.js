// The storage of the browser, for later visits or for this tab. A browser without storage does not cause an error.

/** @typedef {Pick<Storage, "getItem" | "setItem" | "removeItem">} Store */

/** @param {() => Storage} storage  throws if the browser denies access */
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
