// The script of every page: the client, bundled for browsers, and helpers for the cases. Functions that run in a page
// access both through global variables.

import { AzureSASCredential, TableClient, TableServiceClient, TableTransaction, odata } from "@azure/data-tables";

// Retries are disabled, because an unnoticed second request could hide a wrong first response.
const options = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };

function serviceClient({ endpoint, token }) {
  return new TableServiceClient(endpoint, new AzureSASCredential(token), options);
}

function tableClient({ endpoint, token, name }) {
  return new TableClient(endpoint, name, new AzureSASCredential(token), options);
}

async function collect(iterator) {
  const items = [];
  for await (const item of iterator) {
    items.push(item);
  }
  return items;
}

// Returns the visible parts of an error. A request that the browser refused has neither a status nor a body. The
// response to a transaction is not JSON, so the client takes the code and the message from the failed part.
async function refusal(operation) {
  const error = await operation.then(
    (value) => {
      throw new Error(`expected a refusal, got ${JSON.stringify(value)}`);
    },
    (reason) => reason,
  );
  const body = error.response?.bodyAsText;
  return {
    name: error.name,
    message: error.message,
    code: error.code,
    status: error.statusCode,
    bodyCode: body?.startsWith("{") ? JSON.parse(body)["odata.error"].code : undefined,
    headerCode: error.response?.headers.get("x-ms-error-code"),
  };
}

Object.assign(globalThis, { TableTransaction, odata, serviceClient, tableClient, collect, refusal });
