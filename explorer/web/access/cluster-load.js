// The load of the cluster in which the server keeps its data: nodes, shards, the hottest partitions of the account, and
// what would even out the load.

import { div, h, p, scrollableTable } from "../ui/dom.js";

/** @import { TableService } from "../core/client.js" */
/** @import { ClusterLoad, LoadRates } from "../core/responses.js" */

const SHARDS_SHOWN = 10;
const PARTITIONS_SHOWN = 10;
const RATES = ["Load", "Reads/s", "Writes/s", "Rows/s", "Waiting"];

/** @param {TableService} service */
export async function clusterLoad(service) {
  const load = await service.getClusterLoad();
  return div(null,
    p(null, `${upperFirst(load.advice)}.`),
    h("h3", null, "Nodes"),
    scrollableTable("Nodes", ["Node", "Shards", ...RATES], nodes(load)),
    h("h3", null, "Hottest shards"),
    scrollableTable("Hottest shards", ["Shard", "Node", ...RATES], hottestShards(load)),
    h("h3", null, "Hottest partitions of the account"),
    load.partitions.length === 0
      ? p(null, "None of the hottest partitions of the cluster is in this account.")
      : scrollableTable("Hottest partitions", ["Partition", "Table", "Load"], partitions(load)),
    h("h3", null, "Steps of the last day"),
    load.steps.length === 0
      ? p(null, "No shard was moved or split.")
      : scrollableTable("Steps", ["Began", "Step", "Result"], steps(load)),
    h("small", null,
      "A load of 1 keeps one processor core of the node busy. ",
      "Waiting is the time that requests waited, in seconds per second."));
}

/** @param {ClusterLoad} load */
function nodes({ nodes }) {
  return nodes.map(({ id, name, shards, load }) => line(`${id} ${name}`, [String(shards), ...rates(load)]));
}

/** @param {ClusterLoad} load */
function hottestShards({ shards }) {
  const hottest = [...shards].sort((one, other) => other.load.load - one.load.load).slice(0, SHARDS_SHOWN);
  return hottest.map(({ id, node, load }) => line(String(id), [String(node ?? "unknown"), ...rates(load)]));
}

/** @param {ClusterLoad} load */
function partitions({ partitions }) {
  return partitions.slice(0, PARTITIONS_SHOWN).map(({ table, partition, load }) => line(partition, [table, decimal(load)]));
}

/** @param {ClusterLoad} load */
function steps({ steps }) {
  return steps.map(({ began, step, ended, error }) => {
    const completed = ended === null ? "running, or interrupted" : `took ${ended - began} s`;
    const time = new Date(began * 1000).toISOString().replace(".000", "");
    return line(time, [step, error === null ? completed : `failed: ${error}`]);
  });
}

/** @param {LoadRates} load */
function rates({ load, reads_per_second, writes_per_second, rows_per_second, waiting }) {
  return [decimal(load), ...[reads_per_second, writes_per_second, rows_per_second].map(whole), decimal(waiting)];
}

/** @param {string} head @param {string[]} cells */
function line(head, cells) {
  return h("tr", null, h("th", { scope: "row" }, head), cells.map((cell) => h("td", null, cell)));
}

/** @param {number} value */
function decimal(value) {
  return value.toLocaleString("en", { minimumFractionDigits: 3, maximumFractionDigits: 3 });
}

/** @param {number} value */
function whole(value) {
  return value.toLocaleString("en", { maximumFractionDigits: 0 });
}

/** @param {string} text */
function upperFirst(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
