// The languages that a query can be copied as.
// This module must not know the page.

import { csharp, java, javascript, python, rust } from "./programs.js";
import { commandLine, curl } from "./shell.js";

/** @import { Query } from "../query.js" */
/** @import { Task } from "./programs.js" */

/** @type {{id: string, label: string, write: (task: Task) => string}[]} */
export const LANGUAGES = [
  { id: "python", label: "Python", write: python },
  { id: "javascript", label: "JavaScript", write: javascript },
  { id: "csharp", label: "C#", write: csharp },
  { id: "java", label: "Java", write: java },
  { id: "rust", label: "Rust", write: rust },
  { id: "curl", label: "curl", write: curl },
  { id: "command-line", label: "Command line", write: commandLine },
];

const KEYS = ["PartitionKey", "RowKey"];

/**
 * What a program is to do. The keys are always selected, as in the explorer, so that entities can be told from each other.
 * @param {{endpoint: string, account: string}} service
 * @param {string} table
 * @param {Query} query
 * @param {string | null} [sas]
 * @returns {Task}
 */
export function taskOf({ endpoint, account }, table, { filter, select, top }, sas = null) {
  const names = select && [...new Set([...KEYS, ...select])];
  return { endpoint, account, table, query: { filter: filter.trim(), select: names, top }, sas };
}
