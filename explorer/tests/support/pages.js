// User actions on any page of the explorer.

import { openExplorer } from "./browser.js";

// Fills in and submits the sign-in form. `secret` is the content of the field for the credential.
export async function signIn(page, { kind, account, secret, isKept = false }) {
  await page.getByLabel("Sign in with").selectOption(kind);
  if (account !== undefined) {
    await page.getByLabel("Account", { exact: true }).fill(account);
  }
  await page.getByLabel(SECRETS[kind], { exact: true }).fill(secret);
  if (isKept) {
    await page.getByLabel("Stay signed in while this tab is open").check();
  }
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
}

const SECRETS = {
  "Connection string": "Connection string",
  "Account and key": "Account key",
  "Shared access signature": "Signature",
  "Bearer token": "Token",
};

export async function openWithSas(test, server, secret, options = {}) {
  const page = await openExplorer(test, server, options);
  await signIn(page, { kind: "Shared access signature", account: server.account, secret });
  return page;
}
