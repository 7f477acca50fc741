// Gives the browser a file to keep.

/**
 * @param {string} name
 * @param {string} type
 * @param {string[]} parts
 */
export function download(name, type, parts) {
  const address = URL.createObjectURL(new Blob(parts, { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  // The browser has begun to read it by then.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

export const JSON_LINES = "application/jsonl";
export const CSV = "text/csv";
