// The `globalSetup` module for vitest and jest: all test files share one server, which runs with its defaults.
"use strict";

// The configuration that the test runners pass is ignored.
module.exports = () => require("./index.js").shareRowhouse();
