// What programs and tests use of the package.

export { programPath } from "./program.js";
