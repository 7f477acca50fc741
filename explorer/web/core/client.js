// A client of the Table service like any other: one account at one endpoint, with one credential.
//
// There is no other path to the data, so this page can do only what its credential allows.

import { entityUrl, isBusyBatch, readBatch, refusalOf, requestOf, writeBatch } from "./batch.js";
import { SasCredential, mayAllow } from "./credential.js";
import { ServiceError, Unreachable } from "./errors.js";
import { readEvents } from "./events.js";
import { parseEntities } from "./json.js";
import { continuationOf, refusalHeadOf, requestIdOf, tokensOf } from "./responses.js";
import { wait } from "./wait.js";
import { readIndexes, readPolicies, readProperties, readStatistics, readTableRetention } from "./xml.js";
import { writeIndexes, writePolicies, writeProperties, writeTableRetention } from "./xml.js";

/** @import { Operation, OperationKind } from "./batch.js" */
/** @import { Action, Credential } from "./credential.js" */
/** @import { Entity } from "./edm.js" */
/** @import { ServerEvent } from "./events.js" */
/** @import { ClusterLoad, Continuation, PageReport } from "./responses.js" */
/** @import { ServiceProperties, StoredPolicy, TableIndex, TableRetention } from "./xml.js" */
/**
 * A query of a table. If `select` is null, all properties are returned.
 * @typedef {{filter?: string, select?: string[] | null, top?: number | null, next?: Continuation | null, explain?: boolean,
 *   signal?: AbortSignal | undefined}} EntityQuery
 */
/**
 * A request for the number of matching entities. `progress` receives the number after each response.
 * @typedef {{filter: string, signal: AbortSignal, progress: (number: number) => void}} Sum
 */
/**
 * @typedef {{method?: string, headers?: Record<string, string>, body?: string | undefined,
 *   signal?: AbortSignal | undefined}} HttpRequest
 */

const VERSIONS = { "x-ms-version": "2019-02-02", DataServiceVersion: "3.0", MaxDataServiceVersion: "3.0" };
const JSON_TYPE = "application/json;odata=minimalmetadata";
const EXPLAIN = "x-ms-rowhouse-explain";
/** The maximum number of retries of a request for which the server was too busy. */
const REPEATS_MAX = 5;
const PAUSE_MS = 250;

/**
 * Dispatches "reachable" and "unreachable" when the server becomes reachable or unreachable, and "refused" when it
 * refuses the credential.
 */
export class TableService extends EventTarget {
  /**
   * @param {string} account
   * @param {string} endpoint the URL of the account, without a trailing slash
   * @param {Credential} credential
   * @param {boolean} [extensions] whether the server offers what goes beyond the service (docs/extensions.md)
   */
  constructor(account, endpoint, credential, extensions = false) {
    super();
    this.extensions = extensions;
    this.account = account;
    this.endpoint = endpoint;
    this.credential = credential;
    this.isReachable = true;
  }

  /**
   * @param {{next?: string | null, filter?: string, top?: number, signal?: AbortSignal}} [options]
   * @returns {Promise<{tables: string[], next: string | null}>}
   */
  async listTables({ next = null, filter, top, signal } = {}) {
    const url = this.#url("/Tables", { $filter: filter, $top: top, NextTableName: next });
    const { response, text } = await this.#send(url, { headers: { Accept: JSON_TYPE }, signal });
    const tables = JSON.parse(text).value.map((/** @type {{TableName: string}} */ table) => table.TableName);
    return { tables, next: response.headers.get("x-ms-continuation-NextTableName") };
  }

  /** @param {string} name */
  async createTable(name) {
    const headers = { Accept: JSON_TYPE, "Content-Type": "application/json", Prefer: "return-no-content" };
    await this.#send(this.#url("/Tables"), { method: "POST", headers, body: JSON.stringify({ TableName: name }) });
  }

  /** @param {string} name */
  async deleteTable(name) {
    const url = this.#url(`/Tables('${encodeURIComponent(name)}')`);
    await this.#send(url, { method: "DELETE", headers: { Accept: JSON_TYPE } });
  }

  /**
   * Returns a page of the matching entities.
   * @param {string} table
   * @param {EntityQuery} [query]
   * @returns {Promise<{entities: Entity[], next: Continuation | null, report: PageReport}>}
   */
  async queryEntities(table, { filter, select, top, next, explain = false, signal } = {}) {
    // Without its keys and Timestamp, an entity could neither be identified nor changed.
    const names = select ? [...new Set(["PartitionKey", "RowKey", "Timestamp", ...select])].join(",") : undefined;
    const url = this.#url(`/${encodeURIComponent(table)}()`, {
      $filter: filter || undefined,
      $select: names,
      $top: top,
      ...tokensOf(next),
    });
    /** @type {Record<string, string>} */
    const headers = explain ? { Accept: JSON_TYPE, [EXPLAIN]: "1" } : { Accept: JSON_TYPE };
    const began = performance.now();
    const { response, text } = await this.#send(url, { headers, signal });
    const milliseconds = performance.now() - began;
    const entities = parseEntities(text);
    const explained = response.headers.get(EXPLAIN);
    return {
      entities,
      next: continuationOf(response),
      report: {
        explain: explained === null ? null : JSON.parse(explained),
        milliseconds,
        bytes: text.length,
        entities: entities.length,
        requestId: requestIdOf(response),
      },
    };
  }

  /**
   * Streams the changes of a table, until the server ends the stream. This needs a server that keeps its log.
   * @param {string} table
   * @param {{after: string, filter: string, signal: AbortSignal, opened: () => void}} options `after` is the position to
   *   continue from. If it is empty, the stream begins at the lower bound of a key in `filter`, or with the next change.
   *   `opened` is called when the server has begun to stream
   * @returns {AsyncGenerator<ServerEvent>}
   */
  async *streamChanges(table, { after, filter, signal, opened }) {
    const url = this.#url(`/${encodeURIComponent(`$Changes${table}`)}()`, { $filter: filter || undefined });
    const headers = { Accept: "text/event-stream", ...(after && { "Last-Event-ID": after }) };
    try {
      const response = await this.#open(url, { headers, signal });
      this.reach(true);
      if (!response.ok || response.body === null) {
        throw this.#refusal(response, await response.text());
      }
      opened();
      yield* readEvents(response.body);
    } catch (error) {
      throw this.#failure(error, signal);
    }
  }

  /**
   * Returns the number of matching entities. This needs extensions.
   * @param {string} table
   * @param {Sum} sum
   */
  countEntities(table, sum) {
    return this.#addUp("GET", `/${encodeURIComponent(table)}()/$count`, sum);
  }

  /**
   * Deletes the matching entities, and returns their number. This needs extensions.
   * @param {string} table
   * @param {Sum} sum
   */
  deleteEntities(table, sum) {
    return this.#addUp("DELETE", `/${encodeURIComponent(table)}()`, sum);
  }

  /**
   * Sends requests until one returns no continuation tokens, and adds up the numbers that they return.
   * @param {string} method
   * @param {string} path
   * @param {Sum} sum
   */
  async #addUp(method, path, { filter, signal, progress }) {
    let number = 0;
    /** @type {Continuation | null} */
    let next = null;
    do {
      const url = this.#url(path, { $filter: filter || undefined, ...tokensOf(next) });
      /** @type {{response: Response, text: string}} */
      const { response, text } = await this.#send(url, { method, signal });
      number += Number(text);
      progress(number);
      next = continuationOf(response);
    } while (next !== null);
    return number;
  }

  /**
   * @param {string} table
   * @param {string} partitionKey
   * @param {string} rowKey
   * @returns {Promise<Entity>}
   */
  async getEntity(table, partitionKey, rowKey) {
    const url = this.#withToken(entityUrl(this.endpoint, table, partitionKey, rowKey));
    const { response, text } = await this.#send(url, { headers: { Accept: JSON_TYPE } });
    const [entity] = parseEntities(text);
    if (!entity) {
      throw new ServiceError(404, "ResourceNotFound", "The entity does not exist.");
    }
    return { ...entity, etag: response.headers.get("ETag") ?? entity.etag };
  }

  /**
   * Carries out one operation, and returns the new ETag.
   * @param {string} table
   * @param {Operation} operation
   * @param {AbortSignal} [signal]
   */
  async change(table, operation, signal) {
    const { method, url, headers, body } = requestOf(this.endpoint, encodeURIComponent(table), operation);
    const { response } = await this.#send(this.#withToken(url), { method, headers, body, signal });
    return response.headers.get("ETag") ?? "";
  }

  /**
   * Carries out all operations on entities of one partition, or none of them. Returns the new ETags; null for
   * deletions.
   * @param {string} table
   * @param {Operation[]} operations
   * @param {AbortSignal} [signal]
   */
  async transaction(table, operations, signal) {
    const { type, body } = writeBatch(this.endpoint, encodeURIComponent(table), operations);
    const headers = { Accept: JSON_TYPE, "Content-Type": type };
    const { response, text } = await this.#send(this.#url("/$batch"), { method: "POST", headers, body, signal });
    return readBatch(response.headers.get("Content-Type") ?? "", text, refusalHeadOf(response), operations.length);
  }

  /** @param {string} table */
  async getPolicies(table) {
    return readPolicies(await this.#getPart(table, "acl"));
  }

  /**
   * @param {string} table
   * @param {StoredPolicy[]} policies
   */
  async setPolicies(table, policies) {
    await this.#putXml(this.#partUrl(table, "acl"), writePolicies(policies));
  }

  /** @param {string} table */
  async getRetention(table) {
    return readTableRetention(await this.#getPart(table, "retention"));
  }

  /**
   * @param {string} table
   * @param {TableRetention | null} retention null to keep entities
   */
  async setRetention(table, retention) {
    await this.#putXml(this.#partUrl(table, "retention"), writeTableRetention(retention));
  }

  /**
   * @param {string} table
   * @param {AbortSignal} [signal]
   * @returns {Promise<TableIndex[]>}
   */
  async getIndexes(table, signal) {
    return readIndexes(await this.#getPart(table, "indexes", signal));
  }

  /**
   * @param {string} table
   * @param {string[]} properties
   */
  async setIndexes(table, properties) {
    await this.#putXml(this.#partUrl(table, "indexes"), writeIndexes(properties));
  }

  /**
   * Returns the URL of a part of a table other than its entities.
   * @param {string} table
   * @param {string} comp
   */
  #partUrl(table, comp) {
    return this.#url(`/${encodeURIComponent(table)}`, { comp });
  }

  /**
   * @param {string} table
   * @param {string} comp
   * @param {AbortSignal} [signal]
   */
  async #getPart(table, comp, signal) {
    return (await this.#send(this.#partUrl(table, comp), { signal })).text;
  }

  /** @returns {Promise<ServiceProperties>} */
  async getProperties() {
    const { text } = await this.#send(this.#url("/", { restype: "service", comp: "properties" }), {});
    return readProperties(text);
  }

  /** @param {ServiceProperties} properties */
  async setProperties(properties) {
    await this.#putXml(this.#url("/", { restype: "service", comp: "properties" }), writeProperties(properties));
  }

  /**
   * Reads the statistics of the service from the secondary endpoint. With path-style URLs, that endpoint has the same
   * origin, so this page may send it a request.
   */
  async getStatistics() {
    const url = this.#withToken(`${this.endpoint}-secondary/?restype=service&comp=stats`);
    const { text } = await this.#send(url, {});
    return readStatistics(text);
  }

  /**
   * Returns the load of the cluster in which the server keeps its data. This needs extensions and an account key.
   * @returns {Promise<ClusterLoad>}
   */
  async getClusterLoad() {
    const { text } = await this.#send(this.#url("/", { restype: "service", comp: "balance" }), {});
    return JSON.parse(text);
  }

  /**
   * Returns true if the credential may allow an action.
   * @param {Action} action
   * @param {string} [table]
   * @returns {boolean}
   */
  may(action, table) {
    return mayAllow(this.credential, action, table);
  }

  /**
   * Returns a URL below the endpoint.
   * @param {string} path
   * @param {Record<string, string | number | null | undefined>} [options]
   */
  #url(path, options = {}) {
    const given = Object.entries(options).filter(([, value]) => value !== undefined && value !== null);
    const query = given.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&");
    return this.#withToken(`${this.endpoint}${path}${query && `?${query}`}`);
  }

  /** @param {string} address */
  #withToken(address) {
    const { credential } = this;
    const url = new URL(address);
    if (credential instanceof SasCredential) {
      // The token is used unchanged: encoding it again could change what was signed.
      url.search = [url.search.slice(1), credential.token].filter(Boolean).join("&");
    }
    return url;
  }

  /**
   * @param {URL} url
   * @param {string} body
   */
  async #putXml(url, body) {
    await this.#send(url, { method: "PUT", headers: { "Content-Type": "application/xml" }, body });
  }

  /**
   * Sends a request, and retries it if the server was too busy.
   * @param {URL} url
   * @param {HttpRequest} request
   * @returns {Promise<{response: Response, text: string}>}
   */
  async #send(url, request) {
    for (let repeats = 0; ; repeats += 1) {
      const { response, text } = await this.#exchange(url, request);
      const isBusy = response.status === 503 || isBusyBatch(response.status, text);
      if (!isBusy || repeats === REPEATS_MAX) {
        if (response.ok) return { response, text };
        throw this.#refusal(response, text);
      }
      const seconds = Number(response.headers.get("Retry-After"));
      await wait(seconds > 0 ? seconds * 1000 : PAUSE_MS * 2 ** repeats, request.signal);
    }
  }

  /**
   * @param {URL} url
   * @param {HttpRequest} request
   */
  async #exchange(url, request) {
    try {
      const response = await this.#open(url, request);
      const text = await response.text();
      this.reach(true);
      return { response, text };
    } catch (error) {
      throw this.#failure(error, request.signal);
    }
  }

  /**
   * @param {URL} url
   * @param {HttpRequest} request
   */
  async #open(url, { method = "GET", headers = {}, body, signal }) {
    const signed = await this.credential.headers(url);
    const content = { headers: { ...VERSIONS, ...headers, ...signed }, body: body ?? null, signal: signal ?? null };
    // Without `no-store`, the browser could answer a repeated request from its cache.
    return fetch(url, { method, cache: "no-store", credentials: "omit", redirect: "error", ...content });
  }

  /**
   * Returns the error of a response.
   * @param {Response} response
   * @param {string} text
   */
  #refusal(response, text) {
    const refusal = refusalOf(response.status, text, refusalHeadOf(response));
    if (refusal.isOfCredential) {
      this.dispatchEvent(new CustomEvent("refused", { detail: refusal }));
    }
    return refusal;
  }

  /**
   * Returns the reason why there is no complete response.
   * @param {unknown} error
   * @param {AbortSignal | undefined} signal
   */
  #failure(error, signal) {
    if (error instanceof ServiceError) return error;
    if (signal?.aborted) return new DOMException("The request was cancelled.", "AbortError");
    this.reach(false);
    return error instanceof TypeError ? new Unreachable() : error;
  }

  /**
   * Records whether the server could be reached.
   * @param {boolean} isReachable
   */
  reach(isReachable) {
    if (isReachable !== this.isReachable) {
      this.isReachable = isReachable;
      this.dispatchEvent(new CustomEvent(isReachable ? "reachable" : "unreachable"));
    }
  }
}
