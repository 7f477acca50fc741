// The user's actions on entities. Connects the dialogs with the service; the host shows every change. Must not depend
// on the grid.

import { Unreachable, describe } from "../core/errors.js";
import { countText, numberText } from "../core/words.js";
import { ask } from "../ui/dialog.js";
import { notify } from "../ui/notify.js";
import { progressDialog } from "../ui/progress.js";
import { refusalReason, sameValue, stepFor, undoSteps, writeMany, writeStep } from "./changes.js";
import { askConflict, askPropertyEdit, showReport, withProperty } from "./dialogs.js";
import { openCellEditor } from "./cell-editor.js";
import { entityName } from "./display.js";
import { openEditor } from "./editor.js";
import { openEntityJson } from "./json-view.js";

/** @import { EdmType, Entity, Value } from "../core/edm.js" */
/** @import { Column } from "./columns.js" */
/** @import { TableService } from "../core/client.js" */
/** @import { Change, Failure, Outcome, Pair, Step } from "./changes.js" */
/** @import { EntityLoader } from "./loader.js" */
/**
 * @typedef {object} Host
 * @property {() => EntityLoader} loader  returns the loader of the displayed entities
 * @property {() => ReadonlyMap<string, EdmType>} properties  returns the known properties
 * @property {(pairs: Pair[], loader: EntityLoader) => void} apply  shows a change of entities that the loader loaded
 * @property {() => void} undoChanged
 * @property {() => void} refocus
 */

const PAST = { add: "Added", edit: "Edited", delete: "Deleted" };
const NEEDS = { insert: "add", replace: "update", merge: "update", delete: "delete" };
const PROJECTION_NOTE =
  "Only some properties are loaded. Saving merges these properties and leaves the others unchanged. " +
  "No property can be removed.";

/** @param {Pair[]} pairs */
function subject(pairs) {
  const [pair] = pairs;
  const entity = pair?.after ?? pair?.before;
  return pairs.length === 1 && entity ? entityName(entity) : countText(pairs.length);
}

export class EntityActions {
  /** @type {{label: string, steps: Step[], loader: EntityLoader, began: number} | null} */
  #undo = null;
  /** Removes the notice that offers to undo the last change. */
  #closeNotice = () => {};

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
    const entity = { partitionKey: "", rowKey: "", timestamp: "", etag: "", properties: new Map() };
    this.#openNew("Add an entity", entity, this.host.properties());
  }

  /** @param {Entity} entity */
  async duplicate(entity) {
    const { partitionKey, rowKey } = entity;
    const whole = this.host.loader().projected ? await this.service.getEntity(this.table, partitionKey, rowKey) : entity;
    this.#openNew("Duplicate an entity", { ...whole, timestamp: "", etag: "", properties: new Map(whole.properties) });
  }

  /** @param {string} title @param {Entity} entity @param {ReadonlyMap<string, EdmType>} [offered] */
  #openNew(title, entity, offered) {
    const loader = this.host.loader();
    const began = Date.now();
    const save = (/** @type {Entity} */ mine) => this.#solve("add", { before: null, after: mine }, loader, began);
    this.#refocusAfter(openEditor({ title, entity, mode: "new", action: "Add", save, ...(offered && { offered }) }));
  }

  /** @param {Entity} entity */
  open(entity) {
    const title = `Entity ${entityName(entity)}`;
    if (!this.service.may("update", this.table)) {
      this.#refocusAfter(openEditor({ title, entity, mode: "read", action: "" }));
      return;
    }
    const loader = this.host.loader();
    const { projected } = loader;
    const save = (/** @type {Entity} */ mine) => this.#saveEdit(entity, mine, loader);
    this.#refocusAfter(
      openEditor({
        title,
        entity,
        mode: "edit",
        action: "Save",
        save,
        keepProperties: projected,
        ...(projected ? { note: PROJECTION_NOTE } : {}),
      }));
  }

  /**
   * Edits the property of a cell. Keys and the Timestamp cannot change, so their cells open the whole entity.
   * @param {Entity} entity @param {Column} column @param {HTMLElement} cell
   */
  openCell(entity, { kind, name, types }, cell) {
    if (kind !== "property" || !this.service.may("update", this.table)) return this.open(entity);
    const loader = this.host.loader();
    const value = entity.properties.get(name);
    const [type = /** @type {const} */ ("Edm.String")] = types;
    /** @param {Value} written */
    const save = (written) =>
      this.#saveEdit(entity, { ...entity, properties: new Map(entity.properties).set(name, written) }, loader);
    this.#refocusAfter(openCellEditor(entity, { name, value: value ?? { type, text: "" }, isNew: !value, cell, save }));
  }

  /** @param {Entity} entity */
  openJson(entity) {
    const loader = this.host.loader();
    const mayEdit = this.service.may("update", this.table) && !loader.projected;
    openEntityJson(entity, mayEdit ? (mine) => this.#saveEdit(entity, mine, loader) : null);
  }

  /** @param {{closed: Promise<void>}} dialog */
  #refocusAfter(dialog) {
    dialog.closed.then(() => this.host.refocus());
  }

  /** @param {Entity} loaded @param {Entity} mine @param {EntityLoader} loader */
  async #saveEdit(loaded, mine, loader) {
    const same =
      mine.properties.size === loaded.properties.size &&
      [...mine.properties].every(([name, value]) => sameValue(value, loaded.properties.get(name) ?? null));
    return same || this.#solve("edit", { before: loaded, after: mine }, loader);
  }

  /**
   * Writes a pair. On a conflict, asks the user until it is resolved. Returns false if the user cancels.
   * @param {Change["verb"]} verb
   * @param {Pair} first
   * @param {EntityLoader} loader
   * @param {number} [began]  when the insertion was first attempted
   * @param {Failure} [failure]  the failure of an earlier attempt, if there was one
   * @returns {Promise<boolean>}
   */
  async #solve(verb, first, loader, began, failure) {
    const { before: loaded, after: mine } = first;
    const { projected } = loader;
    for (let pair = first; ; ) {
      const result = failure ?? (await writeStep(this.service, this.table, stepFor(pair, projected), began));
      if ("pair" in result) {
        this.#done({ verb, pairs: [result.pair], projected }, loader);
        return true;
      }
      failure = undefined;
      const { error, theirs } = result;
      if (!loaded || theirs === undefined || !refusalReason(error)) throw new Error(describe(error));
      if (theirs === null) {
        if (projected || !mine)
          throw new Error(
            "Someone else deleted the entity. Only some of its properties were loaded, so it cannot be inserted again.");
        const text = `Someone else deleted ${entityName(mine)}. Insert it again with your changes?`;
        const again = await ask("The entity was deleted by someone else", text, "Insert again", "primary", true);
        return again && this.#solve("add", { before: null, after: mine }, loader, Date.now());
      }
      const answer = await askConflict({ loaded, mine, theirs, projected });
      if (!answer) return false;
      if ("take" in answer) {
        this.host.apply([{ before: loaded, after: theirs }], loader);
        return true;
      }
      pair = { before: theirs, after: answer.write };
    }
  }

  /** Shows a change and offers to undo it. @param {Change} change @param {EntityLoader} loader */
  #done(change, loader) {
    const steps = undoSteps(change);
    const allowed = steps?.every((step) => this.service.may(/** @type {"add"} */ (NEEDS[step.operation.kind]), this.table));
    const name = subject(change.pairs);
    const undo = steps && allowed ? { label: `Undo: ${change.verb} ${name}`, steps, loader, began: Date.now() } : null;
    this.#undo = undo;
    this.host.apply(change.pairs, loader);
    this.host.undoChanged();
    const action = undo ? { action: { label: "Undo", run: () => void this.undo() } } : {};
    this.#closeNotice();
    this.#closeNotice = notify(`${PAST[change.verb]} ${name}.`, { kind: "success", ...action });
  }

  /** Removes what no longer applies when the view is closed. */
  stop() {
    this.#closeNotice();
  }

  /** @param {Entity[]} entities */
  async remove(entities) {
    const pairs = entities.map((entity) => ({ before: entity, after: null }));
    const [pair] = pairs;
    const loader = this.host.loader();
    const warning = loader.projected ? " Only some properties were loaded, so this cannot be undone." : "";
    const what = pairs.length === 1 ? "The entity" : countText(pairs.length);
    const text = `${what} will be deleted from the table ${this.table}.${warning}`;
    if (pair && (await ask(`Delete ${subject(pairs)}?`, text, "Delete", "danger", true))) {
      if (pairs.length === 1) await this.#solve("delete", pair, loader);
      else await this.#writeAll("delete", entities, (before) => stepFor({ before, after: null }, false), loader);
    }
    this.host.refocus();
  }

  /** @param {Entity[]} entities */
  async editProperty(entities) {
    const loader = this.host.loader();
    const edit = await askPropertyEdit({
      count: entities.length,
      names: [...this.host.properties().keys()],
      removable: !loader.projected,
      known: (name) => {
        const values = entities.map((entity) => entity.properties.get(name) ?? null);
        const value = values.find((one) => one !== null);
        return value && (values.every((one) => sameValue(one, value)) ? value : { type: value.type, text: "" });
      },
    });
    if (edit)
      await this.#writeAll(
        "edit",
        entities,
        (before) => {
          const after = withProperty(before, edit);
          if (!after) return null;
          // A merge sends only this property; only a replace can remove it.
          const entity = edit.value ? { ...before, properties: new Map([[edit.name, edit.value]]) } : after;
          const kind = edit.value ? "merge" : "replace";
          return { operation: { kind, entity, etag: before.etag }, pair: { before, after } };
        },
        loader);
    this.host.refocus();
  }

  /**
   * @param {Change["verb"]} verb
   * @param {Entity[]} entities
   * @param {(entity: Entity) => Step | null} stepOf  null if there is nothing to write
   * @param {EntityLoader} loader
   * @returns {Promise<void>}
   */
  async #writeAll(verb, entities, stepOf, loader) {
    const steps = entities.map(stepOf).filter((step) => step !== null);
    if (steps.length === 0) return void notify("The selected entities need no change.");
    const titles = { add: "Adding", edit: "Editing", delete: "Deleting" };
    const outcome = await this.#withProgress(`${titles[verb]} ${countText(steps.length)}`, steps);
    if (outcome.pairs.length > 0) this.#done({ verb, pairs: outcome.pairs, projected: loader.projected }, loader);
    if (outcome.failed.length === 0 && outcome.left === 0) return;
    const again = await showReport(`Some entities were not ${PAST[verb].toLowerCase()}`, outcome, (failure) =>
      this.#solve(verb, failure.step.pair, loader, undefined, failure));
    const theirs = again.flatMap((failure) => failure.theirs ?? []);
    if (theirs.length > 0) await this.#writeAll(verb, theirs, stepOf, loader);
  }

  /** @param {string} title @param {Step[]} steps @param {number} [began] @returns {Promise<Outcome>} */
  async #withProgress(title, steps, began = NaN) {
    const { signal } = new AbortController();
    if (steps.length === 1) return writeMany(this.service, this.table, steps, { signal, progress: () => {}, began });
    const outcome = await progressDialog({
      title,
      run: ({ report, signal }) =>
        writeMany(this.service, this.table, steps, {
          signal,
          began,
          progress: (done) => report(done, steps.length, `${numberText(done)} of ${countText(steps.length)}`),
        }),
    });
    return outcome ?? { pairs: [], failed: [], left: steps.length };
  }

  async undo() {
    const undo = this.#undo;
    if (!undo) return;
    this.#undo = null;
    this.#closeNotice();
    this.host.undoChanged();
    const outcome = await this.#withProgress(undo.label, undo.steps, undo.began);
    if (outcome.pairs.length > 0) this.host.apply(outcome.pairs, undo.loader);
    const [first] = outcome.failed;
    if (first?.error instanceof Unreachable && outcome.pairs.length === 0) {
      this.#undo = undo;
      this.host.undoChanged();
    }
    if (undo.steps.length > 1 && (first || outcome.left > 0)) await showReport("Some changes were not undone", outcome);
    else if (first) {
      const reason = refusalReason(first.error);
      notify(`Not undone: ${reason ? `${reason}.` : describe(first.error)}`, { kind: "error" });
    } else notify(`Undone: ${undo.label.replace("Undo: ", "")}.`, { kind: "success" });
    this.host.refocus();
  }
}
