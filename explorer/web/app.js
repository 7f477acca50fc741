// The frame around the views. It tracks who is signed in, which view the URL names, and whether the server is
// reachable.

import { describe } from "./core/errors.js";
import { describeRefusal, developmentService, readSettings, serviceOf, storeSignIn, storedSignIn } from "./session.js";
import { SignInForm } from "./sign-in.js";
import { TableList } from "./tables/table-list.js";
import { TablesView } from "./tables/tables-view.js";
import { openDialog } from "./ui/dialog.js";
import { h, replaceChildren } from "./ui/dom.js";
import { announce, notify } from "./ui/notify.js";
import { toggleTheme } from "./ui/theme.js";

/** @import { TableService } from "./core/client.js" */
/** @import { Session, Settings } from "./session.js" */

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
    this.side = h("div", { class: "side" });
  }

  connectedCallback() {
    const skip = (/** @type {Event} */ event) => {
      event.preventDefault();
      this.main.focus();
    };
    const link = h("a", { class: "skip", href: "#main", onclick: skip }, "Skip to content");
    this.append(link, this.header, this.banner, h("div", { class: "frame" }, this.side, this.main));
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

  /** @param {HTMLElement} view @param {HTMLElement | null} [side] */
  #place(view, side = null) {
    document.getElementById("loading")?.remove();
    replaceChildren(this.main, view);
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
    this.#place(h("section", { class: "card" }, h("h1", null, "Sign in"), form));
  }

  #showHeader() {
    const service = this.session?.service;
    const hasAccount = service && (service.may("properties") || service.may("sign"));
    replaceChildren(this.header,
      h("a", { class: "brand", href: "#/" }, "Rowhouse explorer"),
      service ? h("span", { class: "account" }, service.account) : null,
      h("nav", { "aria-label": "Explorer" },
        service ? h("a", { href: "#/" }, "Tables") : null,
        hasAccount ? h("a", { href: "#/account" }, "Account") : null,
        h("button", { type: "button", class: "quiet", onclick: toggleTheme }, "Theme"),
        service ? h("button", { type: "button", class: "quiet", onclick: () => this.#leave() }, "Sign out") : null));
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
    const { view, title, table = "" } = await viewOf(session, path, new URLSearchParams(query)).catch(problemView);
    clearTimeout(slow);
    // Another view, or the same one again, may have been opened while this view was loading.
    if (this.session === session && this.turn === turn) {
      document.title = `${title} – Rowhouse explorer`;
      this.#place(view, table ? new TableList(session, table) : null);
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
      replaceChildren(this.banner, `${text} `, h("button", { type: "button", onclick: run }, label));
      this.banner.hidden = false;
    }
  }

  /** @param {TableService} service */
  #renew(service) {
    const onService = (/** @type {TableService} */ renewed) => {
      dialog.close();
      this.banner.hidden = true;
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

/**
 * Returns the content that replaces a view that cannot be shown.
 * @param {unknown} error
 */
function problemView(error) {
  const retry = h("button", { type: "button", onclick: () => location.reload() }, "Try again");
  const view = h("div", null, h("p", { class: "problem", role: "alert" }, describe(error)), retry);
  return { view, title: "Problem", table: "" };
}

/**
 * Returns the view that a path names. The script with all views except the list of tables is loaded when one of them is
 * first opened.
 * @param {Session} session
 * @param {string} path
 * @param {URLSearchParams} query
 * @returns {Promise<{view: HTMLElement, title: string, table?: string}>}
 */
async function viewOf(session, path, query) {
  const [, kind = "", name = "", part = ""] = path.split("/");
  const table = decode(name);
  if (kind === "t" && part === "access") {
    const { TableAccessView } = await import("./access/table-access-view.js");
    return { view: new TableAccessView(session, { table }), title: `Access to ${table}`, table };
  }
  if (kind === "t" && part === "settings") {
    const { TableSettingsView } = await import("./access/table-settings-view.js");
    return { view: new TableSettingsView(session, { table }), title: `Settings of ${table}`, table };
  }
  if (kind === "t" && part === "changes") {
    const { TableChangesView } = await import("./entities/table-changes-view.js");
    return { view: new TableChangesView(session, { table }), title: `Changes of ${table}`, table };
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
