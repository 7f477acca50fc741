// The credentials that authorize requests: an account key, a shared access signature, or a bearer token.
//
// An account key is imported as a non-extractable key of the browser, so not even this page can leak it.

import { toBytes } from "./edm.js";
import { ValueError } from "./errors.js";

/** @typedef {KeyCredential | SasCredential | BearerCredential} Credential */
/**
 * @typedef {"list" | "create" | "drop" | "query" | "add" | "update" | "delete" | "policies" | "properties" | "sign"} Action
 * `policies` includes the other settings of a table
 */

/** The account that every emulator has. Its key is public. */
export const DEVELOPMENT_ACCOUNT = "devstoreaccount1";
const DEVELOPMENT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/** A parameter of a signature, including signatures made with a user delegation key. */
const SAS_PARAMETER = /^(s[a-z]{1,6}|e[pr]k|tn)=/i;

export class KeyCredential {
  /**
   * @param {string} account
   * @param {CryptoKey} key
   */
  constructor(account, key) {
    this.account = account;
    this.key = key;
  }

  /**
   * @param {string} account
   * @param {string} text the key in Base64
   */
  static async of(account, text) {
    let bytes;
    try {
      bytes = toBytes(text.trim());
    } catch {
      throw new ValueError("The account key is not valid Base64.");
    }
    if (bytes.length === 0) {
      throw new ValueError("The account key is empty.");
    }
    if (!crypto.subtle) {
      const remedy = "Open the explorer over HTTPS, or sign in with a shared access signature or a bearer token.";
      throw new ValueError(`A browser signs requests only if the page came over HTTPS or from this machine. ${remedy}`);
    }
    const algorithm = { name: "HMAC", hash: "SHA-256" };
    return new KeyCredential(account, await crypto.subtle.importKey("raw", bytes, algorithm, false, ["sign"]));
  }

  static ofDevelopment() {
    return KeyCredential.of(DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY);
  }

  /**
   * Returns the signature of a text, in Base64.
   * @param {string} text
   */
  async sign(text) {
    const signature = await crypto.subtle.sign("HMAC", this.key, new TextEncoder().encode(text));
    return btoa(String.fromCharCode(...new Uint8Array(signature)));
  }

  /**
   * Returns the headers that authorize a request (Shared Key Lite of the Table service).
   * @param {URL} url
   * @returns {Promise<Record<string, string>>}
   */
  async headers(url) {
    const date = new Date().toUTCString();
    const component = url.searchParams.get("comp");
    // Requests to the secondary endpoint are signed with the path of the primary endpoint.
    const path = url.pathname.replace(`/${this.account}-secondary/`, `/${this.account}/`);
    const resource = `/${this.account}${path}${component === null ? "" : `?comp=${component}`}`;
    const signature = await this.sign(`${date}\n${resource}`);
    return { "x-ms-date": date, Authorization: `SharedKeyLite ${this.account}:${signature}` };
  }
}

export class SasCredential {
  /** @param {string} token */
  constructor(token) {
    // A URL may have other parameters, which would change the meaning of every request.
    this.token = token.trim().replace(/^\?/, "").split("&").filter((part) => SAS_PARAMETER.test(part)).join("&");
    this.parameters = new URLSearchParams(this.token);
    if (!this.parameters.get("sig") || !this.parameters.get("sv")) {
      throw new ValueError("This is not a shared access signature: the parameter sv or sig is missing.");
    }
  }

  /** The table of the signature; null for an account signature. */
  get table() {
    return this.parameters.get("ss") ? null : this.parameters.get("tn");
  }

  /**
   * Returns true if the signature has all permissions in `letters` and, if it is an account signature, the resource
   * type. The permissions of a stored access policy are unknown here, so a signature without its own permissions counts
   * as having all.
   * @param {string} letters
   * @param {string} resourceType
   */
  has(letters, resourceType) {
    const permissions = this.parameters.get("sp") ?? "";
    const isUnknown = permissions === "" && this.parameters.has("si");
    const isOfType = this.table !== null || (this.parameters.get("srt") ?? "").includes(resourceType);
    return isOfType && (isUnknown || [...letters].every((letter) => permissions.includes(letter)));
  }

  /**
   * Returns why the signature is not valid at the given time, or "" if its own parameters show no reason. The service
   * reports only that it refuses the signature.
   * @param {Date} time
   */
  faultAt(time) {
    const [start, expiry] = [this.parameters.get("st") ?? "", this.parameters.get("se") ?? ""];
    if (Date.parse(expiry) <= time.getTime()) {
      return `The signature expired at ${expiry}.`;
    }
    return Date.parse(start) > time.getTime() ? `The signature is not valid before ${start}.` : "";
  }

  async headers() {
    return {};
  }
}

/** A token from an issuer that the server trusts. */
export class BearerCredential {
  /** @param {string} token */
  constructor(token) {
    this.token = token.trim().replace(/^Bearer\s+/i, "");
    if (!/^[\w\-.~+/]+=*$/.test(this.token)) {
      throw new ValueError("This is not a bearer token.");
    }
  }

  /** @returns {Promise<Record<string, string>>} */
  async headers() {
    return { Authorization: `Bearer ${this.token}` };
  }
}

/**
 * Parses a connection string. Its endpoints are not used, because this page connects only to the server that it came
 * from.
 * @param {string} text
 * @returns {{account: string, key: string | null, sas: string | null}}
 */
export function parseConnectionString(text) {
  /** @type {Map<string, string>} */
  const parts = new Map();
  for (const part of text.split(";").map((part) => part.trim()).filter(Boolean)) {
    const at = part.indexOf("=");
    if (at < 0) {
      throw new ValueError("A connection string consists of parts such as AccountName=…, separated by semicolons.");
    }
    parts.set(part.slice(0, at).trim().toLowerCase(), part.slice(at + 1).trim());
  }
  if (parts.get("usedevelopmentstorage")?.toLowerCase() === "true") {
    return { account: DEVELOPMENT_ACCOUNT, key: DEVELOPMENT_KEY, sas: null };
  }
  const [key, sas] = [parts.get("accountkey") ?? null, parts.get("sharedaccesssignature") ?? null];
  const account = parts.get("accountname") ?? accountOfEndpoint(parts.get("tableendpoint") ?? "");
  if (!account) {
    throw new ValueError("The connection string has neither AccountName nor a TableEndpoint that names the account.");
  }
  if (!key && !sas) {
    throw new ValueError("The connection string has neither AccountKey nor SharedAccessSignature.");
  }
  return { account, key, sas };
}

/**
 * Returns the account that an endpoint names: the first segment of its path, or else the first label of its host.
 * @param {string} endpoint
 */
function accountOfEndpoint(endpoint) {
  if (!URL.canParse(endpoint)) {
    return "";
  }
  const url = new URL(endpoint);
  return url.pathname.split("/")[1] || (url.hostname.split(".")[0] ?? "");
}

/**
 * The actions that a shared access signature allows (specification 08 §3).
 * @type {Record<Action, (sas: SasCredential) => boolean>}
 */
const SAS_RULES = {
  list: (sas) => sas.table === null && sas.has("l", "c"),
  create: (sas) => sas.table === null && (sas.has("c", "c") || sas.has("w", "c")),
  drop: (sas) => sas.table === null && sas.has("d", "c"),
  query: (sas) => sas.has("r", "o"),
  add: (sas) => sas.has("a", "o"),
  update: (sas) => sas.has("u", "o"),
  delete: (sas) => sas.has("d", "o"),
  policies: () => false,
  properties: (sas) => sas.table === null && sas.has("r", "s"),
  sign: () => false,
};

/**
 * Returns true if a credential may allow an action, as far as can be determined here. Only the server knows what a bearer
 * token allows, so the page offers every action that a token could allow.
 * @param {Credential} credential
 * @param {Action} action
 * @param {string} [table]
 * @returns {boolean}
 */
export function mayAllow(credential, action, table) {
  if (credential instanceof BearerCredential) {
    return action !== "sign";
  }
  if (credential instanceof KeyCredential) {
    return true;
  }
  if (credential.table !== null && table !== undefined && credential.table.toLowerCase() !== table.toLowerCase()) {
    return false;
  }
  return SAS_RULES[action](credential);
}
