// Tests of the package's types, as TypeScript sees them from modules and from CommonJS.

import assert from "node:assert/strict";
import { test } from "node:test";
import { folderWith, run, tsc } from "./support.js";

const USE = `
async function use(): Promise<string> {
  await using server: Rowhouse = await startRowhouse({ args: ["--seed", "data"], cwd: "." });
  const account: Account = await server.newAccount();
  await account.seed("data");
  await server.clock.set(new Date());
  await server.clock.advance({ days: 1 });
  const now: number = (await server.clock.now()).getTime();
  const snapshot: Snapshot = await server.snapshot();
  await snapshot.restore();
  const shared: SharedRowhouse = sharedRowhouse();
  const stop: () => Promise<void> = await shareRowhouse({ args: ["--seed", "data"] });
  await stop();
  return account.connectionString + server.key + now + programPath() + shared.account;
}
use();
`;
const IMPORT = `import { programPath, sharedRowhouse, shareRowhouse, startRowhouse } from "rowhouse-tables";
import type { Account, Rowhouse, SharedRowhouse, Snapshot } from "rowhouse-tables";`;
const REQUIRE = `import rowhouse = require("rowhouse-tables");
import type { Account, Rowhouse, SharedRowhouse, Snapshot } from "rowhouse-tables";
const { programPath, sharedRowhouse, shareRowhouse, startRowhouse } = rowhouse;`;

// The compiler's options, with the oldest supported library.
const config = (types) =>
  JSON.stringify({
    compilerOptions: { strict: true, noEmit: true, module: "nodenext", target: "es2022", lib: ["es2022"], types },
    include: ["*.ts", "*.mts", "*.cts"],
  });

for (const types of [[], ["node"]]) {
  test(`modules and CommonJS ${types.length ? "with" : "without"} the types of Node.js`, async (t) => {
    const files = { "use.mts": IMPORT + USE, "use.cts": REQUIRE + USE, "tsconfig.json": config(types) };
    await run(await folderWith(t, files), await tsc());
  });
}

test("incorrect code is refused", async (t) => {
  const wrong = `${IMPORT} startRowhouse({ arguments: [] }); startRowhouse().then((s) => s.clock.advance({ day: 1 }));`;
  const folder = await folderWith(t, { "use.mts": wrong, "tsconfig.json": config([]) });
  await assert.rejects(run(folder, await tsc()), (error) => {
    assert.match(error.message, /'arguments' does not exist/);
    assert.match(error.message, /'day' does not exist/);
    return true;
  });
});
