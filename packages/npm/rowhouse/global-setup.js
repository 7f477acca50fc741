// What vitest and jest take as `globalSetup`: one server for all test files, with its defaults.
"use strict";

// The runners pass their configuration, which is nothing for the server.
module.exports = () => require("./index.js").shareRowhouse();
