// Entity group transactions: writes the body of a batch, and reads the results of its operations.

import { toHex } from "./edm.js";
import { ServiceError } from "./errors.js";
import { writeEntity } from "./json.js";

/** @import { Entity } from "./edm.js" */
/** @import { RefusalHead } from "./responses.js" */
/** @typedef {"insert" | "replace" | "merge" | "insertOrReplace" | "insertOrMerge" | "delete"} OperationKind */
/**
 * One operation on an entity. `etag` is the ETag that the entity must have, for operations that require it to exist.
 * @typedef {{kind: OperationKind, entity: Pick<Entity, "partitionKey" | "rowKey" | "properties">, etag?: string}} Operation
 */

/** The maximum number of operations in a transaction. */
export const OPERATIONS_MAX = 100;
/** The maximum number of entities in a page. */
export const PAGE_ENTITIES_MAX = 1000;

/** @type {Record<OperationKind, string>} */
const METHODS = {
  insert: "POST",
  replace: "PUT",
  merge: "MERGE",
  insertOrReplace: "PUT",
  insertOrMerge: "MERGE",
  delete: "DELETE",
};

/**
 * Returns the method, URL and headers of an operation, and its body if it has one.
 * @param {string} endpoint
 * @param {string} table
 * @param {Operation} operation
 * @returns {{method: string, url: string, headers: Record<string, string>, body: string | undefined}}
 */
export function requestOf(endpoint, table, { kind, entity, etag = "*" }) {
  const isConditional = kind === "replace" || kind === "merge" || kind === "delete";
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json;odata=minimalmetadata", DataServiceVersion: "3.0" };
  if (isConditional) {
    headers["If-Match"] = etag;
  }
  if (kind !== "delete") {
    headers["Content-Type"] = "application/json";
    headers["Prefer"] = "return-no-content";
  }
  const url = kind === "insert" ? `${endpoint}/${table}` : entityUrl(endpoint, table, entity.partitionKey, entity.rowKey);
  return { method: METHODS[kind], url, headers, body: kind === "delete" ? undefined : writeEntity(entity) };
}

/**
 * Returns the URL of an entity.
 * @param {string} endpoint
 * @param {string} table
 * @param {string} partitionKey
 * @param {string} rowKey
 */
export function entityUrl(endpoint, table, partitionKey, rowKey) {
  const [partition, row] = [partitionKey, rowKey].map((key) => encodeURIComponent(key).replaceAll("'", "%27%27"));
  return `${endpoint}/${encodeURIComponent(table)}(PartitionKey='${partition}',RowKey='${row}')`;
}

/**
 * Returns the body of a batch with one transaction, and its media type.
 * @param {string} endpoint
 * @param {string} table
 * @param {Operation[]} operations
 */
export function writeBatch(endpoint, table, operations) {
  const [batch, changeset] = [`batch_${randomName()}`, `changeset_${randomName()}`];
  const lines = [`--${batch}`, `Content-Type: multipart/mixed; boundary=${changeset}`, ""];
  operations.forEach((operation, index) => {
    const { method, url, headers, body } = requestOf(endpoint, table, operation);
    lines.push(`--${changeset}`, "Content-Type: application/http", "Content-Transfer-Encoding: binary", "");
    lines.push(`${method} ${url} HTTP/1.1`, `Content-ID: ${index}`);
    lines.push(...Object.entries(headers).map(([name, value]) => `${name}: ${value}`), "", body ?? "");
  });
  lines.push(`--${changeset}--`, `--${batch}--`, "");
  return { type: `multipart/mixed; boundary=${batch}`, body: lines.join("\r\n") };
}

/**
 * Returns a name that no text contains by chance. `crypto.randomUUID` is unavailable if the page was loaded over HTTP
 * from another machine.
 */
function randomName() {
  return toHex(crypto.getRandomValues(new Uint8Array(16)));
}

/**
 * Returns the ETags of the operations of a transaction, in order; null for deletions.
 * @param {string} type the Content-Type of the response
 * @param {string} text
 * @param {RefusalHead} refused
 * @param {number} count  the number of operations
 * @returns {(string | null)[]}
 * @throws {ServiceError} if the transaction was refused
 */
export function readBatch(type, text, refused, count) {
  const changeset = parts(type, text)[0] ?? "";
  const [head = "", ...content] = changeset.split("\r\n\r\n");
  const responses = parts(head, content.join("\r\n\r\n"));
  // The response to a transaction that failed as a whole may have no changeset.
  const etags = (responses.length > 0 ? responses : [changeset]).map((response) => {
    const start = response.indexOf("HTTP/1.1 ");
    const status = Number(response.slice(start + 9, start + 12));
    if (status >= 400) {
      throw refusalOf(status, response.slice(response.indexOf("\r\n\r\n", start) + 4), refused);
    }
    return /^ETag: (.*)\r$/im.exec(response.slice(start))?.[1] ?? null;
  });
  if (responses.length !== count) {
    throw new Error("The response cannot be read, so it is not known whether the transaction was carried out.");
  }
  return etags;
}

/**
 * Returns true if the server was too busy for a transaction, which the only part of its response says.
 * @param {number} status the status of the whole response
 * @param {string} text
 */
export function isBusyBatch(status, text) {
  const start = text.indexOf("HTTP/1.1 ");
  return status === 202 && start >= 0 && text.startsWith("503", start + "HTTP/1.1 ".length);
}

/**
 * Returns the parts of a multipart body.
 * @param {string} type
 * @param {string} text
 */
function parts(type, text) {
  const boundary = /boundary="?([\w\-.]+)"?/i.exec(type)?.[1];
  return boundary ? text.split(`--${boundary}`).slice(1, -1) : [];
}

/**
 * Reads an error from a response body. The message for a failed transaction begins with the number of the operation.
 * @param {number} status
 * @param {string} body
 * @param {RefusalHead} head
 */
export function refusalOf(status, body, head) {
  let [code, message] = [`HTTP ${status}`, ""];
  try {
    const error = JSON.parse(body)["odata.error"];
    [code, message] = [error.code, error.message.value];
  } catch {
    code = /<(?:m:)?code>([^<]*)</i.exec(body)?.[1] ?? code;
    message = /<(?:m:)?message[^>]*>([^<]*)</i.exec(body)?.[1] ?? "";
  }
  const [, index, rest] = /^(\d{1,2}):([^]*)$/.exec(message) ?? [];
  return new ServiceError(status, code, rest ?? message, { ...head, index: index === undefined ? null : Number(index) });
}
