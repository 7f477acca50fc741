// Finds the program, which is in a separate package for each platform. Installation downloads and runs nothing.

"use strict";

const { existsSync } = require("node:fs");
const { resolve } = require("node:path");

// The platforms for which there is a package with the program.
const PLATFORMS = ["darwin-arm64", "darwin-x64", "linux-arm64", "linux-x64", "win32-x64"];

/** Returns the name of the package that contains the program for a platform such as `linux-x64`. */
const packageFor = (platform) => `rowhouse-tables-${platform}`;

/**
 * Returns the absolute path of the program: `ROWHOUSE_BINARY` if set, or else the program in the installed platform
 * package.
 *
 * @returns {string} @throws {Error} if the program is missing; the message explains what to do
 */
function programPath() {
  const chosen = process.env.ROWHOUSE_BINARY;
  if (chosen) {
    if (!existsSync(chosen)) throw new Error(`ROWHOUSE_BINARY names a file that does not exist: ${chosen}`);
    return resolve(chosen);
  }
  const platform = `${process.platform}-${process.arch}`;
  const platformPackage = packageFor(platform);
  if (!PLATFORMS.includes(platform)) {
    throw new Error(
      `there is no package with the program for ${platform}. Build it from the sources ` +
        "(cargo install --path rowhouse --locked), and set ROWHOUSE_BINARY to its path.",
    );
  }
  try {
    return require.resolve(`${platformPackage}/bin/rowhouse${process.platform === "win32" ? ".exe" : ""}`);
  } catch {
    throw new Error(
      `the package ${platformPackage}, which contains the program, is not installed. If rowhouse-tables was installed from ` +
        "a file, also install the file for this platform. Otherwise install it again on this platform, without " +
        "--omit=optional (or --no-optional). A node_modules folder copied from another platform does not contain " +
        "the package. Alternatively, set ROWHOUSE_BINARY to the path of a program.",
    );
  }
}

module.exports = { PLATFORMS, packageFor, programPath };
