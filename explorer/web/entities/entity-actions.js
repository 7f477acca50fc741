// What the user does to entities: add, edit, duplicate, delete, edit a property of many, and undo. Connects the dialogs with
// the service, and hands every change to its host, which shows it. Knows nothing of the grid.

import { ServiceError, Unreachable, describe } from "../core/errors.js";
import { openDialog } from "../ui/dialog.js";
import { h } from "../ui/dom.js";
import { notify } from "../ui/notify.js";
import { progressDialog } from "../ui/progress.js";
import { finished, refusalReason, sameValue, stepFor, undoSteps, writeMany } from "./changes.js";
import { askConflict, askInsertAgain } from "./conflict.js";
import { countText, entityName } from "./display.js";
import { openEditor } from "./editor.js";
import { askPropertyEdit, showReport, withProperty } from "./many.js";

/** @import { Entity } from "../core/edm.js" */
/** @import { TableService } from "../core/client.js" */
/** @import { Change, Outcome, Pair, Step } from "./changes.js" */
/**
 * Where changes are shown.
 * @typedef {object} Host
 * @property {() => boolean} projected  whether only some properties are loaded
 * @property {() => string[]} names  names of properties that are known
 * @property {(pairs: Pair[]) => void} apply
 * @property {() => void} undoChanged
 * @property {() => void} refocus
 */

const PAST = { add: "Added", edit: "Edited", delete: "Deleted" };
const NEEDS = { insert: "add", replace: "update", merge: "update", delete: "delete" };
const PROJECTION_NOTE =
  "Only some properties were loaded, so saving merges these and leaves the others as they are. " +
  "No property can be removed.";

/** @param {Pair[]} pairs */
function subject(pairs) {
  const [pair] = pairs;
  const entity = pair?.after ?? pair?.before;
  return pairs.length === 1 && entity ? entityName(entity) : countText(pairs.length);
}

export class EntityActions {
  /** @type {{label: string, steps: Step[]} | null} */
  #undo = null;

  /** @param {TableService} service @param {string} table @param {Host} host */
  constructor(service, table, host) {
    this.service = service;
    this.table = table;
    this.host = host;
  }

  get undoLabel() {
    return this.#undo?.label ?? null;
  }

  add() {
    this.#openNew("Add an entity", { partitionKey: "", rowKey: "", timestamp: "", etag: "", properties: new Map() });
  }

  /** @param {Entity} entity */
  async duplicate(entity) {
    const whole = this.host.projected() ? await this.service.getEntity(this.table, entity.partitionKey, entity.rowKey) : entity;
    this.#openNew("Duplicate an entity", { ...whole, timestamp: "", etag: "", properties: new Map(whole.properties) });
  }

  /** @param {string} title @param {Entity} entity */
  #openNew(title, entity) {
    const save = async (/** @type {Entity} */ mine) => this.#writeOne("add", { before: null, after: mine });
    this.#refocusAfter(openEditor({ title, entity, mode: "new", action: "Add", save }));
  }

  /** Opens an entity to edit it, or to read it if it may not be edited. @param {Entity} entity */
  open(entity) {
    const title = `Entity ${entityName(entity)}`;
    if (!this.service.may("update", this.table)) {
      this.#refocusAfter(openEditor({ title, entity, mode: "read", action: "" }));
      return;
    }
    const projected = this.host.projected();
    const save = (/** @type {Entity} */ mine) => this.#saveEdit(entity, mine);
    this.#refocusAfter(
      openEditor({
        title,
        entity,
        mode: "edit",
        action: "Save",
        save,
        keepProperties: projected,
        ...(projected ? { note: PROJECTION_NOTE } : {}),
      }),
    );
  }

  /** @param {{closed: Promise<void>}} dialog */
  #refocusAfter(dialog) {
    dialog.closed.then(() => this.host.refocus());
  }

  /**
   * Writes an edited entity; on a conflict, asks until it is solved. Returns false if the editor is to stay open.
   * @param {Entity} loaded
   * @param {Entity} mine
   * @returns {Promise<boolean>}
   */
  async #saveEdit(loaded, mine) {
    const same =
      mine.properties.size === loaded.properties.size &&
      [...mine.properties].every(([name, value]) => sameValue(value, loaded.properties.get(name) ?? null));
    if (same) return true;
    let pair = { before: loaded, after: mine };
    for (;;) {
      try {
        await this.#writeOne("edit", pair);
        return true;
      } catch (error) {
        const status = error instanceof Refusal ? error.status : 0;
        if (status !== 412 && status !== 404) throw error;
        const theirs = await this.#current(mine);
        if (theirs === null) return this.#insertAgain(mine);
        const answer = await askConflict({ loaded, mine, theirs, projected: this.host.projected() });
        if (answer === null) return false;
        if ("take" in answer) {
          this.host.apply([{ before: loaded, after: answer.take }]);
          return true;
        }
        pair = { before: theirs, after: answer.write };
      }
    }
  }

  /** @param {Entity} entity @returns {Promise<Entity | null>} */
  async #current({ partitionKey, rowKey }) {
    try {
      return await this.service.getEntity(this.table, partitionKey, rowKey);
    } catch (error) {
      if (error instanceof ServiceError && error.status === 404) return null;
      throw new Error(describe(error));
    }
  }

  /** @param {Entity} mine */
  async #insertAgain(mine) {
    if (!(await askInsertAgain(mine))) return false;
    await this.#writeOne("add", { before: null, after: mine });
    return true;
  }

  /** Writes one change, or throws why not. @param {Change["verb"]} verb @param {Pair} pair */
  async #writeOne(verb, pair) {
    const projected = this.host.projected();
    const step = stepFor(pair, projected);
    let etag;
    try {
      etag = await this.service.change(this.table, step.operation);
    } catch (error) {
      throw new Refusal(error);
    }
    this.#done({ verb, pairs: [finished(step, etag)], projected });
  }

  /** Shows a change and offers to undo it. @param {Change} change */
  #done(change) {
    const steps = undoSteps(change);
    const allowed = steps?.every((step) => this.service.may(/** @type {"add"} */ (NEEDS[step.operation.kind]), this.table));
    const name = subject(change.pairs);
    const undo = steps && allowed ? { label: `Undo ${change.verb} of ${name}`, steps } : null;
    this.#undo = undo;
    this.host.apply(change.pairs);
    this.host.undoChanged();
    // The notice may still be there after the next change, which is not the one that it names.
    const run = () => void (this.#undo === undo && this.undo());
    const action = undo ? { action: { label: "Undo", run } } : {};
    notify(`${PAST[change.verb]} ${name}.`, { kind: "success", ...action });
  }

  /** @param {Entity[]} entities */
  async remove(entities) {
    const pairs = entities.map((entity) => ({ before: entity, after: null }));
    const projected = this.host.projected();
    const warning = projected ? h("p", { class: "note" }, "Only some properties were loaded, so this cannot be undone.") : null;
    let confirmed = false;
    const run = async () => {
      const [pair] = pairs;
      if (pairs.length === 1 && pair) await this.#writeOne("delete", pair);
      else confirmed = true;
    };
    await openDialog({
      title: `Delete ${subject(pairs)}?`,
      body: h("div", null, h("p", null, `From the table ${this.table}.`), warning),
      actions: [{ label: "Delete", kind: "danger", run }],
    }).closed;
    if (confirmed)
      await this.#writeAll(
        "delete",
        pairs.map((pair) => stepFor(pair, false)),
        projected,
      );
    this.host.refocus();
  }

  /** @param {Entity[]} entities */
  async editProperty(entities) {
    const projected = this.host.projected();
    const edit = await askPropertyEdit({
      count: entities.length,
      names: this.host.names(),
      removable: !projected,
      first: (name) => entities.find((entity) => entity.properties.has(name))?.properties.get(name),
    });
    if (edit) {
      /** @type {Step[]} */
      const steps = [];
      for (const before of entities) {
        const after = withProperty(before, edit);
        if (!after) continue;
        // A merge carries the property alone; only a replace removes one.
        const entity = edit.value ? { ...before, properties: new Map([[edit.name, edit.value]]) } : after;
        steps.push({
          operation: { kind: edit.value ? "merge" : "replace", entity, etag: before.etag },
          pair: { before, after },
        });
      }
      if (steps.length > 0) await this.#writeAll("edit", steps, projected);
      else notify("Every selected entity is like that already.");
    }
    this.host.refocus();
  }

  /** @param {Change["verb"]} verb @param {Step[]} steps @param {boolean} projected */
  async #writeAll(verb, steps, projected) {
    const titles = { add: "Adding", edit: "Editing", delete: "Deleting" };
    const outcome = await this.#withProgress(`${titles[verb]} ${countText(steps.length)}`, steps);
    if (outcome.pairs.length > 0) this.#done({ verb, pairs: outcome.pairs, projected });
    if (outcome.failed.length > 0 || outcome.left > 0)
      await showReport(`Not everything was ${PAST[verb].toLowerCase()}`, outcome);
  }

  /** @param {string} title @param {Step[]} steps @returns {Promise<Outcome>} */
  async #withProgress(title, steps) {
    const outcome = await progressDialog({
      title,
      run: ({ report, signal }) =>
        writeMany(this.service, this.table, steps, {
          signal,
          progress: (done) => report(done, steps.length, `${done.toLocaleString("en")} of ${countText(steps.length)}`),
        }),
    });
    return outcome ?? { pairs: [], failed: [], left: steps.length };
  }

  /** Takes the last change back, unless something came between. */
  async undo() {
    const undo = this.#undo;
    if (!undo) return;
    this.#undo = null;
    this.host.undoChanged();
    const outcome =
      undo.steps.length > 1
        ? await this.#withProgress(undo.label, undo.steps)
        : await writeMany(this.service, this.table, undo.steps, { signal: new AbortController().signal, progress: () => {} });
    if (outcome.pairs.length > 0) this.host.apply(outcome.pairs);
    const [first] = outcome.failed;
    if (first?.error instanceof Unreachable && outcome.pairs.length === 0) {
      this.#undo = undo;
      this.host.undoChanged();
    }
    if (undo.steps.length > 1 && (first || outcome.left > 0)) await showReport("Not everything was undone", outcome);
    else if (first) {
      const reason = refusalReason(first.error);
      notify(`Not undone: ${reason ? `${reason}.` : describe(first.error)}`, { kind: "error" });
    } else notify(`Undone: ${undo.label.replace("Undo ", "")}.`, { kind: "success" });
    this.host.refocus();
  }
}

/** What the service refused, in words for a dialog. */
class Refusal extends Error {
  /** @param {unknown} error */
  constructor(error) {
    super(describe(error));
    this.status = error instanceof ServiceError ? error.status : 0;
  }
}
