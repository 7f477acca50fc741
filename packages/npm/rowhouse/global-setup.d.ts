/** Starts one server for all test files of a run, like `shareRowhouse()` without options. */
declare function setup(): Promise<() => Promise<void>>;
export = setup;
