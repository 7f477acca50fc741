// What programs need to reach the account. Secrets are never part of it: programs read them from the environment.
// This module must not know languages.

/** @import { Query } from "../query.js" */

/**
 * What a program is written for. `select` has the keys, too, as every selection of the explorer. `sas` is a signature that
 * was made for this purpose.
 * @typedef {{endpoint: string, account: string, table: string, query: Query, sas: string | null}} Task
 */

export const VARIABLE = "AZURE_STORAGE_CONNECTION_STRING";
export const PAGE_ENTITIES_MAX = 1000;

/** A comment that says what the variable holds. @param {Task} task @param {string} mark */
export function connectionComment({ endpoint, account }, mark) {
  const protocol = endpoint.startsWith("https:") ? "https" : "http";
  return [
    `${mark} ${VARIABLE} holds`,
    `${mark}   DefaultEndpointsProtocol=${protocol};AccountName=${account};AccountKey=...;TableEndpoint=${endpoint};`,
    `${mark} or TableEndpoint=${endpoint};SharedAccessSignature=...`,
  ].join("\n");
}

/** Whether connections are not encrypted, which some libraries refuse unless they are told. @param {Task} task */
export function isPlain({ endpoint }) {
  return endpoint.startsWith("http:");
}

/** The entities of a page, if not all are wanted. @param {Task} task */
export function pageSize({ query: { top } }) {
  return top === null ? null : Math.min(top, PAGE_ENTITIES_MAX);
}
