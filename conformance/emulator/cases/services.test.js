// Tests of the emulator's options and environment variables, with clients of all three services on free ports.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { TableClient, TableServiceClient } from "@azure/data-tables";
import { DEVELOPMENT_KEY, useAll, useTables } from "../support/clients.js";
import { BINARY, Emulator, FREE_PORTS, PROGRAMS, QUIET, newFolder } from "../support/emulator.js";

const KEYS = ["first", "second", "third"].map((text) => Buffer.from(text.repeat(8)).toString("base64"));

test("without options: all services in the current folder, and each request in the log", async (context) => {
  const cwd = newFolder(context);
  const emulator = Emulator.rowhouse(context, [...FREE_PORTS, "--disableTelemetry"], { cwd });
  await useAll(await emulator.connectionString());
  await emulator.line(/rowhouse::access.*GET/);
  await emulator.line(/PUT .*devstoreaccount1.* HTTP/);
  const started = emulator.lines.filter((line) => line.startsWith("Azurite "));
  const shapes = started.map((line) => line.replace(/:\d+$/, ":N"));
  assert.deepEqual(
    shapes,
    ["Blob", "Queue", "Table"].flatMap((service) => [
      `Azurite ${service} service is starting at http://127.0.0.1:N`,
      `Azurite ${service} service is successfully listening at http://127.0.0.1:N`,
    ]),
  );
  assert.deepEqual(await emulator.stop("SIGINT"), { code: 0, signal: null });
  for (const service of ["Blob", "Queue", "Table"]) {
    assert.ok(emulator.lines.includes(`Azurite ${service} service is closing...`), service);
    assert.ok(emulator.lines.includes(`Azurite ${service} service successfully closed`), service);
  }
  assert.ok(existsSync(join(cwd, "rowhouse-data")) && existsSync(join(cwd, "__azurite_db_blob__.json")));
});

test("several accounts, with one key and with two", async (context) => {
  const AZURITE_ACCOUNTS = `orchard:${KEYS[0]}:${KEYS[1]};meadow:${KEYS[2]}`;
  const environment = { AZURITE_ACCOUNTS };
  const emulator = Emulator.rowhouse(context, [...FREE_PORTS, ...QUIET, "--inMemoryPersistence"], { environment });
  await useAll(await emulator.connectionString("orchard", KEYS[0]));
  await useAll(await emulator.connectionString("orchard", KEYS[1]));
  await useAll(await emulator.connectionString("meadow", KEYS[2]));
  await assert.rejects(useTables(await emulator.connectionString()), { statusCode: 403 });
});

test("the error for an invalid account names it, and shows no key", async (context) => {
  const environment = { AZURITE_ACCOUNTS: `orchard:${KEYS[0]}:${KEYS[1]}:${KEYS[2]}` };
  const emulator = Emulator.rowhouse(context, FREE_PORTS, { environment });
  assert.equal((await emulator.exit).code, 1);
  const said = emulator.lines.join("\n");
  assert.match(said, /AZURITE_ACCOUNTS.*orchard.*3 keys/);
  assert.ok(!said.includes(KEYS[0]), said);
});

test("in memory, no file is written", async (context) => {
  const cwd = newFolder(context);
  const words = [...FREE_PORTS, ...QUIET, "--inMemoryPersistence", "--extentMemoryLimit", "16.5"];
  const emulator = Emulator.rowhouse(context, words, { cwd });
  await useAll(await emulator.connectionString());
  await emulator.stop();
  assert.ok(!existsSync(join(cwd, "rowhouse-data")) && !existsSync(join(cwd, "__azurite_db_blob__.json")));
});

test("the log of the Table service goes to the file named by --debug", async (context) => {
  const file = join(newFolder(context), "logs", "debug.log");
  const emulator = Emulator.rowhouse(context, ["--tablePort", "0", "--inMemoryPersistence", "-d", file], { path: "" });
  const line = await emulator.line(/Table service is successfully listening/);
  await fetch(line.split(" ").at(-1));
  await emulator.stop();
  const log = readFileSync(file, "utf8");
  assert.match(log, /npm install --global azurite/);
  assert.match(log, /DEBUG rowhouse::access.*GET/);
  assert.ok(!emulator.lines.some((line) => line.includes("INFO")), emulator.lines.join("\n"));
});

test("a paused reader of the output does not block requests for tables", { timeout: 300_000 }, async (context) => {
  const emulator = Emulator.rowhouse(context, [...FREE_PORTS, "--disableTelemetry", "--inMemoryPersistence"]);
  const connectionString = await emulator.connectionString();
  emulator.child.stdout.pause();
  const blobs = connectionString.match(/BlobEndpoint=([^;]+)/)[1];
  // The blob program writes a line for each request, until the pipe is full.
  const path = `/${"x".repeat(4000)}`;
  const requests = Array.from({ length: 100 }, () => fetch(blobs + path, { signal: AbortSignal.timeout(3000) }));
  await Promise.allSettled(requests);
  await useTables(connectionString);
  emulator.child.stdout.resume();
});

test("the emulator's table data is not read, and one message says so", async (context) => {
  const location = join(newFolder(context), "below", "that");
  mkdirSync(location, { recursive: true });
  writeFileSync(join(location, "__azurite_db_table__.json"), "{}");
  for (const isSaid of [true, false]) {
    const emulator = Emulator.rowhouse(context, [...FREE_PORTS, "-l", location], { path: "" });
    await emulator.line(/Table service is successfully listening/);
    assert.equal(emulator.lines.some((line) => line.includes("rowhouse copy --from")), isSaid);
    await emulator.stop();
  }
});

// Also creates the key of the certificate.
function newCertificate(folder) {
  const [cert, key] = ["cert.pem", "key.pem"].map((name) => join(folder, name));
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"];
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
  const files = ["-keyout", key, "-out", cert];
  execFileSync("openssl", ["req", "-x509", "-nodes", "-days", "2", ...curve, ...subject, ...files], { stdio: "ignore" });
  return { cert, key };
}

// The signature of the token cannot be verified.
function newToken(change = {}) {
  const now = Math.floor(Date.now() / 1000);
  const encode = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const issuer = "https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/";
  const claims = { aud: "https://storage.azure.com", iss: issuer, iat: now - 5, nbf: now - 5, exp: now + 600, ...change };
  const text = `${encode({ alg: "HS256", typ: "JWT" })}.${encode(claims)}`;
  return `${text}.${createHmac("sha256", "nobody's secret").update(text).digest("base64url")}`;
}

const credential = (change) => ({
  getToken: async () => ({ token: newToken(change), expiresOnTimestamp: Date.now() + 600_000 }),
});

test("a PEM certificate, and bearer tokens from any issuer with --oauth basic", async (context) => {
  const { cert, key } = newCertificate(newFolder(context));
  const words = [...FREE_PORTS, ...QUIET, "--inMemoryPersistence", "--cert", cert, "--key", key, "--oauth", "basic"];
  const emulator = Emulator.rowhouse(context, words);
  const connectionString = await emulator.connectionString();
  assert.match(connectionString, /TableEndpoint=https:/);
  // Node.js reads additional trusted certificates only at startup, so the client runs in a separate process.
  const script = `
    import { useAll } from ${JSON.stringify(new URL("../support/clients.js", import.meta.url).href)};
    await useAll(process.argv[1]);`;
  const { NODE_TEST_CONTEXT, ...env } = process.env;
  const trusting = { env: { ...env, NODE_EXTRA_CA_CERTS: cert } };
  execFileSync(process.execPath, ["--input-type=module", "--eval", script, connectionString], trusting);

  const endpoint = connectionString.match(/TableEndpoint=([^;]+)/)[1];
  const tls = { tlsOptions: { ca: readFileSync(cert, "utf8") }, retryOptions: { maxRetries: 0 } };
  const service = (change) => new TableServiceClient(endpoint, credential(change), tls);
  await service().createTable("orchards");
  const names = [];
  for await (const { name } of service().listTables()) {
    names.push(name);
  }
  assert.deepEqual(names, ["orchards"]);
  const refused = async (work, code, detail) => {
    await assert.rejects(work, (error) => {
      assert.equal(error.statusCode, 403);
      assert.equal(error.response.headers.get("x-ms-error-code"), code);
      assert.match(error.message, detail);
      return true;
    });
  };
  const later = Math.floor(Date.now() / 1000) + 3600;
  for (const [change, detail] of [
    [{ iss: "https://example.net/" }, /issuer/],
    [{ aud: "https://graph.windows.net" }, /audience/],
    [{ exp: 1 }, /expired/],
    [{ nbf: later, exp: later + 60 }, /Lifetime/],
    [{ iat: undefined }, /not supported/],
  ]) {
    await refused(service(change).createTable("meadows"), "AuthenticationFailed", detail);
  }
  const table = new TableClient(endpoint, "orchards", credential(), tls);
  await refused(table.getAccessPolicy(), "AuthorizationFailure", /./);
  await refused(table.setAccessPolicy([]), "AuthorizationFailure", /./);
});

test("every response names the version of the emulator", async (context) => {
  const emulator = Emulator.rowhouse(context, ["--tablePort", "0", "--inMemoryPersistence"], { path: "" });
  const line = await emulator.line(/Table service is successfully listening/);
  for (const version of ["2019-02-02", "2020-12-06", "2031-01-01", "yesterday"]) {
    const response = await fetch(`${line.split(" ").at(-1)}/devstoreaccount1/Tables`, { headers: { "x-ms-version": version } });
    assert.equal(response.headers.get("x-ms-version"), "2026-06-06", version);
  }
});

test("without --oauth, no token is accepted", async (context) => {
  const { cert, key } = newCertificate(newFolder(context));
  const words = ["--tablePort", "0", "--inMemoryPersistence", "--cert", cert, "--key", key];
  const emulator = Emulator.rowhouse(context, words, { path: "" });
  const line = await emulator.line(/Table service is successfully listening/);
  const tls = { tlsOptions: { ca: readFileSync(cert, "utf8") }, retryOptions: { maxRetries: 0 } };
  const service = new TableServiceClient(`${line.split(" ").at(-1)}/devstoreaccount1`, credential(), tls);
  await assert.rejects(service.createTable("orchards"), { statusCode: 400 });
});

test("without the emulator's programs, tables work and a message says how to get the other services", async (context) => {
  const emulator = Emulator.rowhouse(context, [...FREE_PORTS, ...QUIET], { path: "" });
  const line = await emulator.line(/Table service is successfully listening/);
  await emulator.line(/no blobs or queues are served.*npm install --global azurite/);
  await useTables(
    `DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;` +
      `AccountKey=${DEVELOPMENT_KEY};TableEndpoint=${line.split(" ").at(-1)}/devstoreaccount1`,
  );
  assert.deepEqual(emulator.children(), []);
});

test("the emulator's programs are found in the packages of the project", async (context) => {
  const project = newFolder(context);
  mkdirSync(join(project, "node_modules"));
  mkdirSync(join(project, "source", "deep"), { recursive: true });
  symlinkSync(PROGRAMS, join(project, "node_modules", ".bin"));
  const emulator = new Emulator(context, [BINARY, "azurite", ...FREE_PORTS, ...QUIET, "--inMemoryPersistence"], {
    cwd: join(project, "source", "deep"),
    // A PATH with Node.js but without the emulator.
    environment: { PATH: join(process.execPath, "..") },
  });
  await useAll(await emulator.connectionString());
});
