// <entity-grid>: shows any number of entities with only as many elements as fit on the screen, and reports user actions
// as events. No work here is proportional to the number of loaded entities. Must not depend on the service.

import { div, h } from "../ui/dom.js";
import { fitColumns } from "./column-fit.js";
import { Header } from "./grid-header.js";
import { Selection, command, lineAfter } from "./grid-keys.js";
import { EMPTY_FRAME, LINE_HEIGHT, Line, SELECT_WIDTH, cellText, cellTitle } from "./grid-line.js";
import { columnsInView, leftToShow, linesInView } from "./grid-line.js";
import { visibleText } from "./display.js";
import { Columns } from "./columns.js";

/** @import { Entity } from "../core/edm.js" */
/** @import { Column } from "./columns.js" */
/** @import { Frame } from "./grid-line.js" */
/** @import { Command } from "./grid-keys.js" */

const OVERSCAN_LINES = 6;
/** The next page is requested when fewer lines than this remain. */
const NEAR_END_LINES = 300;

export class EntityGrid extends HTMLElement {
  /** @type {Entity[]} */
  #entities = [];
  #columns = new Columns();
  /** @type {Selection<Entity>} */
  #selection = new Selection();
  #complete = false;
  /** @type {Frame} */
  #frame = { ...EMPTY_FRAME };
  /** @type {Line[]} */
  #lines = [];
  #active = { line: 0, column: 1 };
  /** Whether the user has gone to a cell of this list. Its line stays marked when the focus leaves the grid. */
  #isTouched = false;
  #marked = { line: -1, element: /** @type {HTMLElement | undefined} */ (undefined) };
  /** The part that was in view when it was last drawn. */
  #seen = { top: 0, height: 0 };
  /** Whether the grid itself has the focus because the active cell is out of view. */
  #parked = false;
  #scheduled = false;
  #observer = new ResizeObserver(() => this.#schedule());
  #body = h("div", { class: "grid-body", role: "rowgroup" });
  tail = div("grid-tail");
  #header = new Header({
    resize: (name, width) => {
      this.#columns.resize(name, width);
      this.columnsChanged();
      this.#tell("layout-change");
    },
    moveTo: (name, target) => {
      if (this.#columns.moveTo(name, target)) {
        this.columnsChanged();
        this.#tell("layout-change");
      }
    },
    menu: (name, opener) => this.#tell("column-menu", { name, opener }),
    selectAll: () => this.#run({ kind: "toggleAll" }),
  });

  #canvas = h(
    "div",
    {
      class: "grid-canvas",
      role: "grid",
      "aria-multiselectable": "true",
      tabindex: "-1",
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.#keydown(event),
      onclick: (/** @type {MouseEvent} */ event) => this.#click(event),
      // Selects a range of lines instead of text.
      onmousedown: (/** @type {MouseEvent} */ event) => event.shiftKey && event.preventDefault(),
      oncontextmenu: (/** @type {MouseEvent} */ event) => this.#menu(event),
      ondblclick: (/** @type {MouseEvent} */ event) => this.#doubleClick(event),
      oncopy: (/** @type {ClipboardEvent} */ event) => this.#copy(event),
      onfocusin: (/** @type {FocusEvent} */ event) => this.#focusIn(event),
      onmouseover: (/** @type {Event} */ event) => this.#titleOf(event.target),
    },
    h("div", { class: "grid-header", role: "rowgroup" }, this.#header.element),
    this.#body);

  constructor() {
    super();
    this.addEventListener("scroll", () => this.#schedule(), { passive: true });
  }

  connectedCallback() {
    if (!this.#canvas.parentElement) this.append(this.#canvas, this.tail);
    this.#canvas.setAttribute("aria-label", this.label);
    this.#observer.observe(this);
    this.#schedule();
  }

  disconnectedCallback() {
    this.#observer.disconnect();
  }

  label = "Entities";

  /**
   * Shows a list. The caller may append to the list and must then call grown().
   * @param {Entity[]} entities @param {Columns} columns @param {Selection<Entity>} selection
   */
  show(entities, columns, selection) {
    this.#entities = entities;
    this.#columns = columns;
    this.#selection = selection;
    this.#complete = false;
    this.#active = { line: 0, column: 1 };
    this.#isTouched = false;
    this.scrollTo(0, 0);
    this.columnsChanged();
  }

  /** @param {Entity[]} entities @param {number} active  the line to go to, or -1 */
  replaceList(entities, active) {
    this.#entities = entities;
    this.#active.line = active >= 0 ? active : Math.max(0, Math.min(this.#active.line, entities.length - 1));
    this.#frame.version += 1;
    this.#draw();
    if (active >= 0) {
      this.#reveal();
      this.#schedule();
    }
  }

  /** @param {boolean} complete */
  grown(complete) {
    this.#complete = complete;
    this.#schedule();
  }

  columnsChanged(columns = this.#columns) {
    this.#columns = columns;
    if (this.isConnected) fitColumns(this.#columns, this.#entities, this);
    const { shown } = this.#columns;
    const offsets = [SELECT_WIDTH];
    for (const column of shown) offsets.push(/** @type {number} */ (offsets.at(-1)) + column.width);
    const pinned = Columns.pinned(shown);
    const { local, sort } = this.#columns;
    this.#frame = { ...this.#frame, columns: shown, pinned, from: pinned, to: pinned, offsets, local, sort };
    this.#frame.structure += 1;
    this.#frame.version += 1;
    this.#active.column = Math.min(this.#active.column, shown.length);
    this.#schedule();
  }

  /** The line that is marked because the user went to it; -1 if none is, or if it is out of view. */
  get markedLine() {
    const { line } = this.#active;
    const { top, height } = this.#seen;
    const isSeen = line >= 0 && (line + 1) * LINE_HEIGHT > top && line * LINE_HEIGHT < top + height;
    return this.#isTouched && this.#selection.size === 0 && line < this.#entities.length && isSeen ? line : -1;
  }

  /** @param {string} kind @param {unknown} [detail] */
  #tell(kind, detail) {
    this.dispatchEvent(new CustomEvent(kind, { detail }));
  }

  #schedule() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      if (this.isConnected) this.#draw();
    });
  }

  #view() {
    const height = this.clientHeight - this.#header.element.offsetHeight;
    return linesInView(this.#entities.length, height, this.scrollTop);
  }

  #draw() {
    const { height, body, scale, top } = this.#view();
    this.#seen = { top, height };
    this.#chooseColumns();
    const frame = this.#frame;
    this.#canvas.setAttribute("aria-rowcount", String(this.#complete ? this.#entities.length + 1 : -1));
    this.#canvas.setAttribute("aria-colcount", String(frame.columns.length + 1));
    this.#canvas.style.width = `${frame.offsets.at(-1)}px`;
    this.#body.style.height = `${body}px`;
    this.#header.bind(frame);
    const first = Math.max(0, Math.floor(top / LINE_HEIGHT) - OVERSCAN_LINES);
    const last = Math.min(this.#entities.length, Math.ceil((top + height) / LINE_HEIGHT) + OVERSCAN_LINES);
    const wanted = Math.ceil(height / LINE_HEIGHT) + 2 * OVERSCAN_LINES + 1;
    while (this.#lines.length < wanted) {
      const line = new Line();
      this.#lines.push(line);
      this.#body.append(line.element);
    }
    const count = this.#lines.length;
    for (let index = first; index < last; index += 1) {
      const line = /** @type {Line} */ (this.#lines[index % count]);
      const entity = /** @type {Entity} */ (this.#entities[index]);
      if (!line.fresh(index, frame)) {
        if (line.index !== index) this.#park(line);
        line.bind(index, entity, frame, this.#selection.has(entity));
      }
      line.moveTo(index * LINE_HEIGHT - (scale === 1 ? 0 : top - this.scrollTop));
    }
    for (const line of this.#lines)
      if (line.index < first || line.index >= last) {
        this.#park(line);
        line.hide();
      }
    this.#markActive();
    if (last + NEAR_END_LINES >= this.#entities.length && !this.#complete) this.#tell("near-end");
  }

  #chooseColumns() {
    const frame = this.#frame;
    const { from, to } = columnsInView(frame, this.scrollLeft, this.clientWidth);
    if (from === frame.from && to === frame.to) return;
    if (this.#canvas.contains(document.activeElement)) this.#hold();
    this.#frame = { ...frame, from, to, structure: frame.structure + 1 };
  }

  /** Keeps the focus in the grid when the line that has it is about to show a different entity. @param {Line} line */
  #park(line) {
    if (line.element.contains(document.activeElement)) this.#hold();
  }

  #hold() {
    this.#parked = true;
    this.#canvas.focus({ preventScroll: true });
  }

  /** @param {number} line @param {number} column @returns {HTMLElement | undefined} */
  #cell(line, column) {
    const { pinned, from, to } = this.#frame;
    const place = column <= pinned ? column : column - 1 >= from && column - 1 < to ? column - from + pinned : -1;
    if (line < 0) return this.#header.cells[place];
    const drawn = this.#lines[line % this.#lines.length];
    return drawn?.index === line ? drawn.cells[place] : undefined;
  }

  /** Makes exactly one element reachable by Tab: the active cell, or the grid while that cell is out of view. */
  #markActive() {
    const cell = this.#cell(this.#active.line, this.#active.column);
    const marked = this.#canvas.querySelector("[tabindex='0'][role]");
    if (marked instanceof HTMLElement && marked !== cell) marked.tabIndex = -1;
    if (cell) cell.tabIndex = 0;
    this.#canvas.tabIndex = cell ? -1 : 0;
    if (cell && this.#parked && document.activeElement === this.#canvas) cell.focus({ preventScroll: true });
    if (document.activeElement !== this.#canvas) this.#parked = false;
    this.#markLine();
  }

  #markLine() {
    const line = this.markedLine;
    const element = line < 0 ? undefined : this.#lines[line % this.#lines.length]?.element;
    const { line: last, element: former } = this.#marked;
    this.#marked = { line, element };
    if (former !== element) former?.removeAttribute("aria-current");
    if (former !== element) element?.setAttribute("aria-current", "true");
    if (line !== last) this.#tell("marked");
  }

  /** @param {number} line @param {number} column */
  focusCell(line, column) {
    this.#isTouched = true;
    this.#active.line = Math.max(-1, Math.min(line, this.#entities.length - 1));
    this.#active.column = Math.max(0, Math.min(column, this.#frame.columns.length));
    this.#reveal();
    this.#draw();
    const cell = this.#cell(this.#active.line, this.#active.column);
    cell?.focus({ preventScroll: true });
    this.#titleOf(cell ?? null);
  }

  #reveal() {
    const { height, body, scale, top } = this.#view();
    this.#body.style.height = `${body}px`; // The list may have grown, and the browser scrolls no further.
    const { line, column } = this.#active;
    if (line >= 0) {
      const start = line * LINE_HEIGHT;
      if (start < top) this.scrollTop = Math.floor(start / scale);
      else if (start + LINE_HEIGHT > top + height) this.scrollTop = Math.ceil((start + LINE_HEIGHT - height) / scale);
    }
    const [pinned] = this.#header.cells;
    const isSticky = pinned !== undefined && getComputedStyle(pinned).position === "sticky";
    const left = leftToShow(this.#frame, column, this.scrollLeft, this.clientWidth, isSticky);
    if (left !== this.scrollLeft) this.scrollTo({ left });
  }

  focus() {
    this.focusCell(this.#active.line, this.#active.column);
  }

  /** @param {EventTarget | null} target @returns {{line: number, column: number, cell: HTMLElement} | null} */
  #at(target) {
    const cell = target instanceof Element ? target.closest(".grid-cell") : null;
    if (!(cell instanceof HTMLElement) || !cell.parentElement) return null;
    return {
      cell,
      line: Number(cell.parentElement.getAttribute("aria-rowindex")) - 2,
      column: Number(cell.getAttribute("aria-colindex")) - 1,
    };
  }

  /** @param {FocusEvent} event */
  #focusIn(event) {
    const hit = this.#at(event.target);
    if (event.target === this.#canvas && !this.#parked) return this.focus();
    if (!hit) return;
    this.#isTouched = true;
    this.#active = { line: hit.line, column: hit.column };
    this.#markActive();
  }

  /** @param {MouseEvent} event */
  #click(event) {
    const hit = this.#at(event.target);
    const entity = hit && this.#entities[hit.line];
    if (!entity) return;
    const toggled = event.ctrlKey || event.metaKey || hit.column === 0;
    if (event.shiftKey) this.#selection.range(this.#entities, hit.line);
    else this.#selection.anchor = hit.line;
    if (toggled && !event.shiftKey) this.#selection.toggle(entity);
    this.focusCell(hit.line, hit.column);
    if (toggled || event.shiftKey) this.#selectionChanged();
  }

  /** @param {MouseEvent} event */
  #doubleClick(event) {
    const hit = this.#at(event.target);
    const column = hit && this.#frame.columns[hit.column - 1];
    if (hit && column && hit.line >= 0) this.#tell("cell-edit", { line: hit.line, column, cell: hit.cell });
  }

  /** Opens the menu of a cell, by mouse or by keyboard. @param {MouseEvent} event */
  #menu(event) {
    const hit = this.#at(event.target);
    const column = hit && this.#frame.columns[hit.column - 1];
    if (!hit || !column || !this.#entities[hit.line]) return;
    event.preventDefault();
    this.focusCell(hit.line, hit.column);
    this.#tell("cell-menu", { line: hit.line, column, opener: hit.cell });
  }

  /** @param {KeyboardEvent} event */
  #keydown(event) {
    const found = command(event, this.#active.line < 0);
    if (!found) return;
    event.preventDefault();
    this.#run(found);
  }

  /** @param {Command} found */
  #run(found) {
    const { line, column } = this.#active;
    const entity = this.#entities[line];
    const name = this.#frame.columns[column - 1]?.name;
    const selection = this.#selection;
    switch (found.kind) {
      case "go":
        return this.#go(found);
      case "toggle":
        if (entity) selection.toggle(entity);
        selection.anchor = line;
        return this.#selectionChanged();
      case "all":
      case "clear":
      case "toggleAll":
        if (found.kind === "clear" || (found.kind === "toggleAll" && selection.size === this.#entities.length))
          selection.clear();
        else selection.all(this.#entities);
        return this.#selectionChanged();
      case "open":
        return entity && this.#tell("entity-open", line);
      case "delete":
        return this.#tell("entities-delete");
      case "menu":
        if (name) this.#tell("column-menu", { name, opener: this.#cell(-1, column) });
        else this.#run({ kind: "toggleAll" });
        return;
      case "move":
        return name ? this.moveColumn(name, found.by) : undefined;
      case "widen":
        return name ? this.widenColumn(name, found.by) : undefined;
    }
  }

  /** @param {string} name @param {-1 | 1} by */
  moveColumn(name, by) {
    if (!this.#columns.move(name, by)) return;
    this.columnsChanged();
    this.focusCell(-1, 1 + this.#frame.columns.findIndex((column) => column.name === name));
    this.#tell("layout-change", `${visibleText(name, 60)} is now column ${this.#active.column}`);
  }

  /** @param {string} name @param {number} by */
  widenColumn(name, by) {
    this.#columns.resize(name, (this.#columns.get(name)?.width ?? 0) + by);
    this.columnsChanged();
    this.#tell("layout-change", `${this.#columns.get(name)?.width} pixels wide`);
  }

  /** @param {Command & {kind: "go"}} to */
  #go(to) {
    const { columns, extend } = to;
    const { line, column } = this.#active;
    this.focusCell(lineAfter(to, line, this.#view().lines - 2), column + columns);
    if (!extend) this.#selection.anchor = Math.max(0, this.#active.line);
    if (extend) {
      this.#selection.range(this.#entities, this.#active.line);
      this.#selectionChanged();
    }
  }

  #selectionChanged() {
    this.#frame.version += 1;
    this.#schedule();
    this.#tell("selection-change");
  }

  /** @param {ClipboardEvent} event */
  #copy(event) {
    if (getSelection()?.toString()) return;
    const { line, column } = this.#active;
    const [entity, shown] = [this.#entities[line], this.#frame.columns[column - 1]];
    if (!shown || (line >= 0 && !entity)) return;
    event.clipboardData?.setData("text/plain", entity ? cellText(entity, shown) : shown.name);
    event.preventDefault();
    this.#tell("copied");
  }

  /** Sets a tooltip only when it is needed, because most never are. @param {EventTarget | null} target */
  #titleOf(target) {
    const hit = this.#at(target);
    const entity = hit && this.#entities[hit.line];
    const column = hit && this.#frame.columns[hit.column - 1];
    if (hit && entity && column) hit.cell.title = cellTitle(entity, column, this.#columns.local);
  }
}

customElements.define("entity-grid", EntityGrid);
