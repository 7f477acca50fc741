// @auth/azure-tables-adapter: users, accounts, sessions and tokens of Auth.js.

import assert from "node:assert/strict";
import { test } from "node:test";
import { TableStorageAdapter } from "@auth/azure-tables-adapter";
import { Program, Visitor } from "../support/program.js";
import { entitiesOf, newTable } from "../support/target.js";

const DAY_S = 24 * 60 * 60;

async function start(context, table, tokenMaxAge = DAY_S) {
  return Program.start(context, "sign_in", table.tableName, { TOKEN_MAX_AGE_S: String(tokenMaxAge) });
}

async function post(visitor, site, action, fields) {
  const { csrfToken } = await visitor.json(`${site.address}/auth/csrf`);
  return visitor.post(`${site.address}/auth/${action}`, { csrfToken, ...fields });
}

// Returns the link in the email.
async function askForMail(visitor, site, email) {
  const response = await post(visitor, site, "signin/email", { email });
  assert.match(response.headers.get("location"), /verify-request/);
  return site.waitFor(`mail ${email} `);
}

function session(visitor, site) {
  return visitor.json(`${site.address}/auth/session`);
}

// The kind of an entity is its partition key.
async function countsOf(table) {
  const counts = {};
  for (const { partitionKey } of await entitiesOf(table)) {
    counts[partitionKey] = (counts[partitionKey] ?? 0) + 1;
  }
  return counts;
}

test("a visitor signs in by email, returns, and signs out", async (context) => {
  const table = newTable(context);
  await table.createTable();
  const site = await start(context, table);
  const visitor = new Visitor();
  assert.equal(await session(visitor, site), null);
  const link = await askForMail(visitor, site, "ann@example.com");
  assert.deepEqual(await countsOf(table), { verificationToken: 1 });
  assert.equal((await visitor.request(link)).headers.get("location"), site.address);
  assert.deepEqual(await countsOf(table), { user: 1, userByEmail: 1, session: 1, sessionByUserId: 1 });
  const first = await session(visitor, site);
  assert.equal(first.user.email, "ann@example.com");
  // A link must work only once.
  const stranger = new Visitor();
  assert.match((await stranger.request(link)).headers.get("location"), /error=Verification/);
  assert.equal(await session(stranger, site), null);
  // Another process of the site must recognize the session.
  await site.stop();
  const again = await start(context, table);
  const second = await session(visitor, again);
  assert.equal(second.user.id, first.user.id);
  await post(visitor, again, "signout", {});
  assert.equal(await session(visitor, again), null);
  assert.deepEqual(await countsOf(table), { user: 1, userByEmail: 1 });
  // The site must recognize the user by the email address.
  await visitor.request(await askForMail(visitor, again, "ann@example.com"));
  assert.equal((await session(visitor, again)).user.id, first.user.id);
  assert.deepEqual(await countsOf(table), { user: 1, userByEmail: 1, session: 1, sessionByUserId: 1 });
});

test("an expired link does not sign the visitor in", async (context) => {
  const table = newTable(context);
  await table.createTable();
  const site = await start(context, table, -1);
  const visitor = new Visitor();
  const link = await askForMail(visitor, site, "bob@example.com");
  assert.match((await visitor.request(link)).headers.get("location"), /error=Verification/);
  assert.equal(await session(visitor, site), null);
  assert.deepEqual(await countsOf(table), {});
});

// The operations that email sign-in does not use, called as Auth.js calls them for other sign-in methods.
test("the remaining operations of the adapter", async (context) => {
  const table = newTable(context);
  await table.createTable();
  const adapter = TableStorageAdapter(table);
  const emailVerified = new Date("2031-03-14T08:15:30.123Z");
  const user = await adapter.createUser({ name: "Ann O'Hara", email: "ann@example.com", image: null, emailVerified });
  const known = { id: user.id, name: "Ann O'Hara", email: "ann@example.com", emailVerified };
  assert.deepEqual(await adapter.getUser(user.id), known);
  assert.deepEqual(await adapter.getUserByEmail("ann@example.com"), known);
  assert.equal(await adapter.getUser("nobody"), null);
  assert.equal(await adapter.getUserByEmail("nobody@example.com"), null);
  await adapter.updateUser({ id: user.id, name: "Ann" });
  assert.deepEqual(await adapter.getUser(user.id), { ...known, name: "Ann" });

  const account = { provider: "forge", providerAccountId: "it's 7+5", type: "oauth", userId: user.id, expires_at: 1_900_000_000 };
  const key = { provider: account.provider, providerAccountId: account.providerAccountId };
  assert.equal(await adapter.getUserByAccount(key), null);
  await adapter.linkAccount(account);
  assert.equal(await adapter.linkAccount(account), null, "the account is already linked");
  assert.equal((await adapter.getUserByAccount(key)).id, user.id);
  await adapter.unlinkAccount(key);
  assert.equal(await adapter.getUserByAccount(key), null);
  await assert.rejects(adapter.unlinkAccount(key), { statusCode: 404 });
  await adapter.linkAccount(account);

  const expires = new Date(Date.now() + DAY_S * 1000);
  const created = { sessionToken: "a token", userId: user.id, expires };
  await adapter.createSession(created);
  assert.deepEqual(await adapter.getSessionAndUser("a token"), { session: created, user: { ...known, name: "Ann" } });
  const later = new Date(expires.getTime() + DAY_S * 1000);
  assert.deepEqual(await adapter.updateSession({ sessionToken: "a token", expires: later }), { ...created, expires: later });
  assert.deepEqual((await adapter.getSessionAndUser("a token")).session.expires, later);
  assert.deepEqual(await adapter.deleteSession("a token"), { ...created, expires: later });
  assert.equal(await adapter.getSessionAndUser("a token"), null);

  const verification = { identifier: "ann@example.com", token: "once", expires };
  await adapter.createVerificationToken(verification);
  assert.equal(await adapter.useVerificationToken({ identifier: "bob@example.com", token: "once" }), null);
  assert.deepEqual(await adapter.useVerificationToken({ identifier: "ann@example.com", token: "once" }), verification);
  assert.equal(await adapter.useVerificationToken({ identifier: "ann@example.com", token: "once" }), null);

  await adapter.createSession(created);
  assert.deepEqual(await countsOf(table), { user: 1, userByEmail: 1, account: 1, accountByUserId: 1, session: 1, sessionByUserId: 1 });
  assert.equal((await adapter.deleteUser(user.id)).id, user.id);
  assert.deepEqual(await countsOf(table), {});
  assert.equal(await adapter.deleteUser(user.id), null);
});
