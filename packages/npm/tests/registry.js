// An npm registry in memory: it keeps the packages that are published to it and has no others. Prints its URL.

import { createServer } from "node:http";
import { json } from "node:stream/consumers";

const packages = new Map();
const files = new Map();

function publish({ _attachments: attachments, ...published }) {
  const path = `/${published.name}`;
  const known = packages.get(path);
  packages.set(path, {
    ...published,
    versions: { ...known?.versions, ...published.versions },
    "dist-tags": { ...known?.["dist-tags"], ...published["dist-tags"] },
  });
  for (const [file, { data }] of Object.entries(attachments)) files.set(`${path}/-/${file}`, Buffer.from(data, "base64"));
}

const server = createServer(async (request, response) => {
  const path = new URL(request.url, "http://localhost").pathname;
  if (request.method === "PUT") {
    publish(await json(request));
    response.writeHead(201, { "content-type": "application/json" }).end("{}");
  } else if (files.has(path)) {
    response.end(files.get(path));
  } else {
    const found = packages.get(path);
    response.writeHead(found ? 200 : 404, { "content-type": "application/json" }).end(JSON.stringify(found ?? {}));
  }
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/`));
