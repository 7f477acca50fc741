// Stands in for operations that the server may not have yet: the retention of tables. Everything else goes to the server.

import { readTableRetention, writeTableRetention } from "../../web/core/xml.js";
import { KeyCredential } from "../../web/core/credential.js";
import { TableService } from "../../web/core/client.js";

// Returns an option for `openExplorer`. The operations are replaced if the server does not have them, or always if
// `always` is true. `sent` receives the bodies of the requests that changed something.
export function standIn(server, { always = false, sent = [] } = {}) {
  return async (page) => {
    const service = new TableService(server.account, server.endpoint, await KeyCredential.of(server.account, server.key));
    const [table] = (await service.listTables()).tables;
    if (always || !(await hasRetention(service, table))) await replaceRetention(page, sent);
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
