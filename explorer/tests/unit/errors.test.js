// The messages for errors of the service.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ServiceError, describe } from "../../web/core/errors.js";

const REFUSED = "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly.\nRequestId:1";

test("errors whose message does not help users are explained", () => {
  const refused = describe(new ServiceError(403, "AuthenticationFailed", REFUSED));
  assert.match(refused, /^The server does not accept the credential\. Sign in again .* \(AuthenticationFailed, 403\)$/);
  const unsupported = describe(new ServiceError(501, "NotImplemented", "The requested operation is not implemented."));
  assert.match(unsupported, /^The service does not support this request\. .* \(NotImplemented, 501\)$/);
  const settings = describe(new ServiceError(400, "InvalidXmlDocument", "XML specified is not syntactically valid."));
  assert.match(settings, /^The server does not accept these settings\. .* \(InvalidXmlDocument, 400\)$/);
  const reasoned = describe(new ServiceError(501, "NotImplemented", "Not implemented.", { reason: "There is no 'contains'." }));
  assert.equal(reasoned, "There is no 'contains'. (NotImplemented, 501)");
  const routine = describe(new ServiceError(404, "TableNotFound", "No table.", { reason: "Create it." }));
  assert.equal(routine, "No table. (TableNotFound, 404)");
  const other = describe(new ServiceError(409, "TableAlreadyExists", "The table specified already exists.\nRequestId:1"));
  assert.equal(other, "The table specified already exists. (TableAlreadyExists, 409)");
});
