// The descriptions of what signatures allow, for all kinds of restrictions.

import assert from "node:assert/strict";
import { test } from "node:test";
import { accountSasInWords, problemOfAccountSas, problemOfTableSas, tableSasInWords } from "../../web/access/words.js";

const NOW = new Date("2031-04-01T12:00:00Z");
const LATER = "2031-04-02T12:00:00Z";
const UNTIL = " until 2031-04-02 12:00:00 UTC";
const BY_KEY = " It cannot be revoked before then except by changing the account key.";

test("descriptions of table signatures", () => {
  for (const [sas, expected] of [
    [{ permissions: "r" }, `can read entities of the table cars${UNTIL}.${BY_KEY}`],
    [{ permissions: "ra" }, `can read and add entities of the table cars${UNTIL}.${BY_KEY}`],
    [{ permissions: "raud" }, `can read, add, update and delete entities of the table cars${UNTIL}.${BY_KEY}`],
    [{ startPk: "a", endPk: "c" }, `can read entities of the table cars with PartitionKey from 'a' to 'c'${UNTIL}.${BY_KEY}`],
    [{ startPk: "a" }, `can read entities of the table cars with PartitionKey from 'a' on${UNTIL}.${BY_KEY}`],
    [{ endPk: "c" }, `can read entities of the table cars with PartitionKey up to 'c'${UNTIL}.${BY_KEY}`],
    [{ startPk: "a", endPk: "a" }, `can read entities of the table cars with the PartitionKey 'a'${UNTIL}.${BY_KEY}`],
    [
      { startPk: "a", endPk: "a", startRk: "1", endRk: "5" },
      `can read entities of the table cars with the PartitionKey 'a' and RowKey from '1' to '5'${UNTIL}.${BY_KEY}`,
    ],
    [
      { startPk: "a", endPk: "a", startRk: "1", endRk: "1" },
      `can read entities of the table cars with the PartitionKey 'a' and the RowKey '1'${UNTIL}.${BY_KEY}`,
    ],
    [
      { startPk: "a", startRk: "5", endPk: "c", endRk: "7" },
      `can read entities of the table cars in key order from PartitionKey 'a' and RowKey '5' up to PartitionKey 'c' and RowKey '7'${UNTIL}.${BY_KEY}`,
    ],
    [
      { startPk: "a", startRk: "5" },
      `can read entities of the table cars in key order from PartitionKey 'a' and RowKey '5' to the end${UNTIL}.${BY_KEY}`,
    ],
    [{ start: "2031-04-01T13:00:00Z" }, `can read entities of the table cars from 2031-04-01 13:00:00 UTC${UNTIL}.${BY_KEY}`],
    [{ start: "2031-04-01T11:00:00Z" }, `can read entities of the table cars${UNTIL}.${BY_KEY}`],
    [{ protocol: "https" }, `can read entities of the table cars${UNTIL}, over HTTPS only.${BY_KEY}`],
    [{ protocol: "https,http" }, `can read entities of the table cars${UNTIL}.${BY_KEY}`],
    [{ ipRange: "10.0.0.1" }, `can read entities of the table cars${UNTIL}, from the address 10.0.0.1 only.${BY_KEY}`],
    [
      { protocol: "https", ipRange: "10.0.0.1-10.0.0.9" },
      `can read entities of the table cars${UNTIL}, over HTTPS only, from the addresses 10.0.0.1 to 10.0.0.9 only.${BY_KEY}`,
    ],
  ]) {
    const words = tableSasInWords({ table: "cars", permissions: "r", expiry: LATER, ...sas }, null, NOW);
    assert.equal(words, `Anyone who has this URL ${expected}`);
  }
});

test("the description of a signature that allows nothing gives the reason", () => {
  for (const [sas, expected] of [
    [{ startPk: "c", endPk: "a" }, "the key range ends before it begins"],
    [{ startPk: "a", startRk: "2", endPk: "a", endRk: "1" }, "the key range ends before it begins"],
    [{ expiry: "2031-03-31T12:00:00Z" }, "it expired at 2031-03-31 12:00:00 UTC"],
    [{ start: "2031-04-03T12:00:00Z" }, "it expires before it starts"],
  ]) {
    const words = tableSasInWords({ table: "cars", permissions: "r", expiry: LATER, ...sas }, null, NOW);
    assert.equal(words, `This signature allows nothing: ${expected}.`);
  }
});

test("signatures take what they do not specify from their stored access policy", () => {
  const policy = { id: "<b>x'", start: "", expiry: "2031-04-02T12:00:00.0000000Z", permissions: "rd" };
  const byPolicy =
    " It can be revoked before then by removing the stored access policy '<b>x'', or by changing the account key.";
  const words = (sas, more) => tableSasInWords({ table: "cars", policy: policy.id, ...sas }, { ...policy, ...more }, NOW);
  assert.equal(words({}, {}), `Anyone who has this URL can read and delete entities of the table cars${UNTIL}.${byPolicy}`);
  assert.equal(
    words({ permissions: "a" }, { permissions: "" }),
    `Anyone who has this URL can add entities of the table cars${UNTIL}.${byPolicy}`,
  );
  assert.equal(
    words({ expiry: LATER, startPk: "a" }, { expiry: "" }),
    `Anyone who has this URL can read and delete entities of the table cars with PartitionKey from 'a' on${UNTIL}.${byPolicy}`,
  );
});

test("account signatures allow the combination of their permissions and resource types", () => {
  const words = (permissions, resourceTypes, more = {}) =>
    accountSasInWords({ permissions, resourceTypes, expiry: LATER, ...more }, "orchard", NOW);
  const allowed = (what) => `Anyone who has this URL can ${what} in the account orchard${UNTIL}.${BY_KEY}`;
  for (const [permissions, resourceTypes, what] of [
    ["r", "o", "read entities of every table"],
    ["rau", "o", "read entities of every table, add entities to every table and update entities of every table"],
    ["d", "co", "delete entities of every table and delete tables"],
    ["lc", "c", "list tables and create tables"],
    ["w", "c", "create tables"],
    ["rw", "s", "read the properties and the statistics of the service and change the properties of the service"],
  ]) {
    assert.equal(words(permissions, resourceTypes), allowed(what));
  }
  const nothing = "This signature allows nothing: no permission applies to any of the resource types.";
  assert.equal(words("l", "so"), nothing);
  assert.equal(words("au", "sc"), nothing);
});

test("signatures that would not work are refused with a reason", () => {
  const empty = { id: "x", start: "", expiry: "", permissions: "" };
  const permission = "Choose at least one permission.";
  const expiry = "Choose an expiry time.";
  const rowKey = "Enter a PartitionKey, too: a RowKey limits the range only together with a PartitionKey.";
  const address = "Enter an address such as 10.0.0.1, or a range such as 10.0.0.1-10.0.0.255.";
  const good = { table: "cars", permissions: "r", expiry: LATER };
  for (const [sas, policy, expected] of [
    [good, null, ""],
    [{ ...good, permissions: "" }, null, permission],
    [{ ...good, permissions: "" }, empty, permission],
    [{ ...good, permissions: "" }, { ...empty, permissions: "r" }, ""],
    [{ ...good, expiry: "" }, null, expiry],
    [{ ...good, expiry: "" }, { ...empty, expiry: LATER }, ""],
    [{ ...good, startRk: "1" }, null, rowKey],
    [{ ...good, endRk: "1", startPk: "a" }, null, rowKey],
    [{ ...good, ipRange: "10.0.0.1" }, null, ""],
    [{ ...good, ipRange: "10.0.0.256" }, null, address],
    [{ ...good, ipRange: "10.0.0.1-10.0.0.2-10.0.0.3" }, null, address],
    [{ ...good, ipRange: "localhost" }, null, address],
  ]) {
    assert.equal(problemOfTableSas(sas, policy), expected);
  }
  const account = { permissions: "r", resourceTypes: "o", expiry: LATER };
  assert.equal(problemOfAccountSas(account), "");
  assert.equal(problemOfAccountSas({ ...account, permissions: "" }), permission);
  assert.equal(problemOfAccountSas({ ...account, resourceTypes: "" }), "Choose at least one resource type.");
  assert.equal(problemOfAccountSas({ ...account, expiry: "" }), expiry);
});
