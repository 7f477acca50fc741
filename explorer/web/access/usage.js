// The requests of the last hours, from the rows of Storage Analytics (docs/analytics.md).
//
// Pure: knows no page and no service.

/** @typedef {import("../core/edm.js").Entity} Entity */
/**
 * @typedef {{operation: string, requests: number, failed: number, milliseconds: number, ingress: number, egress: number}} Usage
 */

const HOUR_MS = 3_600_000;
const HOURS = 24;

export const METRICS_TABLE = "$MetricsHourPrimaryTransactionsTable";

/**
 * The filter for the rows of users in the last 24 hours.
 * @param {Date} now
 */
export function usageFilter(now) {
  const [hour = ""] = new Date(now.getTime() - HOURS * HOUR_MS).toISOString().replaceAll("-", "").split(":");
  return `PartitionKey ge '${hour}00' and RowKey ge 'user;' and RowKey lt 'user<'`;
}

/**
 * Rows added up by operation, the most frequent one first; `All` is the last.
 * @param {Entity[]} rows
 * @returns {Usage[]}
 */
export function usageOf(rows) {
  /** @type {Map<string, Usage>} */
  const all = new Map();
  for (const { rowKey, properties } of rows) {
    const number = (/** @type {string} */ name) => Number(properties.get(name)?.text ?? 0);
    const operation = rowKey.replace(/^user;/, "");
    const usage = all.get(operation) ?? { operation, requests: 0, failed: 0, milliseconds: 0, ingress: 0, egress: 0 };
    const requests = number("TotalRequests");
    const succeeded = number("Success") + number("AnonymousSuccess") + number("SASSuccess");
    // Latencies are averages of the successful requests.
    usage.milliseconds += number("AverageServerLatency") * succeeded;
    usage.requests += requests;
    usage.failed += requests - succeeded;
    usage.ingress += number("TotalIngress");
    usage.egress += number("TotalEgress");
    all.set(operation, usage);
  }
  const used = [...all.values()].filter(({ requests }) => requests > 0);
  used.forEach((usage) => (usage.milliseconds /= Math.max(usage.requests - usage.failed, 1)));
  const isTotal = (/** @type {Usage} */ usage) => Number(usage.operation === "All");
  return used.sort((one, other) => isTotal(one) - isTotal(other) || other.requests - one.requests);
}
