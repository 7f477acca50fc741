// Stands in for operations that the server may not have yet: the retention and the indexes of tables. Everything else goes
// to the server.

import { readIndexes, readTableRetention, writeTableRetention } from "../../web/core/xml.js";
import { KeyCredential } from "../../web/core/credential.js";
import { watchIndexes } from "../../web/core/indexes.js";
import { TableService } from "../../web/core/client.js";

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
    if (always || !(await addIndexes(service, table, indexes))) await replaceIndexes(page, sent, indexes);
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
