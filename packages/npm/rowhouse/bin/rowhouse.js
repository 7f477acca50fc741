#!/usr/bin/env node
// Runs the program instead of this script, with its standard streams, its signals and its exit code.

"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const { programPath } = require("../program.js");

const isWindows = process.platform === "win32";
const signals = isWindows ? ["SIGINT", "SIGBREAK", "SIGHUP"] : ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR2"];

let child;
// The handlers are registered before the program starts, so that no signal can stop this script and leave the program
// running. On Windows, the console sends its events to both, so this script only has to outlive the program. On other
// systems, the program receives SIGINT twice after Ctrl-C in a terminal; it ignores the second one.
const forward = (signal) => {
  if (!isWindows) child?.kill(signal);
};
for (const signal of signals) process.on(signal, forward);

function fail(error) {
  console.error(`rowhouse: ${error.message}`);
  process.exit(1);
}

try {
  child = spawn(programPath(), process.argv.slice(2), { stdio: "inherit" });
} catch (error) {
  fail(error);
}
child.on("error", fail);
// npx runs this command through a shell, and so does `npm run` if the script consists only of this command. A signal to
// npm reaches only that shell. Most shells exit without informing this process, which then gets a new parent. In longer
// scripts, the shell may exit first for a good reason, for example after `rowhouse serve &`.
if (/^.?rowhouse\b[^&|;]*$/.test(process.env.npm_lifecycle_script)) {
  const parent = process.ppid;
  setInterval(() => process.ppid === parent || forward("SIGTERM"), 500).unref();
}
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  // Exit in the same way as the program, so that a shell sees the same result. The exit code is for signals that do not
  // terminate this process.
  for (const name of signals) process.off(name, forward);
  process.exitCode = 128 + constants.signals[signal];
  process.kill(process.pid, signal);
});
