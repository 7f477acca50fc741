// An issuer of bearer tokens. The server trusts it through a file with its public key.

import { createSign, generateKeyPairSync } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const NAME = "https://login.example.net/explorer";
const MINUTE_S = 60;

// Returns the options that make a server trust the issuer, with a principal for each role, and a function that issues a
// token. `test` is the test context of node:test.
export async function createIssuer(test, scope) {
  const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const folder = await mkdtemp(join(tmpdir(), "explorer-issuer-"));
  test.after(() => rm(folder, { recursive: true }));
  const keys = join(folder, "keys.json");
  await writeFile(keys, JSON.stringify({ keys: [{ ...publicKey.export({ format: "jwk" }), kid: "1", use: "sig", alg: "RS256" }] }));
  const config = join(folder, "rowhouse.toml");
  const assignments = ["reader", "contributor", "owner"].map(
    (role) => `[[oauth.assignments]]\nprincipal = { oid = "${role}" }\nrole = "${role}"\nscope = "${scope}"\n`,
  );
  await writeFile(
    config,
    `[oauth]\nallow-bearer-over-plain-http = true\n[[oauth.issuers]]\nissuer = "${NAME}"\njwks-file = "${keys}"\n${assignments.join("")}`,
  );
  const issue = (principal) => {
    const now = Math.floor(Date.now() / 1000);
    const claims = { iss: NAME, aud: "https://storage.azure.com", oid: principal, iat: now, nbf: now, exp: now + 10 * MINUTE_S };
    const text = [{ alg: "RS256", typ: "JWT", kid: "1" }, claims]
      .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
      .join(".");
    return `${text}.${createSign("RSA-SHA256").update(text).sign(privateKey, "base64url")}`;
  };
  return { options: ["--config", config], issue };
}
