// Simulates one tool in a private network: starts the tool's command with the default ports, waits as the tool does,
// and uses all services with UseDevelopmentStorage=true. The exit code shows the result.
//
// usage: node on_default_ports.js NUMBER_OF_THE_TOOL

import assert from "node:assert/strict";
import { connect } from "node:net";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { useAll } from "./clients.js";
import { Emulator, linkCalledAzurite, newFolder } from "./emulator.js";
import { TOOLS } from "./tools.js";

const { command, waits } = TOOLS[Number(process.argv[2])];
const cleanups = [];
const context = { after: (cleanup) => cleanups.unshift(cleanup) };

// Waits until a port is open, as a container's wait strategy does.
async function port(number) {
  for (;;) {
    const socket = connect(number, "127.0.0.1");
    const isOpen = await once(socket, "connect").then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (isOpen) {
      return;
    }
    await pause(50);
  }
}

async function run() {
  const folder = newFolder(context);
  const words = command.map((word) => word.replace("FOLDER", folder));
  words[0] = linkCalledAzurite(newFolder(context));
  const emulator = new Emulator(context, words, { environment: { NODE_OPTIONS: "--no-warnings" } });
  for (const line of waits) {
    await emulator.line(line);
  }
  for (const number of [10000, 10001, 10002]) {
    await Promise.race([port(number), emulator.exit]);
  }
  await useAll("UseDevelopmentStorage=true");
  assert.deepEqual(await emulator.stop(), { code: 0, signal: null }, emulator.lines.join("\n"));
}

try {
  await run();
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  for (const cleanup of cleanups) {
    await cleanup();
  }
}
