// Helpers for responses from the server: raw responses, errors and the properties of an entity.

import assert from "node:assert/strict";
import { RestError } from "@azure/data-tables";

// The digits of the fraction are not checked here, because a case in errors.test.js checks them. A server with wrong
// digits should not also fail all other cases.
const TAIL = /\nRequestId:([^\n]+)\nTime:(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z)$/;

// The client hides some errors (an existing table on create, a missing table on delete). Only the hook that it calls
// for every response shows them.
export async function rawAnswer(call) {
  let answer;
  await call({ onResponse: (response) => (answer = response) });
  assert.ok(answer, "The client must have received an answer.");
  return answer;
}

// Error details are in one of two places: for a transaction, the client sets them on the error itself; for every other
// operation, it leaves them in the JSON body of the response.
function detailsOf(error) {
  if (error.code !== undefined) {
    return { code: error.code, message: error.message };
  }
  return detailsOfBody(error.response?.bodyAsText);
}

export function detailsOfBody(text) {
  let body;
  try {
    body = JSON.parse(text)["odata.error"];
  } catch {
    body = undefined;
  }
  assert.ok(body, `The body must be an OData error in JSON: ${text}`);
  assert.equal(body.message.lang, "en-US");
  return { code: body.code, message: body.message.value };
}

// Removes the last two lines, which differ in every response, and checks that they exist.
export function firstLine(message) {
  assert.match(message, TAIL);
  return message.replace(TAIL, "");
}

export function tailOf(message) {
  const [, requestId, time] = TAIL.exec(message);
  return { requestId, time };
}

// Asserts that the server refuses an operation. `expected` contains the `status` and, where the specification defines
// them, the `code` and the `message`.
export async function assertRefused(operation, expected) {
  const error = await operation.then(
    () => assert.fail(`Expected a refusal: ${JSON.stringify(expected)}`),
    (reason) => reason,
  );
  assertIsRefusal(error, expected);
  return error;
}

export function assertIsRefusal(error, { status, code, message }) {
  assert.ok(error instanceof RestError, `Expected a RestError, got ${error?.stack ?? error}`);
  assert.equal(error.statusCode, status, error.message);
  if (code === undefined && message === undefined) {
    return;
  }
  const details = detailsOf(error);
  if (code !== undefined) {
    assert.equal(details.code, code, details.message);
  }
  if (message instanceof RegExp) {
    assert.match(firstLine(details.message), message);
  } else if (message !== undefined) {
    assert.equal(firstLine(details.message), message);
  }
}

// Omits keys, ETag and annotations.
export function propertiesOf(entity) {
  const { partitionKey, rowKey, timestamp, etag, "odata.metadata": metadata, ...custom } = entity;
  return custom;
}

export async function collect(iterator) {
  const items = [];
  for await (const item of iterator) {
    items.push(item);
  }
  return items;
}

export async function rowKeysOf(iterator) {
  return (await collect(iterator)).map((entity) => entity.rowKey);
}

export const NOT_FOUND = {
  status: 404,
  code: "ResourceNotFound",
  message: "The specified resource does not exist.",
};
export const NO_TABLE = {
  status: 404,
  code: "TableNotFound",
  message: "The table specified does not exist.",
};
export const EXISTS = {
  status: 409,
  code: "EntityAlreadyExists",
  message: "The specified entity already exists.",
};
export const STALE = {
  status: 412,
  code: "UpdateConditionNotSatisfied",
  message: "The update condition specified in the request was not satisfied.",
};
export const VALUE_TOO_LARGE = {
  status: 400,
  code: "PropertyValueTooLarge",
  message:
    "The property value exceeds the maximum allowed size (64KB). If the property value is a string, " +
    "it is UTF-16 encoded and the maximum number of characters should be 32K or less.",
};

// Returns the error as a transaction reports it for the operation at `index`.
export function at(index, expected) {
  return { ...expected, message: `${index}:${expected.message}` };
}
