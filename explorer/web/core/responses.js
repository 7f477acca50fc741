// The headers of responses, and the parameters that continue a query.

/** @import { Continuation } from "./client.js" */

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
