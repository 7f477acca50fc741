// Signing in. A credential must never leave the page.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openExplorer } from "../support/browser.js";
import { createIssuer } from "../support/issuer.js";
import { signIn } from "../support/pages.js";
import { startServer } from "../support/server.js";

async function serverWith(test, settings) {
  const server = await startServer(settings);
  test.after(() => server.stop());
  await server.createTable("harvest");
  return server;
}

function recordRequests(page) {
  const sent = [];
  page.on("request", async (request) => {
    const entry = { url: request.url(), body: request.postData() ?? "", headers: {} };
    sent.push(entry);
    entry.headers = await request.allHeaders().catch(() => request.headers());
  });
  return sent;
}

async function kept(page) {
  const stores = await page.evaluate(async () => ({
    local: { ...localStorage },
    session: { ...sessionStorage },
    databases: (await indexedDB.databases()).length,
    caches: (await caches.keys()).length,
  }));
  return { ...stores, cookies: await page.context().cookies() };
}

const NOTHING = { local: {}, session: {}, databases: 0, caches: 0, cookies: [] };

const tableLink = (page) => page.getByRole("link", { name: "harvest", exact: true });

test("a development server signs the user in automatically", async (test) => {
  const server = await serverWith(test);
  const page = await openExplorer(test, server);
  await tableLink(page).waitFor();
  await page.getByText("devstoreaccount1").waitFor();
  assert.deepEqual(await kept(page), NOTHING);
});

test("after signing out of a development server, one button signs in again", async (test) => {
  const server = await serverWith(test);
  const page = await openExplorer(test, server);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.getByRole("button", { name: "Use the development account" }).click();
  await tableLink(page).waitFor();
});

test("every kind of credential can be used to sign in, and none is stored", async (test) => {
  const { options, issue } = await createIssuer(test, "orchard");
  const server = await serverWith(test, { ownAccount: true, options });
  const { account, key } = server;
  const sas = server.accountSas(["query", "list"]);
  const kinds = [
    { kind: "Connection string", secret: server.connectionString },
    { kind: "Connection string", secret: `TableEndpoint=${server.endpoint};SharedAccessSignature=${sas}` },
    { kind: "Account and key", account, secret: key },
    { kind: "Shared access signature", account, secret: sas },
    { kind: "Shared access signature", account, secret: `?${sas}` },
    { kind: "Shared access signature", account: "", secret: `${server.endpoint}?${sas}` },
    { kind: "Bearer token", account, secret: issue("owner") },
  ];
  for (const credential of kinds) {
    const page = await openExplorer(test, server);
    await signIn(page, credential);
    await tableLink(page).waitFor();
    assert.deepEqual(await kept(page), NOTHING, credential.kind);
    assert.equal(page.url(), `${server.origin}/_rowhouse/`);
    await page.reload();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await page.close();
  }
});

test("a signature for one table opens that table", async (test) => {
  const server = await serverWith(test, { ownAccount: true });
  const page = await openExplorer(test, server);
  await signIn(page, { kind: "Shared access signature", account: server.account, secret: server.tableSas("harvest") });
  await page.getByText("does not allow listing tables").waitFor();
  assert.equal(await page.getByLabel("Table", { exact: true }).inputValue(), "harvest");
  await page.getByRole("button", { name: "Open" }).click();
  await page.waitForURL("**/#/t/harvest");
});

test("only the signature is used from a URL that contains one", async (test) => {
  const server = await serverWith(test, { ownAccount: true });
  const page = await openExplorer(test, server);
  const address = `${server.endpoint}/Tables?$top=1&comp=acl&${server.accountSas(["query", "list"])}`;
  await signIn(page, { kind: "Shared access signature", account: server.account, secret: address });
  const request = page.waitForRequest((request) => request.url().includes("/Tables"));
  await page.getByRole("button", { name: "Refresh" }).click();
  assert.doesNotMatch((await request).url(), /top|comp/);
  await tableLink(page).waitFor();
});

test("a browser without storage causes no error", async (test) => {
  const server = await serverWith(test, { ownAccount: true });
  const page = await openExplorer(test, server);
  await page.addInitScript(() => {
    for (const name of ["localStorage", "sessionStorage"]) {
      Object.defineProperty(window, name, { get: () => { throw new DOMException("denied", "SecurityError"); } });
    }
  });
  await page.reload();
  await signIn(page, { kind: "Account and key", account: server.account, secret: server.key });
  await tableLink(page).click();
  await page.getByRole("grid").waitFor();
});

test("a bearer token is sent unchanged, and the server enforces its role", async (test) => {
  const { options, issue } = await createIssuer(test, "orchard");
  const server = await serverWith(test, { ownAccount: true, options });
  const page = await openExplorer(test, server, { statuses: [403] });
  const token = issue("reader");
  const sent = page.waitForRequest(/\/Tables\?/);
  await signIn(page, { kind: "Bearer token", account: server.account, secret: token });
  assert.equal(await (await sent).headerValue("authorization"), `Bearer ${token}`);
  await page.getByRole("button", { name: "Create table" }).click();
  await page.getByLabel("Name").fill("another");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("dialog").getByText("AuthorizationPermissionMismatch").waitFor();
});

test("errors in a credential are explained and can be corrected", async (test) => {
  const server = await serverWith(test, { ownAccount: true });
  const { account, key } = server;
  const page = await openExplorer(test, server, { statuses: [403] });
  const other = Buffer.from("another key").toString("base64");
  const wrong = [
    [{ kind: "Account and key", account, secret: other }, "The account orchard does not exist, or this is not its key. Check the name, and copy the key again. (AuthenticationFailed, 403)"],
    [{ kind: "Account and key", account, secret: "no base64!" }, "The account key is not valid Base64."],
    [{ kind: "Account and key", account: "no account!", secret: key }, "An account name must"],
    [{ kind: "Account and key", account: "stranger", secret: key }, "The account stranger does not exist"],
    [{ kind: "Connection string", secret: "AccountName=orchard" }, "neither AccountKey nor SharedAccessSignature"],
    [{ kind: "Connection string", secret: "nonsense" }, "A connection string consists of parts such as"],
    [{ kind: "Shared access signature", account, secret: "sv=2019-02-02" }, "not a shared access signature"],
    [{ kind: "Shared access signature", account, secret: `${server.accountSas(["query", "list"])}AAAA` }, "The signature is not valid for the account orchard. Copy the whole signature again. (AuthenticationFailed, 403)"],
    [{ kind: "Shared access signature", account, secret: "https://orchard.example/apples?sv=2019-02-02&sig=A" }, "for orchard.example"],
    [{ kind: "Bearer token", account, secret: "two words" }, "This is not a bearer token."],
  ];
  for (const [credential, message] of wrong) {
    await signIn(page, credential);
    await page.getByRole("alert").getByText(message).waitFor();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
  }
  await signIn(page, { kind: "Account and key", account, secret: key });
  await tableLink(page).waitFor();
});

test("on request, a credential is kept in the tab until the user signs out", async (test) => {
  const server = await serverWith(test, { ownAccount: true });
  const page = await openExplorer(test, server);
  await signIn(page, { kind: "Account and key", account: server.account, secret: server.key, isKept: true });
  await tableLink(page).waitFor();
  const { session, ...others } = await kept(page);
  assert.deepEqual(Object.keys(session), ["rowhouse-sign-in"]);
  assert.deepEqual({ session: {}, ...others }, NOTHING, "it must be stored in no other place");
  await page.reload();
  await tableLink(page).waitFor();

  const another = await page.context().newPage();
  await another.goto(page.url());
  await another.getByRole("heading", { name: "Sign in" }).waitFor();

  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.deepEqual(await kept(page), NOTHING);
  assert.equal(await page.getByLabel("Connection string", { exact: true }).inputValue(), "");
  await page.reload();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
});

test("after signing out, nothing is accessible", async (test) => {
  const server = await serverWith(test, { ownAccount: true });
  const page = await openExplorer(test, server);
  await signIn(page, { kind: "Account and key", account: server.account, secret: server.key });
  await tableLink(page).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  const sent = recordRequests(page);
  await page.goto(`${server.origin}/_rowhouse/#/t/harvest`);
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.deepEqual(sent.filter(({ url }) => url.includes("orchard")), []);
});

test("the key is in no request and no URL", async (test) => {
  const server = await serverWith(test, { ownAccount: true });
  const page = await openExplorer(test, server);
  const sent = recordRequests(page);
  await signIn(page, { kind: "Connection string", secret: server.connectionString, isKept: true });
  await tableLink(page).waitFor();
  await page.getByRole("button", { name: "Create table" }).click();
  await page.getByLabel("Name").fill("orders");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("link", { name: "orders", exact: true }).waitFor();
  await page.reload();
  await tableLink(page).click();
  await page.waitForURL("**/#/t/harvest");
  await page.waitForLoadState("networkidle");

  assert.ok(sent.some(({ headers }) => headers.authorization?.startsWith("SharedKeyLite orchard:")), "requests must be recorded");
  const text = JSON.stringify(sent);
  for (const form of [server.key, server.key.slice(0, 40), encodeURIComponent(server.key)]) {
    assert.ok(!text.includes(form), "the key was sent");
    assert.ok(!(await page.content()).includes(form), "the key is on the page");
    assert.ok(!page.url().includes(form), "the key is in the URL");
  }
});

test("an account is remembered if the user asks, and its credential only if the user asks for that as well", async (test) => {
  const server = await serverWith(test, { ownAccount: true });
  const { account, key } = server;
  const page = await openExplorer(test, server);
  const stored = () => page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }));
  const known = page.getByRole("group", { name: "Remembered accounts" }).getByRole("button", { name: account });
  await page.getByLabel("Remember the name in this browser").check();
  await signIn(page, { kind: "Account and key", account, secret: key });
  await tableLink(page).waitFor();
  assert.ok((await stored()).includes(account) && !(await stored()).includes(key));

  await page.reload();
  await known.click();
  const dialog = page.getByRole("dialog", { name: `Sign in to ${account}` });
  assert.equal(await dialog.getByLabel("Account", { exact: true }).inputValue(), account);
  await dialog.getByLabel("Account key").fill(key);
  await dialog.getByLabel("Remember the name in this browser").check();
  await dialog.getByLabel("Remember the credential as well").check();
  await dialog.getByRole("button", { name: "Sign in", exact: true }).click();
  await tableLink(page).waitFor();
  assert.ok((await stored()).includes(key));

  await page.reload();
  await known.click();
  await tableLink(page).waitFor();
  await page.getByRole("button", { name: account }).click();
  await page.getByRole("menuitem", { name: `Forget ${account}` }).click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.ok(!(await stored()).includes(key));
  assert.equal(await known.count(), 0);
});
