// The sign-in form. It verifies the credential by sending a request that the credential should allow.

import { rememberAccount } from "./accounts.js";
import { describe } from "./core/errors.js";
import { describeRefusal, serviceOf, storeSignIn } from "./session.js";
import { button, checkbox, div, dropDown, field, h, problemLine, replaceChildren, textInput } from "./ui/dom.js";

/** @import { TableService } from "./core/client.js" */
/** @import { Settings, SignIn } from "./session.js" */

/** @type {Record<SignIn["kind"], {name: string, secret: string, help: string, hasAccount: boolean}>} */
const KINDS = {
  connection: {
    name: "Connection string",
    secret: "Connection string",
    help: "Its endpoints are not used: this page connects to the server that it came from.",
    hasAccount: false,
  },
  key: {
    name: "Account and key",
    secret: "Account key",
    help: "Requests are signed in the browser; the key is never sent.",
    hasAccount: true,
  },
  sas: {
    name: "Shared access signature",
    secret: "Signature",
    help: "The token, which begins with sv= or se=, or a URL that contains it.",
    hasAccount: true,
  },
  bearer: { name: "Bearer token", secret: "Token", help: "A token from an issuer that the server trusts.", hasAccount: true },
};

export class SignInForm extends HTMLElement {
  /**
   * @param {Settings} settings
   * @param {{account?: string, kind?: SignIn["kind"], onService: (service: TableService) => void,
   *   onDevelopment?: () => void}} options
   */
  constructor(settings, { account = settings.hostAccount ?? "", kind = "connection", onService, onDevelopment }) {
    super();
    this.settings = settings;
    this.onService = onService;
    this.onDevelopment = settings.development ? onDevelopment : undefined;
    this.account = textInput({ value: account, autocapitalize: "off" });
    this.secret = h("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true });
    this.kind = dropDown(Object.entries(KINDS).map(([kind, { name }]) => [kind, name]), {
      value: kind,
      onchange: () => this.#show(),
    });
    this.isKept = checkbox("Stay signed in while this tab is open");
    const onchange = () => (this.isWithSecret.input.disabled = !this.isRemembered.input.checked);
    this.isRemembered = checkbox("Remember the name in this browser", { onchange });
    this.isWithSecret = checkbox("Remember the credential as well, unencrypted", { disabled: true });
    this.problem = problemLine();
    this.fields = div(null);
  }

  connectedCallback() {
    if (this.childElementCount > 0) {
      return;
    }
    const development = this.onDevelopment && button("Use the development account", () => this.onDevelopment?.());
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      void this.#signIn();
    };
    this.append(h("form", { class: "sign-in", onsubmit: submit },
      field("Sign in with", this.kind),
      this.fields,
      this.isKept,
      this.isRemembered,
      this.isWithSecret,
      h("small", null, "A credential that is neither kept nor remembered is gone when the page is reloaded."),
      this.problem,
      div("dialog-actions", h("button", { class: "primary" }, "Sign in"), development)));
    this.#show();
  }

  /** @returns {SignIn["kind"]} */
  get #kind() {
    return /** @type {SignIn["kind"]} */ (this.kind.value);
  }

  #show() {
    const { secret, help, hasAccount } = KINDS[this.#kind];
    this.secret.value = "";
    this.problem.textContent = "";
    replaceChildren(this.fields, hasAccount ? field("Account", this.account) : null, field(secret, this.secret, help));
  }

  async #signIn() {
    this.problem.textContent = "";
    /** @type {SignIn} */
    const signIn = { kind: this.#kind, account: this.account.value, secret: this.secret.value };
    try {
      const service = await serviceOf(this.settings, signIn);
      await tryOut(service).catch((error) => {
        throw new Error(describeRefusal(service, error));
      });
      storeSignIn(this.isKept.input.checked ? signIn : null);
      if (this.isRemembered.input.checked) {
        const secret = this.isWithSecret.input.checked ? signIn.secret : "";
        rememberAccount({ kind: signIn.kind, account: service.account, secret });
      }
      this.onService(service);
    } catch (error) {
      this.problem.textContent = describe(error);
    }
  }
}

customElements.define("sign-in-form", SignInForm);

/**
 * Sends a request that a valid credential allows and that reads very little.
 * @param {TableService} service
 */
async function tryOut(service) {
  if (service.may("list")) {
    await service.listTables({ top: 1 });
  } else if (service.may("properties")) {
    await service.getProperties();
  } else if ("table" in service.credential && service.credential.table && service.may("query")) {
    await service.queryEntities(service.credential.table, { top: 1, select: [] });
  }
}
