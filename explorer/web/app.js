// The frame around the views. It tracks who is signed in, which view the URL names, and whether the server is
// reachable.

import { forgetAccount, rememberedAccounts } from "./accounts.js";
import { DEVELOPMENT_ACCOUNT } from "./core/credential.js";
import { describe } from "./core/errors.js";
import { describeRefusal, developmentService, readSettings, serviceOf, storeSignIn, storedSignIn } from "./session.js";
import { SignInForm } from "./sign-in.js";
import { tableHead } from "./table-head.js";
import { TableList } from "./tables/table-list.js";
import { TablesView } from "./tables/tables-view.js";
import { namePlace, openDialog } from "./ui/dialog.js";
import { button, div, h, replaceChildren } from "./ui/dom.js";
import { openMenu } from "./ui/menu.js";
import { announce, dismissErrors, notify } from "./ui/notify.js";
import { toggleTheme } from "./ui/theme.js";

/** @import { TableService } from "./core/client.js" */
/** @import { Session, Settings, SignIn } from "./session.js" */
/** @import { TableTab } from "./table-head.js" */
/** @typedef {{view: HTMLElement, title: string, table?: string, tab?: TableTab}} Shown */

/** The interval between attempts to reach an unreachable server. */
const LOOK_MS = 2000;
/** How long the previous view stays visible while the next one loads. */
const SLOW_MS = 300;

export class App extends HTMLElement {
  /** @type {Settings} */
  settings = { version: "", development: false, hostAccount: null, extensions: false, changes: false, load: false };
  /** @type {Session | null} */
  session = null;
  /** The number of views requested so far. */
  turn = 0;

  constructor() {
    super();
    this.header = h("header", { class: "top" });
    this.banner = h("div", { class: "banner", role: "alert", hidden: true });
    this.main = h("main", { id: "main", tabindex: "-1" });
    this.side = div("side");
  }

  connectedCallback() {
    const skip = (/** @type {Event} */ event) => {
      event.preventDefault();
      this.main.focus();
    };
    const link = h("a", { class: "skip", href: "#main", onclick: skip }, "Skip to content");
    this.append(link, this.header, this.banner, div("frame", this.side, this.main));
    addEventListener("keydown", (event) => this.#onKey(event));
    addEventListener("hashchange", () => void this.#show());
    // If a file is dropped outside a drop target, the browser must not open it instead of the page.
    addEventListener("dragover", (event) => event.preventDefault());
    addEventListener("drop", (event) => event.preventDefault());
    void this.#start();
  }

  async #start() {
    try {
      this.settings = await readSettings();
      const stored = storedSignIn();
      if (stored) {
        this.#enter(await serviceOf(this.settings, stored));
      } else if (this.settings.development) {
        this.#enter(await developmentService(this.settings));
      } else {
        this.#leave();
      }
    } catch (error) {
      this.#place(problemView(error).view);
    }
  }

  /** @param {HTMLElement} view @param {HTMLElement | null} [side] @param {HTMLElement | null} [head] */
  #place(view, side = null, head = null) {
    document.getElementById("loading")?.remove();
    replaceChildren(this.main, div("page", head, view));
    replaceChildren(this.side, side);
  }

  /** @param {TableService} service */
  #enter(service) {
    service.addEventListener("unreachable", () => this.#onUnreachable(service));
    service.addEventListener("refused", (event) => this.#onRefused(service, /** @type {CustomEvent} */ (event).detail));
    this.session = {
      service,
      settings: this.settings,
      signOut: () => this.#leave(),
      navigate: (hash) => location.assign(hash),
      tables: null,
    };
    this.#showHeader();
    void this.#show();
  }

  #leave() {
    storeSignIn(null);
    this.session = null;
    this.banner.hidden = true;
    this.#showHeader();
    const form = new SignInForm(this.settings, {
      onService: (service) => this.#enter(service),
      onDevelopment: async () => this.#enter(await developmentService(this.settings)),
    });
    document.title = "Sign in – Rowhouse explorer";
    const known = rememberedAccounts().map((signIn) => button(signIn.account, () => this.#switchTo(signIn)));
    const group = h("div", { class: "toolbar", role: "group", "aria-label": "Remembered accounts" }, known);
    this.#place(h("section", { class: "card" }, h("h1", null, "Sign in"), known.length > 0 && group, form));
  }

  #showHeader() {
    const service = this.session?.service;
    const hasAccount = service && (service.may("properties") || service.may("sign"));
    const place = service ? `${service.account} on ${location.host}` : "";
    namePlace(place && `Account ${place}`);
    const account = { class: "account", title: place, "aria-haspopup": "menu" };
    replaceChildren(this.header,
      h("a", { class: "brand", href: "#/" }, "Rowhouse", h("span", null, " explorer")),
      service && button(service.account, (event) => this.#openAccounts(event), account),
      h("nav", { "aria-label": "Explorer" },
        service ? h("a", { href: "#/" }, "Tables") : null,
        hasAccount ? h("a", { href: "#/account" }, "Account") : null,
        button("Keyboard shortcuts", openKeys, { icon: "keys", class: "icon-only" }),
        button("Theme", toggleTheme, { icon: "theme", class: "icon-only" }),
        service ? button("Sign out", () => this.#leave(), { icon: "leave", class: "icon-only" }) : null));
  }

  /** Opens the menu of the accounts to switch to. @param {Event} event */
  #openAccounts({ currentTarget }) {
    const current = this.session?.service.account ?? "";
    const known = rememberedAccounts();
    const others = known.filter(({ account }) => account !== current);
    const hasDevelopment = this.settings.development && current !== DEVELOPMENT_ACCOUNT;
    const development = async () => this.#switch(await developmentService(this.settings));
    const forget = (/** @type {string} */ account) => {
      forgetAccount(account);
      notify(`This browser no longer remembers ${account}.`);
    };
    openMenu(/** @type {HTMLElement} */ (currentTarget), [
      ...others.map((signIn) => ({ label: `Switch to ${signIn.account}`, run: () => void this.#switchTo(signIn) })),
      ...(hasDevelopment ? [{ label: `Switch to ${DEVELOPMENT_ACCOUNT}`, run: () => void development() }] : []),
      { label: "Sign in to another account\u2026", run: () => this.#askAccount() },
      ...(known.length ? [{ label: "", separator: true }] : []),
      ...known.map(({ account }) => ({ label: `Forget ${account}`, run: () => forget(account) })),
    ]);
  }

  /** Signs in to a remembered account, and asks for its credential unless it is remembered. @param {SignIn} signIn */
  async #switchTo(signIn) {
    if (!signIn.secret) return this.#askAccount(signIn);
    try {
      const service = await serviceOf(this.settings, signIn);
      storeSignIn(signIn);
      this.#switch(service);
    } catch (error) {
      notify(describe(error), { kind: "error" });
    }
  }

  /** @param {SignIn} [signIn]  the account whose credential is missing; none to sign in to any account */
  #askAccount(signIn) {
    const onService = (/** @type {TableService} */ service) => {
      dialog.close();
      this.#switch(service);
    };
    const form = new SignInForm(this.settings, { ...(signIn && { account: signIn.account, kind: signIn.kind }), onService });
    const title = signIn ? `Sign in to ${signIn.account}` : "Sign in to another account";
    const dialog = openDialog({ title, body: form, actions: [] });
  }

  /** @param {TableService} service */
  #switch(service) {
    // The view of the former account may not exist in this one.
    if (this.session) history.pushState(null, "", "#/");
    this.banner.hidden = true;
    this.#enter(service);
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const isTyping = event.target instanceof Element && event.target.closest("input, textarea, select, dialog, .menu");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.key === "?") void openKeys();
    else if (event.key === "/") {
      const field = this.main.querySelector("filter-input textarea, input[type=search]");
      if (!(field instanceof HTMLElement)) return;
      // Otherwise, the field would contain the slash.
      event.preventDefault();
      field.focus();
    }
  }

  async #show() {
    const { session } = this;
    if (!session) {
      return;
    }
    const address = location.hash.replace(/^#/, "");
    const at = address.indexOf("?");
    const [path, query] = at < 0 ? [address, ""] : [address.slice(0, at), address.slice(at + 1)];
    const turn = (this.turn += 1);
    // Otherwise, following a link in the view would leave the focus nowhere.
    const hadFocus = this.main.contains(document.activeElement);
    const slow = setTimeout(() => replaceChildren(this.main, h("p", { role: "status" }, "Loading…")), SLOW_MS);
    const shown = await viewOf(session, path, new URLSearchParams(query)).catch(problemView);
    const { view, title, table = "", tab = "Entities" } = shown;
    clearTimeout(slow);
    // Another view, or the same one again, may have been opened while this view was loading.
    if (this.session === session && this.turn === turn) {
      document.title = `${title} – Rowhouse explorer`;
      dismissErrors();
      if (table) this.#place(view, new TableList(session, table), tableHead(session, table, tab));
      else this.#place(view);
      scrollTo(0, 0);
      if (hadFocus) {
        this.main.focus();
      }
    }
  }

  /** @param {TableService} service */
  #onUnreachable(service) {
    replaceChildren(this.banner, "The server cannot be reached. Retrying…");
    this.banner.hidden = false;
    const look = async () => {
      if (this.session?.service !== service || service.isReachable) {
        return;
      }
      try {
        await readSettings();
        service.reach(true);
      } catch {
        setTimeout(look, LOOK_MS);
      }
    };
    const back = () => {
      this.banner.hidden = true;
      dismissErrors();
      announce("The server is reachable again.");
    };
    service.addEventListener("reachable", back, { once: true });
    setTimeout(look, LOOK_MS);
  }

  /**
   * Asks for a new credential after the server refused the current one, perhaps because it has expired. The view stays
   * as it is.
   * @param {TableService} service
   * @param {unknown} error
   */
  #onRefused(service, error) {
    if (this.session?.service !== service) {
      return;
    }
    const text = `The server refused the credential. ${describeRefusal(service, error)}`;
    const [label, run] = ["Sign in again", () => this.#renew(service)];
    // A dialog covers the banner, and must stay open so that the user's input is not lost.
    if (document.querySelector("dialog[open]") && !document.querySelector("dialog[open] .notice")) {
      notify(text, { kind: "error", action: { label, run } });
    }
    if (this.banner.hidden) {
      replaceChildren(this.banner, `${text} `, button(label, run));
      this.banner.hidden = false;
    }
  }

  /** @param {TableService} service */
  #renew(service) {
    const onService = (/** @type {TableService} */ renewed) => {
      dialog.close();
      this.banner.hidden = true;
      dismissErrors();
      if (renewed.account === service.account) {
        service.credential = renewed.credential;
        this.#showHeader();
        service.dispatchEvent(new CustomEvent("reachable"));
        notify("Signed in again.", { kind: "success" });
      } else {
        this.#enter(renewed);
      }
    };
    const form = new SignInForm(this.settings, { account: service.account, onService });
    const dialog = openDialog({ title: "Sign in again", body: form, actions: [] });
  }
}

customElements.define("rowhouse-explorer", App);

async function openKeys() {
  const { openKeysDialog } = await import("./ui/keys-dialog.js");
  openKeysDialog();
}

/**
 * Returns the content that replaces a view that cannot be shown.
 * @param {unknown} error
 * @returns {Shown}
 */
function problemView(error) {
  const problem = h("p", { class: "problem", role: "alert" }, describe(error));
  return { view: div(null, problem, button("Try again", () => location.reload())), title: "Problem" };
}

/**
 * Returns the view that a path names. The script with all views except the list of tables is loaded when one of them is
 * first opened.
 * @param {Session} session
 * @param {string} path
 * @param {URLSearchParams} query
 * @returns {Promise<Shown>}
 */
async function viewOf(session, path, query) {
  const [, kind = "", name = "", part = ""] = path.split("/");
  const table = decode(name);
  if (kind === "t" && part === "access") {
    const { TableAccessView } = await import("./access/table-access-view.js");
    return { view: new TableAccessView(session, { table }), title: `Access to ${table}`, table, tab: "Access" };
  }
  if (kind === "t" && part === "settings") {
    const { TableSettingsView } = await import("./access/table-settings-view.js");
    return { view: new TableSettingsView(session, { table }), title: `Settings of ${table}`, table, tab: "Settings" };
  }
  if (kind === "t" && part === "changes") {
    const { TableChangesView } = await import("./entities/table-changes-view.js");
    return { view: new TableChangesView(session, { table }), title: `Changes of ${table}`, table, tab: "Changes" };
  }
  if (kind === "t") {
    const { EntitiesView } = await import("./entities/entities-view.js");
    return { view: new EntitiesView(session, { table, query: queryOf(query) }), title: table, table };
  }
  if (kind === "account") {
    const { AccountView } = await import("./access/account-view.js");
    return { view: new AccountView(session), title: "Account" };
  }
  return { view: new TablesView(session), title: "Tables" };
}

/**
 * Reads a query from the parameters of a URL.
 * @param {URLSearchParams} query
 */
function queryOf(query) {
  const top = Number(query.get("top"));
  const select = query.get("select")?.split(",").filter(Boolean) ?? null;
  return { filter: query.get("filter") ?? "", select, top: Number.isInteger(top) && top > 0 ? top : null };
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
