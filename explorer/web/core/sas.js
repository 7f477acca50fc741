// Shared access signatures, created in the browser with the account key.

/** @import { KeyCredential } from "./credential.js" */
/**
 * The fields of a table signature. Times are strings such as 2026-01-31T12:00:00Z. Empty fields are omitted.
 * @typedef {{table: string, permissions?: string, start?: string, expiry?: string, protocol?: string, ipRange?: string,
 *   policy?: string, startPk?: string | null, startRk?: string | null, endPk?: string | null, endRk?: string | null}} TableSas
 */
/**
 * The fields of an account signature.
 * @typedef {{permissions: string, resourceTypes: string, start?: string, expiry: string, protocol?: string,
 *   ipRange?: string}} AccountSas
 */

const VERSION = "2019-02-02";

/**
 * Creates the token for a table, without a question mark.
 * @param {KeyCredential} credential
 * @param {TableSas} sas
 */
export async function makeTableSas(credential, sas) {
  const { table, permissions, start, expiry, protocol, ipRange, policy } = sas;
  const keys = [sas.startPk, sas.startRk, sas.endPk, sas.endRk].map((key) => key ?? "");
  const resource = `/table/${credential.account}/${table.toLowerCase()}`;
  const lines = [permissions, start, expiry, resource, policy, ipRange, protocol, VERSION, ...keys];
  const signature = await credential.sign(lines.map((line) => line ?? "").join("\n"));
  const [spk, srk, epk, erk] = keys;
  return token({ sv: VERSION, tn: table, sp: permissions, st: start, se: expiry, spk, srk, epk, erk, si: policy, sip: ipRange,
    spr: protocol, sig: signature });
}

/**
 * Creates the token for an account, without a question mark.
 * @param {KeyCredential} credential
 * @param {AccountSas} sas
 */
export async function makeAccountSas(credential, { permissions, resourceTypes, start, expiry, protocol, ipRange }) {
  const lines = [credential.account, permissions, "t", resourceTypes, start, expiry, ipRange, protocol, VERSION, ""];
  const signature = await credential.sign(lines.map((line) => line ?? "").join("\n"));
  return token({ sv: VERSION, ss: "t", srt: resourceTypes, sp: permissions, st: start, se: expiry, sip: ipRange, spr: protocol,
    sig: signature });
}

/** @param {Record<string, string | undefined>} fields */
function token(fields) {
  return Object.entries(fields)
    .filter(([, value]) => value)
    .map(([name, value]) => `${name}=${encodeURIComponent(value ?? "")}`)
    .join("&");
}
