#!/usr/bin/env node
// Runs the program in place of this script: with its standard streams, its signals and its exit code.

"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const { programPath } = require("../program.js");

const isWindows = process.platform === "win32";
const signals = isWindows ? ["SIGINT", "SIGBREAK", "SIGHUP"] : ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR2"];

let child;
// Listened to before the program starts, so that no signal ends this script and leaves the program running. On Windows, the
// console sends its events to both, so this script only has to outlive the program. From a terminal elsewhere the program gets
// SIGINT twice, and ignores the second.
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
// npx, and `npm run` with a script that is this command alone, run it by way of a shell. A signal to npm reaches that
// shell alone, and most shells end without telling this process, whose parent is another one from then on. In longer scripts a
// shell may well end first, after `rowhouse serve &`.
if (/^.?rowhouse\b[^&|;]*$/.test(process.env.npm_lifecycle_script)) {
  const parent = process.ppid;
  setInterval(() => process.ppid === parent || forward("SIGTERM"), 500).unref();
}
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  // Ends as the program did, so that a shell sees the same. The code is for signals that do not end this process.
  for (const name of signals) process.off(name, forward);
  process.exitCode = 128 + constants.signals[signal];
  process.kill(process.pid, signal);
});
