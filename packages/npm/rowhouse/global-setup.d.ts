/** Starts one server for all test files of a run, as `shareRowhouse()` without options does. */
declare function setup(): Promise<() => Promise<void>>;
export = setup;
