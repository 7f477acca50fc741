// Stands in for operations that the server may not have yet: the retention and the indexes of tables, and tables that
// list entities in the order of an index. Everything else goes to the server.

import { readIndexes, readTableRetention, writeTableRetention } from "../../web/core/xml.js";
import { KeyCredential } from "../../web/core/credential.js";
import { watchIndexes } from "../../web/core/indexes.js";
import { TableService } from "../../web/core/client.js";

const PAGE_ENTITIES_MAX = 1000;
// A new index is being built in the first responses.
const BUILDING_RESPONSES = 2;

// Returns an option for `openExplorer`, for a server with one table. The operations are replaced if the server does not
// have them, or always if `always` is true. `sent` receives the bodies of the requests that changed something. The table
// has the given indexes.
export function standIn(server, { always = false, sent = [], indexes = [] } = {}) {
  return async (page) => {
    const service = new TableService(server.account, server.endpoint, await KeyCredential.of(server.account, server.key));
    const [table] = (await service.listTables()).tables;
    if (always || !(await hasRetention(service, table))) await replaceRetention(page, sent);
    if (!always && (await addIndexes(service, table, indexes))) return;
    await replaceIndexes(page, sent, indexes);
    await page.route((url) => /\/(\$|%24)By/.test(url.pathname), (route) => list(server, route));
  };
}

const isAt = (comp) => (url) => url.searchParams.get("comp") === comp;

function hasRetention(service, table) {
  return service.getRetention(table).then(() => true, () => false);
}

function replaceRetention(page, sent) {
  let retention = null;
  return page.route(isAt("retention"), (route) => {
    if (route.request().method() === "GET") return route.fulfill({ body: writeTableRetention(retention) });
    sent.push(route.request().postData());
    retention = readTableRetention(route.request().postData());
    return route.fulfill({ status: 204 });
  });
}

// Returns false if the server has no indexes.
async function addIndexes(service, table, properties) {
  try {
    await service.setIndexes(table, properties);
  } catch {
    return false;
  }
  for await (const _ of watchIndexes(service, table, new AbortController().signal));
  return true;
}

function replaceIndexes(page, sent, properties) {
  let indexes = properties.map((property) => ({ property, left: 0 }));
  return page.route(isAt("indexes"), (route) => {
    if (route.request().method() === "GET") {
      const body = `<TableIndexes>${indexes.map(write).join("")}</TableIndexes>`;
      indexes.forEach((index) => (index.left -= 1));
      return route.fulfill({ body });
    }
    sent.push(route.request().postData());
    const known = (property) => indexes.find((index) => index.property === property);
    const next = readIndexes(route.request().postData());
    indexes = next.map(({ property }) => known(property) ?? { property, left: BUILDING_RESPONSES });
    return route.fulfill({ status: 204 });
  });
}

function write({ property, left }) {
  const state = left > 0 ? "building" : "ready";
  return `<TableIndex><Property>${property}</Property><State>${state}</State></TableIndex>`;
}

// Answers a query of an ordered table. The continuation token is a position.
async function list(server, route) {
  const url = new URL(route.request().url());
  const [, property, descending, table] = /\$By(.+?)(Descending)?Of(\w+)\(\)$/.exec(decodeURIComponent(url.pathname));
  const options = new URLSearchParams(server.accountSas(["query"]));
  if (url.searchParams.has("$filter")) options.set("$filter", url.searchParams.get("$filter"));
  const headers = { Accept: "application/json;odata=minimalmetadata", "x-ms-version": "2019-02-02" };
  const found = [];
  for (let next = {}; next !== null; ) {
    const response = await fetch(`${server.endpoint}/${table}()?${new URLSearchParams([...options, ...Object.entries(next)])}`, { headers });
    found.push(...(await response.json()).value.filter((entity) => entity[property] !== undefined));
    const tokens = ["NextPartitionKey", "NextRowKey"].map((name) => [name, response.headers.get(`x-ms-continuation-${name}`)]);
    next = tokens[0][1] === null ? null : Object.fromEntries(tokens);
  }
  found.sort((a, b) => (descending ? b[property] - a[property] : a[property] - b[property]));
  const at = Number(url.searchParams.get("NextPartitionKey") ?? "0");
  const end = at + Number(url.searchParams.get("$top") ?? PAGE_ENTITIES_MAX);
  const select = url.searchParams.get("$select")?.split(",");
  const value = found.slice(at, end).map((entity) => {
    const names = Object.entries(entity).filter(([name]) => !select || name.startsWith("odata") || select.includes(name.split("@")[0]));
    return Object.fromEntries(names);
  });
  return route.fulfill({
    contentType: "application/json",
    headers: end < found.length ? { "x-ms-continuation-NextPartitionKey": String(end) } : {},
    body: JSON.stringify({ value }),
  });
}
