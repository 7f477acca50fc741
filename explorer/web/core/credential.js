// What a request is allowed by: an account key, a shared access signature, or a bearer token.
//
// A key is kept as a key of the browser that cannot be read again, so not even this page can give it away.

import { toBytes } from "./edm.js";
import { ValueError } from "./errors.js";

/** @typedef {KeyCredential | SasCredential | BearerCredential} Credential */

/** The account of every emulator. Its key is public. */
export const DEVELOPMENT_ACCOUNT = "devstoreaccount1";
const DEVELOPMENT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/** What signatures consist of, those with a user delegation key included. */
const SAS_PARAMETER = /^(s[a-z]{1,6}|e[pr]k|tn)=/i;

/** An account key. */
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
      throw new ValueError("The account key is not Base64.");
    }
    if (bytes.length === 0) {
      throw new ValueError("The account key is empty.");
    }
    if (!crypto.subtle) {
      const other = "Open the explorer by HTTPS, or sign in with a shared access signature or a bearer token.";
      throw new ValueError(`A browser signs requests only where the page came by HTTPS or from this machine. ${other}`);
    }
    const algorithm = { name: "HMAC", hash: "SHA-256" };
    return new KeyCredential(account, await crypto.subtle.importKey("raw", bytes, algorithm, false, ["sign"]));
  }

  static ofDevelopment() {
    return KeyCredential.of(DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY);
  }

  /**
   * The signature of a text, in Base64.
   * @param {string} text
   */
  async sign(text) {
    const signature = await crypto.subtle.sign("HMAC", this.key, new TextEncoder().encode(text));
    return btoa(String.fromCharCode(...new Uint8Array(signature)));
  }

  /**
   * The headers that authorize a request (Shared Key Lite of the Table service).
   * @param {URL} url
   * @returns {Promise<Record<string, string>>}
   */
  async headers(url) {
    const date = new Date().toUTCString();
    const component = url.searchParams.get("comp");
    // The secondary endpoint is signed as the primary one.
    const path = url.pathname.replace(`/${this.account}-secondary/`, `/${this.account}/`);
    const resource = `/${this.account}${path}${component === null ? "" : `?comp=${component}`}`;
    const signature = await this.sign(`${date}\n${resource}`);
    return { "x-ms-date": date, Authorization: `SharedKeyLite ${this.account}:${signature}` };
  }
}

/** A shared access signature. */
export class SasCredential {
  /** @param {string} token */
  constructor(token) {
    // An address may have other parameters, which would change what every request asks for.
    this.token = token.trim().replace(/^\?/, "").split("&").filter((part) => SAS_PARAMETER.test(part)).join("&");
    this.parameters = new URLSearchParams(this.token);
    if (!this.parameters.get("sig") || !this.parameters.get("sv")) {
      throw new ValueError("This is not a shared access signature: it has no sv or no sig.");
    }
  }

  /** The table of the signature; null if it is one of the account. */
  get table() {
    return this.parameters.get("ss") ? null : this.parameters.get("tn");
  }

  /**
   * Whether the signature has all these permissions, and one of the resource types if it is one of the account. The
   * permissions of a stored access policy are not known here.
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
   * Why it is not valid at a time, as far as it shows itself; "" if nothing shows. The service only says that it refuses it.
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

/** A token of an issuer that the server trusts. */
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
 * The parts of a connection string. Its endpoints are not used: this page reaches the server that it came from, and no other.
 * @param {string} text
 * @returns {{account: string, key: string | null, sas: string | null}}
 */
export function parseConnectionString(text) {
  /** @type {Map<string, string>} */
  const parts = new Map();
  for (const part of text.split(";").map((part) => part.trim()).filter(Boolean)) {
    const at = part.indexOf("=");
    if (at < 0) {
      throw new ValueError("A connection string has parts such as AccountName=…, with a semicolon between them.");
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
 * The account of an address: the first part of its path, or of its host.
 * @param {string} endpoint
 */
function accountOfEndpoint(endpoint) {
  if (!URL.canParse(endpoint)) {
    return "";
  }
  const url = new URL(endpoint);
  return url.pathname.split("/")[1] || (url.hostname.split(".")[0] ?? "");
}
