// The `globalSetup` module for vitest and jest: one server with its defaults for all test files.
"use strict";

// Ignores the configuration that the test runners pass.
module.exports = () => require("./index.js").shareRowhouse();
