// The query for a POSIX shell: with curl and a signature, and with Rowhouse's own command line.

import { pageSize } from "./programs.js";
import { isVisible, shellString, urlText } from "./strings.js";

/** @import { Task } from "./programs.js" */

/** @param {Task} task */
export function curl(task) {
  const {
    endpoint,
    table,
    query: { filter, select, top },
    sas,
  } = task;
  const options = [
    ...(filter ? [data("$filter", filter)] : []),
    ...(select ? [data("$select", select.join(","))] : []),
    ...(top === null ? [] : [data("$top", String(pageSize(task)))]),
  ];
  const lines = [
    // A signature is ASCII without quotes, and the double quotes around the variable keep it in one piece.
    `curl --fail-with-body --silent --show-error --get ${shellString(`${endpoint}/${urlText(table)}()`)}"?$TABLE_SAS"`,
    `--header ${shellString("Accept: application/json;odata=minimalmetadata")}`,
    `--header ${shellString("x-ms-version: 2019-02-02")}`,
    ...options,
  ];
  const signature =
    sas === null
      ? "# TABLE_SAS holds a shared access signature, without a question mark.\n"
      : `# It allows queries of this table, until it expires. Treat it as a secret.\nTABLE_SAS=${shellString(sas)}\n`;
  const page = "# One page. More follows while the response has x-ms-continuation headers (--include shows them).\n";
  return `${signature}${page}${lines.join(" \\\n  ")}\n`;
}

/** An option of the address; curl encodes what can be seen. @param {string} name @param {string} value */
function data(name, value) {
  return isVisible(value)
    ? `--data-urlencode ${shellString(`${name}=${value}`)}`
    : `--data ${shellString(`${urlText(name)}=${urlText(value)}`)}`;
}

/** @param {Task} task */
export function commandLine({ endpoint, table, query: { filter, select, top } }) {
  const options = [
    `--endpoint=${shellString(endpoint)}`,
    ...(filter ? [`--filter=${shellArgument(filter)}`] : []),
    ...(select ? [`--select=${shellArgument(select.join(","))}`] : []),
    ...(top === null ? [] : [`--top=${top}`]),
    `-- ${shellArgument(table)}`,
  ];
  return `# ROWHOUSE_KEY holds the account key, or a shared access signature. The development account needs neither.
rowhouse entity query \\\n  ${options.join(" \\\n  ")}\n`;
}

/** A text with characters that cannot be seen is made by printf, which has escapes. @param {string} text */
function shellArgument(text) {
  if (isVisible(text)) return shellString(text);
  const escaped = [...new TextEncoder().encode(text)].map((byte) => {
    const character = String.fromCharCode(byte);
    if (character === "%") return "%%";
    return /[ -~]/.test(character) && !/['\\]/.test(character) ? character : `\\${byte.toString(8).padStart(3, "0")}`;
  });
  return `"$(printf '${escaped.join("")}')"`;
}
