// The accounts that this browser remembers: their names, and their credentials only if the user asked for that.

import { browserStore } from "./ui/storage.js";

/** @import { SignIn } from "./session.js" */

const STORED = "rowhouse-accounts";

/** Returns the remembered accounts. The secret of one is empty if only its name is remembered. @returns {SignIn[]} */
export function rememberedAccounts() {
  try {
    return JSON.parse(browserStore.getItem(STORED) ?? "[]");
  } catch {
    return [];
  }
}

/** @param {SignIn} signIn */
export function rememberAccount(signIn) {
  write([...others(signIn.account), signIn].sort((one, other) => (one.account < other.account ? -1 : 1)));
}

/** @param {string} account */
export function forgetAccount(account) {
  write(others(account));
}

/** @param {string} account */
function others(account) {
  return rememberedAccounts().filter((one) => one.account !== account);
}

/** @param {SignIn[]} accounts */
function write(accounts) {
  browserStore.setItem(STORED, JSON.stringify(accounts));
}
