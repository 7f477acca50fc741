// Shows a query as a program to copy: in several languages, for curl, and for the command line. The programs read their
// credential from the environment. This module must not read the session's own secret. It creates a signature only when
// the user requests one; it allows queries of one table for one hour.

import { KeyCredential } from "../core/credential.js";
import { makeTableSas } from "../core/sas.js";
import { div, dropDown, field, h, replaceChildren } from "../ui/dom.js";
import { openDialog } from "../ui/dialog.js";
import { browserStore } from "../ui/storage.js";
import { copyText } from "./clipboard.js";
import { LANGUAGES, taskOf } from "./programs.js";

/** @import { Session } from "../session.js" */
/** @import { Query } from "./query.js" */

const STORED = "rowhouse-copy-as";
const SIGNATURE_MS = 60 * 60 * 1000;

/**
 * @param {Session} session
 * @param {string} table
 * @param {Query} query
 */
export function openCopyAs({ service }, table, query) {
  /** @type {string | null} */
  let sas = null;
  const language = dropDown(LANGUAGES.map(({ id, label }) => [id, label]), { value: storedLanguage() });
  const code = h("code");
  const listing = h("pre", { class: "copy-as", tabindex: 0, role: "region", "aria-label": "Program" }, code);
  const hint = h("p", { class: "status", role: "status" });
  const sign = h("button", { type: "button" }, "Create signature");
  const show = () => {
    const chosen = LANGUAGES.find(({ id }) => id === language.value);
    code.textContent = chosen?.write(taskOf(service, table, query, sas)) ?? "";
    const isCurl = language.value === "curl";
    sign.hidden = !isCurl || sas !== null || !service.may("sign", table);
    const need = isCurl ? "curl needs a shared access signature." : "The program reads its credential from the environment.";
    const warning = "The signature allows queries of this table for one hour. Anyone who has it can read the table.";
    hint.textContent = isCurl && sas !== null ? warning : need;
  };
  language.addEventListener("change", () => {
    browserStore.setItem(STORED, language.value);
    show();
  });
  sign.addEventListener("click", async () => {
    const { credential } = service;
    if (!(credential instanceof KeyCredential)) return;
    const expiry = `${new Date(Date.now() + SIGNATURE_MS).toISOString().slice(0, 19)}Z`;
    sas = await makeTableSas(credential, { table, permissions: "r", expiry });
    show();
    listing.focus();
  });
  const copy = async () => {
    await copyText(code.textContent ?? "", "The program");
    return false;
  };
  show();
  const body = div(null);
  replaceChildren(body, div("toolbar", field("Language", language), sign), hint, listing);
  openDialog({
    title: "Copy the query as a program",
    body,
    wide: true,
    actions: [{ label: "Copy", kind: "primary", run: copy }],
    cancel: "Close",
  });
}

function storedLanguage() {
  const stored = browserStore.getItem(STORED);
  return LANGUAGES.some(({ id }) => id === stored) ? stored : "python";
}
