// What responses tell besides entities, and the parameters that continue a query.

/** @typedef {{partitionKey: string, rowKey: string}} Continuation */
/** @typedef {[string] | [string, string] | null} Bound */
/**
 * The server's report about a page: which key ranges it read, and how many entities it examined to return the page.
 * `index` is the property whose index it read, if any.
 * @typedef {{plan: string, ranges: {from: Bound, to: Bound}[], rangeCount: number, index?: string, examined: number,
 *   returned: number, microseconds: number}} Explain
 */
/**
 * @typedef {{explain: Explain | null, milliseconds: number, bytes: number, entities: number, requestId: string}} PageReport
 */
/**
 * The load of something, per second. `load` is the estimated processor time, and `waiting` the time that requests waited,
 * both in seconds.
 * @typedef {{load: number, reads_per_second: number, writes_per_second: number, rows_per_second: number,
 *   waiting: number}} LoadRates
 */
/**
 * The load of a cluster (docs/extensions.md). Times are in Unix seconds.
 * @typedef {{servers: number, advice: string, action: string,
 *   nodes: {id: number, name: string, may_have_shards: boolean, shards: number, load: LoadRates}[],
 *   shards: {id: number, first: number, last: number, node: number | null, load: LoadRates}[],
 *   partitions: {account: string, table: string, partition: string, load: number}[],
 *   steps: {began: number, step: string, ended: number | null, error: string | null}[]}} ClusterLoad
 */

/** @param {Continuation | null | undefined} next */
export function tokensOf(next) {
  return { NextPartitionKey: next?.partitionKey, NextRowKey: next?.rowKey || undefined };
}

/**
 * @param {Response} response
 * @returns {Continuation | null}
 */
export function continuationOf({ headers }) {
  const partitionKey = headers.get("x-ms-continuation-NextPartitionKey");
  const rowKey = headers.get("x-ms-continuation-NextRowKey") ?? "";
  return partitionKey === null ? null : { partitionKey, rowKey };
}

/** @param {Response} response */
export function requestIdOf(response) {
  return response.headers.get("x-ms-request-id") ?? "";
}

/**
 * What the headers of an error response say. The reason is empty if the server does not tell it.
 * @typedef {{requestId: string, reason: string}} RefusalHead
 * @param {Response} response
 * @returns {RefusalHead}
 */
export function refusalHeadOf(response) {
  // The reason begins with the name of its kind, for programs and for the documentation.
  const reason = (response.headers.get("x-ms-rowhouse-reason") ?? "").replace(/^[a-z-]+: /, "");
  return { requestId: requestIdOf(response), reason };
}
