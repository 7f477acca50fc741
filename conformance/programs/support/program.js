// The programs as child processes, and their visitors.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { ENDPOINT, connectionString } from "./target.js";

// The only state that several processes of a program share is in its table.
export class Program {
  // The program gets the name of its table. Waits until it listens.
  static async start(context, name, table, environment = {}) {
    const { NODE_TEST_CONTEXT, ...inherited } = process.env;
    const child = spawn(process.execPath, [fileURLToPath(new URL(`../programs/${name}.js`, import.meta.url))], {
      env: { ...inherited, AZURE_STORAGE_CONNECTION_STRING: connectionString(ENDPOINT), TABLE: table, ...environment },
      stdio: ["ignore", "pipe", "inherit"],
    });
    context.after(() => child.kill());
    const program = new Program();
    program.child = child;
    program.lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    program.address = await program.waitFor("listening on ");
    return program;
  }

  // Returns the rest of the line.
  async waitFor(start) {
    for (;;) {
      const { value: line, done } = await this.lines.next();
      assert.ok(!done, `the program ended before it printed the line "${start}…"`);
      if (line.startsWith(start)) {
        return line.slice(start.length);
      }
    }
  }

  async stop() {
    this.child.kill();
    await once(this.child, "exit");
  }
}

// A browser user: keeps cookies, and does not follow redirects.
export class Visitor {
  cookies = new Map();

  async request(address, { headers = {}, ...init } = {}) {
    const cookie = Array.from(this.cookies, ([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(address, { redirect: "manual", ...init, headers: { ...headers, cookie } });
    for (const line of response.headers.getSetCookie()) {
      const [pair] = line.split(";");
      const separator = pair.indexOf("=");
      const value = pair.slice(separator + 1);
      if (value === "") {
        this.cookies.delete(pair.slice(0, separator));
      } else {
        this.cookies.set(pair.slice(0, separator), value);
      }
    }
    return response;
  }

  async json(address, init) {
    const response = await this.request(address, init);
    assert.equal(response.status, 200, address);
    return response.json();
  }

  post(address, fields) {
    return this.request(address, { method: "POST", body: new URLSearchParams(fields) });
  }
}
