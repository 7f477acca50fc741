// A Rowhouse server with TLS, for a program whose client requires HTTPS in connection strings.

import { execFile, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { ACCOUNT } from "./target.js";

const binary = process.env.ROWHOUSE_BINARY;

// The reason why the cases that start a server are skipped, or false.
export const skip = binary ? false : "set ROWHOUSE_BINARY to the server program";

// Returns the endpoint, and the path of the certificate to trust.
export async function startSecureServer(context) {
  const folder = await mkdtemp(join(tmpdir(), "programs-"));
  context.after(() => rm(folder, { recursive: true }));
  const [certificate, key] = ["ca.pem", "key.pem"].map((name) => join(folder, name));
  const request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
  const subject = ["-keyout", key, "-out", certificate, "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"];
  await promisify(execFile)("openssl", [...request.split(" "), ...subject]);
  const options = ["serve", "--in-memory", "--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key];
  const server = spawn(binary, options, { stdio: ["ignore", "pipe", "ignore"] });
  context.after(() => server.kill());
  const lines = createInterface({ input: server.stdout })[Symbol.asyncIterator]();
  const { value: line } = await lines.next();
  return { endpoint: `${line.replace("listening on ", "")}/${ACCOUNT}`, certificate };
}
