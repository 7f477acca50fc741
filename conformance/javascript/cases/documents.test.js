// Runs the JavaScript snippets in the documentation, unchanged. The tests of the package (packages/npm/tests) run the
// snippets about tests.

import assert from "node:assert";
import { execFile, spawn } from "node:child_process";
import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { TableClient } from "@azure/data-tables";
import { ACCOUNT, ENDPOINT, KEY, tableClient, uniqueName } from "../support/target.js";

const root = new URL("../../../", import.meta.url);
const packages = new URL("../node_modules", import.meta.url);
const documents = ["docs/getting-started.md", "docs/change-feed.md"];
const local = "http://127.0.0.1:10002/devstoreaccount1";
// Some snippets start their own server.
const binary = process.env.ROWHOUSE_BINARY;
const skip = binary ? false : "set ROWHOUSE_BINARY to the server program";

const snippets = [];
let folder;

before(async () => {
  for (const document of documents) {
    const text = await readFile(new URL(document, root), "utf8");
    for (const [, note, body] of text.matchAll(/^```javascript ?(.*)\n([\s\S]*?)^```/gm)) {
      const [kind, name] = note.split("=");
      snippets.push({ kind, name, body });
    }
  }
  folder = await mkdtemp(join(tmpdir(), "snippets-"));
  await writeFile(join(folder, "package.json"), '{ "type": "module" }');
  await symlink(packages.pathname, join(folder, "node_modules"));
});
after(() => rm(folder, { recursive: true }));

// Removes the variables of this test run from the environment. Fails unless Node.js succeeds. Returns the output.
async function run(args, environment = {}) {
  const { NODE_TEST_CONTEXT, ...inherited } = process.env;
  const options = { cwd: folder, env: { ...inherited, ...environment }, timeout: 300_000 };
  const { stdout } = await promisify(execFile)(process.execPath, args, options);
  return stdout;
}

test("every kind of snippet exists", () => {
  assert.deepStrictEqual(snippets.map(({ kind }) => kind), ["", "tls", "feed"]);
});

test("a script", async () => {
  const { body } = snippets.find(({ kind }) => kind === "");
  assert.ok(body.includes(local) && body.includes('"cars"'));
  const table = uniqueName("doc");
  const script = body
    .replace(local, ENDPOINT)
    .replace('"cars"', JSON.stringify(table))
    .replace("AccountName=devstoreaccount1", `AccountName=${ACCOUNT}`)
    .replace(/AccountKey=[^;]*/, `AccountKey=${KEY}`);
  await writeFile(join(folder, "script.js"), script);
  try {
    assert.strictEqual(await run(["script.js"]), "0007 981.5\n");
  } finally {
    await tableClient(table).deleteTable();
  }
});

test("a script over TLS", { skip }, async () => {
  const { body } = snippets.find(({ kind }) => kind === "tls");
  const request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -keyout key.pem -out ca.pem";
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"];
  await promisify(execFile)("openssl", [...request.split(" "), ...subject], { cwd: folder });
  const options = ["serve", "--in-memory", "--listen", "127.0.0.1:0", "--tls-cert", "ca.pem", "--tls-key", "key.pem"];
  const server = spawn(binary, options, { cwd: folder, stdio: ["ignore", "pipe", "ignore"] });
  try {
    const lines = createInterface({ input: server.stdout })[Symbol.asyncIterator]();
    const address = (await lines.next()).value.replace("listening on ", "");
    assert.ok(body.includes("https://127.0.0.1:10002"));
    await writeFile(join(folder, "tls.js"), body.replace("https://127.0.0.1:10002", address));
    assert.strictEqual(await run(["tls.js"], { NODE_EXTRA_CA_CERTS: "ca.pem" }), "");
    // Without the certificate authority, the connection fails. The script therefore depends on the authority.
    await assert.rejects(run(["tls.js"]), /certificate/);
  } finally {
    server.kill();
  }
});

test("a reader of the change feed", { skip, timeout: 300_000 }, async () => {
  const { body } = snippets.find(({ kind }) => kind === "feed");
  const options = ["serve", "--in-memory", "--keep-log", "1h", "--listen", "127.0.0.1:0"];
  const server = spawn(binary, options, { stdio: ["ignore", "pipe", "ignore"] });
  const linesOf = ({ stdout }) => createInterface({ input: stdout })[Symbol.asyncIterator]();
  const next = async (lines) => (await lines.next()).value;
  let reader;
  try {
    const announced = linesOf(server);
    await next(announced);
    const connection = (await next(announced)).replace("connection string: ", "");
    const table = TableClient.fromConnectionString(connection, "orders", { allowInsecureConnection: true });
    await table.createTable();
    await table.createEntity({ partitionKey: "p", rowKey: "1" });
    const development = "UseDevelopmentStorage=true";
    assert.ok(body.includes(development));
    assert.strictEqual(TableClient.fromConnectionString(development, "orders").url, local);
    await writeFile(join(folder, "feed.js"), body.replace(development, connection));
    reader = spawn(process.execPath, ["feed.js"], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
    const printed = linesOf(reader);
    assert.deepStrictEqual([await next(printed), await next(printed)], ["CreateTable undefined", "Put 1"]);
    await table.createEntity({ partitionKey: "p", rowKey: "2" });
    await table.deleteEntity("p", "1");
    assert.deepStrictEqual([await next(printed), await next(printed)], ["Put 2", "Delete 1"]);
  } finally {
    reader?.kill();
    server.kill();
  }
});
