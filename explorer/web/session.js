// The account that is signed in, and its service. The credential is kept only in this page, or in the tab if the user
// chooses that.

import { BearerCredential, DEVELOPMENT_ACCOUNT, KeyCredential, SasCredential, parseConnectionString } from "./core/credential.js";
import { TableService } from "./core/client.js";
import { ServiceError, ValueError, describe } from "./core/errors.js";
import { tabStore } from "./ui/storage.js";

/** @import { Credential } from "./core/credential.js" */
/**
 * @typedef {{version: string, development: boolean, hostAccount: string | null, extensions: boolean,
 *   changes: boolean, load: boolean}} Settings
 */
/**
 * The user's input on the sign-in form.
 * @typedef {{kind: "connection" | "key" | "sas" | "bearer", account: string, secret: string}} SignIn
 */
/**
 * The state that all views share.
 * @typedef {{service: TableService, settings: Settings, signOut: () => void, navigate: (hash: string) => void,
 *   tables: string[] | null}} Session `tables` contains the most recently listed names
 */

const STORED = "rowhouse-sign-in";

/** @returns {Promise<Settings>} */
export async function readSettings() {
  // No options are passed, so that the first call gets the response that index.html preloads.
  const response = await fetch("settings.json");
  if (!response.ok) {
    throw new Error(`The explorer's settings could not be loaded (HTTP ${response.status}).`);
  }
  return response.json();
}

/**
 * Creates the service from the user's input.
 * @param {Settings} settings
 * @param {SignIn} signIn
 */
export async function serviceOf(settings, { kind, account, secret }) {
  if (kind === "connection") {
    const parts = parseConnectionString(secret);
    const credential = parts.key === null ? new SasCredential(parts.sas ?? "") : await KeyCredential.of(parts.account, parts.key);
    return service(settings, parts.account, credential);
  }
  if (kind === "sas") {
    const address = addressOf(secret, settings);
    return service(settings, address?.account || account, new SasCredential(address?.token ?? secret));
  }
  const credential = kind === "key" ? await KeyCredential.of(account.trim(), secret) : new BearerCredential(secret);
  return service(settings, account, credential);
}

/** @param {Settings} settings */
export async function developmentService(settings) {
  return service(settings, DEVELOPMENT_ACCOUNT, await KeyCredential.ofDevelopment());
}

/**
 * @param {Settings} settings
 * @param {string} name
 * @param {Credential} credential
 */
function service({ hostAccount, extensions }, name, credential) {
  const account = name.trim();
  if (!/^[a-z0-9]{3,24}$/.test(account)) {
    throw new ValueError("An account name must consist of 3 to 24 lowercase letters and digits.");
  }
  if (hostAccount !== null && hostAccount !== account) {
    throw new ValueError(`This URL serves only the account ${hostAccount}. Sign in to that account.`);
  }
  const endpoint = hostAccount === null ? `${location.origin}/${account}` : location.origin;
  return new TableService(account, endpoint, credential, extensions);
}

/**
 * Returns the account and the token of a URL with a signature, as programs print it; null if the text is not a URL.
 * @param {string} text
 * @param {Settings} settings
 */
function addressOf(text, { hostAccount }) {
  const address = text.trim();
  if (!/^https?:\/\//i.test(address) || !URL.canParse(address)) {
    return null;
  }
  const url = new URL(address);
  if (hostOf(url) !== hostOf(location)) {
    // Otherwise, the signature would be sent to a server for which it was not created.
    throw new ValueError(`This URL is for ${url.host}, but this page can connect only to ${location.host}.`);
  }
  const [, first = "", ...rest] = url.pathname.split("/");
  // If the host names the account, the path contains only a table.
  const isOfPath = rest.length > 0 || (url.host === location.host && hostAccount === null);
  return { account: isOfPath ? first : "", token: url.search };
}

/**
 * Returns a host with its port. All names of this machine are mapped to one.
 * @param {URL | Location} url
 */
function hostOf({ hostname, port }) {
  return `${["127.0.0.1", "[::1]"].includes(hostname) ? "localhost" : hostname}:${port}`;
}

/**
 * Explains why the server refused the credential, and what to do about it.
 * @param {TableService} service
 * @param {unknown} error
 */
export function describeRefusal({ account, credential }, error) {
  // What the server says is more precise than what can be determined here.
  if (!(error instanceof ServiceError) || error.code !== "AuthenticationFailed" || error.reason) {
    return describe(error);
  }
  const advice =
    credential instanceof SasCredential
      ? credential.faultAt(new Date()) || `The signature is not valid for the account ${account}. Copy the whole signature again.`
      : credential instanceof KeyCredential
        ? `The account ${account} does not exist, or this is not its key. Check the name, and copy the key again.`
        : `The token is not valid for the account ${account}, or it has expired. Get a new token.`;
  return `${advice} (${error.code}, ${error.status})`;
}

/** @returns {SignIn | null} */
export function storedSignIn() {
  try {
    return JSON.parse(tabStore.getItem(STORED) ?? "null");
  } catch {
    return null;
  }
}

/** @param {SignIn | null} signIn */
export function storeSignIn(signIn) {
  if (signIn) {
    tabStore.setItem(STORED, JSON.stringify(signIn));
  } else {
    tabStore.removeItem(STORED);
  }
}
