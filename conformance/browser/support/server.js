// Rowhouse servers for cases that need more than one account.

import { randomBytes } from "node:crypto";
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DEVELOPMENT_ACCOUNT, Target } from "./target.js";

const binary = process.env.ROWHOUSE_BINARY;

// The reason for skipping the cases that start a server, or false.
export const skip = binary ? false : "set ROWHOUSE_BINARY to the server program";

// The server has the development account, whose key is publicly known, and an account with a private key.
export async function startServer(context) {
  const folder = await mkdtemp(join(tmpdir(), "browser-"));
  context.after(() => rm(folder, { recursive: true }));
  const own = { account: "orchard", key: randomBytes(64).toString("base64") };
  const accounts = join(folder, "accounts.toml");
  const tables = [DEVELOPMENT_ACCOUNT, own].map(({ account, key }) => `[[account]]\nname = "${account}"\nkey1 = "${key}"\n`);
  await writeFile(accounts, tables.join(""), { mode: 0o600 });
  const server = spawn(binary, ["serve", "--in-memory", "--listen", "127.0.0.1:0", "--accounts", accounts], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  context.after(() => server.kill());
  const lines = createInterface({ input: server.stdout })[Symbol.asyncIterator]();
  const { value: line } = await lines.next();
  const address = line.replace("listening on ", "");
  const account = ({ account, key }) => new Target({ endpoint: `${address}/${account}`, account, key });
  return { port: new URL(address).port, development: account(DEVELOPMENT_ACCOUNT), own: account(own) };
}
