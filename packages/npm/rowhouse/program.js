// Finds the program. It is in a package of its own for each platform, of which npm installs the one that fits; nothing is
// downloaded or run at installation.

"use strict";

const { existsSync } = require("node:fs");
const { resolve } = require("node:path");
const { optionalDependencies } = require("./package.json");

/**
 * The absolute path of the program: `ROWHOUSE_BINARY` if that is set, else that of the installed platform package.
 *
 * @returns {string}
 * @throws {Error} if there is none; the message says what to do
 */
function programPath() {
  const chosen = process.env.ROWHOUSE_BINARY;
  if (chosen) {
    if (!existsSync(chosen)) throw new Error(`ROWHOUSE_BINARY names a file that does not exist: ${chosen}`);
    return resolve(chosen);
  }
  const platform = `${process.platform}-${process.arch}`;
  const platformPackage = `@rowhouse/${platform}`;
  if (!(platformPackage in optionalDependencies)) {
    throw new Error(
      `there is no package with the program for ${platform}. Build it from the sources ` +
        "(cargo install --path rowhouse --locked), and set ROWHOUSE_BINARY to its path.",
    );
  }
  try {
    return require.resolve(`${platformPackage}/bin/rowhouse${process.platform === "win32" ? ".exe" : ""}`);
  } catch {
    throw new Error(
      `the package ${platformPackage}, which contains the program, is not installed. Install rowhouse again on this ` +
        "platform, without --omit=optional (or --no-optional); from the files of a release, with the file of the platform " +
        "too. A node_modules folder that was copied from another platform does not have it. Or set ROWHOUSE_BINARY to " +
        "the path of a program.",
    );
  }
}

module.exports = { programPath };
