// Describes what a shared access signature allows, and why a signature would not work (docs/spec/08-sas.md).
//
// Consists of pure functions. Must not depend on the page, the service or keys.

import { listText } from "../core/words.js";

/** @import { AccountSas, TableSas } from "../core/sas.js" */
/** @import { StoredPolicy } from "../core/xml.js" */

/** The permissions on entities, in the order in which the protocol writes them. */
export const ENTITY_PERMISSIONS = [
  { letter: "r", label: "Read" },
  { letter: "a", label: "Add" },
  { letter: "u", label: "Update" },
  { letter: "d", label: "Delete" },
];

/** The rights that an account signature grants: each requires the resource type and one of the permissions. */
const ACCOUNT_RIGHTS = [
  { type: "o", letters: "r", words: "read entities of every table" },
  { type: "o", letters: "a", words: "add entities to every table" },
  { type: "o", letters: "u", words: "update entities of every table" },
  { type: "o", letters: "d", words: "delete entities of every table" },
  { type: "c", letters: "l", words: "list tables" },
  { type: "c", letters: "cw", words: "create tables" },
  { type: "c", letters: "d", words: "delete tables" },
  { type: "s", letters: "r", words: "read the properties and the statistics of the service" },
  { type: "s", letters: "w", words: "change the properties of the service" },
];

/**
 * Formats a time for users.
 * @param {string} text such as 2026-01-31T12:00:00Z
 */
function timeInWords(text) {
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? text : `${time.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/**
 * Describes what a table signature allows.
 * @param {TableSas} sas
 * @param {StoredPolicy | null} policy the stored access policy that it names
 * @param {Date} now
 */
export function tableSasInWords(sas, policy, now) {
  const letters = sas.permissions || policy?.permissions || "";
  const verbs = ENTITY_PERMISSIONS.filter(({ letter }) => letters.includes(letter)).map(({ label }) => label.toLowerCase());
  const range = rangeInWords(sas);
  const [start, expiry] = [sas.start || policy?.start || "", sas.expiry || policy?.expiry || ""];
  const nothing = range === null ? "the key range ends before it begins" : whyNever(start, expiry, now);
  if (nothing) {
    return `This signature allows nothing: ${nothing}.`;
  }
  const what = `${listText(verbs)} entities of the table ${sas.table}${range}`;
  const allowed = `Anyone who has this URL can ${what}${timesInWords(start, expiry, now)}${circumstances(sas)}.`;
  return `${allowed} ${policy ? revocableByPolicy(policy) : revocableByKey()}`;
}

/**
 * Describes what an account signature allows.
 * @param {AccountSas} sas
 * @param {string} account
 * @param {Date} now
 */
export function accountSasInWords(sas, account, now) {
  const rights = ACCOUNT_RIGHTS.filter(
    ({ type, letters }) => sas.resourceTypes.includes(type) && [...letters].some((letter) => sas.permissions.includes(letter)));
  const nothing =
    rights.length === 0
      ? "no permission applies to any of the resource types"
      : whyNever(sas.start ?? "", sas.expiry, now);
  if (nothing) {
    return `This signature allows nothing: ${nothing}.`;
  }
  const what = listText(rights.map(({ words }) => words));
  const when = timesInWords(sas.start ?? "", sas.expiry, now);
  return `Anyone who has this URL can ${what} in the account ${account}${when}${circumstances(sas)}. ${revocableByKey()}`;
}

/**
 * Describes the key range. Returns "" for the whole table, and null if the range contains no key.
 * @param {TableSas} sas
 */
function rangeInWords({ startPk, startRk, endPk, endRk }) {
  if (startPk && endPk && (startPk > endPk || (startPk === endPk && startRk && endRk && startRk > endRk))) {
    return null;
  }
  if (startPk && startPk === endPk) {
    return ` with the PartitionKey '${startPk}'${bounds("RowKey", startRk, endRk, " and ")}`;
  }
  if (startRk || endRk) {
    const from = startPk ? ` from PartitionKey '${startPk}'${startRk ? ` and RowKey '${startRk}'` : ""}` : "";
    const to = endPk ? ` up to PartitionKey '${endPk}'${endRk ? ` and RowKey '${endRk}'` : ""}` : " to the end";
    return ` in key order${from}${to}`;
  }
  return bounds("PartitionKey", startPk, endPk, " with ");
}

/**
 * @param {string} name
 * @param {string | null | undefined} start
 * @param {string | null | undefined} end
 * @param {string} prefix
 */
function bounds(name, start, end, prefix) {
  if (start && start === end) {
    return `${prefix}the ${name} '${start}'`;
  }
  const from = start ? ` from '${start}'` : "";
  const to = end ? `${start ? " to" : " up to"} '${end}'` : start ? " on" : "";
  return from || to ? `${prefix}${name}${from}${to}` : "";
}

/**
 * @param {string} start
 * @param {string} expiry
 * @param {Date} now
 */
function timesInWords(start, expiry, now) {
  const from = start && new Date(start) > now ? ` from ${timeInWords(start)}` : "";
  return `${from} until ${timeInWords(expiry)}`;
}

/**
 * Returns why there is no time at which a signature works, or "" if there is one.
 * @param {string} start
 * @param {string} expiry
 * @param {Date} now
 */
function whyNever(start, expiry, now) {
  if (new Date(start) > new Date(expiry)) {
    return "it expires before it starts";
  }
  return new Date(expiry) <= now ? `it expired at ${timeInWords(expiry)}` : "";
}

/** @param {{protocol?: string, ipRange?: string}} sas */
function circumstances({ protocol, ipRange }) {
  const addresses = ipRange?.split("-") ?? [];
  const from =
    addresses.length > 1 ? `, from the addresses ${addresses.join(" to ")} only` : `, from the address ${ipRange} only`;
  return `${protocol === "https" ? ", over HTTPS only" : ""}${ipRange ? from : ""}`;
}

function revocableByKey() {
  return "It cannot be revoked before then except by changing the account key.";
}

/** @param {StoredPolicy} policy */
function revocableByPolicy({ id }) {
  return `It can be revoked before then by removing the stored access policy '${id}', or by changing the account key.`;
}

/**
 * Returns why a table signature would not work, or "" if it would.
 * @param {TableSas} sas
 * @param {StoredPolicy | null} policy
 */
export function problemOfTableSas(sas, policy) {
  if (!sas.permissions && !policy?.permissions) {
    return "Choose at least one permission.";
  }
  if (!sas.expiry && !policy?.expiry) {
    return "Choose an expiry time.";
  }
  if ((sas.startRk && !sas.startPk) || (sas.endRk && !sas.endPk)) {
    return "Enter a PartitionKey, too: a RowKey limits the range only together with a PartitionKey.";
  }
  return problemOfIpRange(sas.ipRange ?? "");
}

/**
 * Returns why an account signature would not work, or "" if it would.
 * @param {AccountSas} sas
 */
export function problemOfAccountSas({ permissions, resourceTypes, expiry, ipRange = "" }) {
  if (!permissions) {
    return "Choose at least one permission.";
  }
  if (!resourceTypes) {
    return "Choose at least one resource type.";
  }
  return expiry ? problemOfIpRange(ipRange) : "Choose an expiry time.";
}

/** @param {string} range */
function problemOfIpRange(range) {
  const isAddress = (/** @type {string} */ text) =>
    text.split(".").length === 4 && text.split(".").every((part) => /^\d{1,3}$/.test(part) && Number(part) < 256);
  const addresses = range.split("-");
  const isGood = range === "" || (addresses.length <= 2 && addresses.every(isAddress));
  return isGood ? "" : "Enter an address such as 10.0.0.1, or a range such as 10.0.0.1-10.0.0.255.";
}
