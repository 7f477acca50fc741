/// <reference lib="esnext.disposable" />

/**
 * Starts a server for tests. It keeps everything in memory and listens on a free port of this machine. It stops when
 * `stop()` is called, or when this process exits, even if the process is killed.
 *
 * Rejects if the program is missing or the server does not start. The error message explains what to do.
 */
export function startRowhouse(options?: StartOptions): Promise<Rowhouse>;

/**
 * Like `startRowhouse()`, for the global setup of a test runner: `sharedRowhouse()` finds this server in every test
 * file. Returns a function that stops it. If you need no options, use the module `rowhouse-tables/global-setup` as the
 * global setup.
 */
export function shareRowhouse(options?: StartOptions): Promise<() => Promise<void>>;

/**
 * Returns the server that the global setup of the test runner started. If there is none, throws an error that explains
 * what to do. Test files that run at the same time need separate accounts; the clock, snapshots and `reset()` affect
 * the whole server.
 */
export function sharedRowhouse(): SharedRowhouse;

/**
 * Returns the absolute path of the program: `ROWHOUSE_BINARY` if set, or else the program in the installed platform
 * package. If there is none, throws an error that explains what to do.
 */
export function programPath(): string;

export interface StartOptions {
  /**
   * Options of `rowhouse serve`, such as `["--seed", "tests/data"]`. Environment variables do not affect the server.
   */
  args?: readonly string[];
  /** The folder to which paths in `args` are relative. Default: the current folder of this process. */
  cwd?: string;
}

/** An account on a server. Accounts do not share tables. */
export interface Account {
  /** The connection string for client libraries, which contains all of the following. */
  readonly connectionString: string;
  /** The URL of the account's tables, such as `http://127.0.0.1:40123/orchard`. */
  readonly endpoint: string;
  /** The name. */
  readonly account: string;
  /** The key, in Base64. */
  readonly key: string;
  /** Creates tables from entity files, one file per table, in the format of `rowhouse export`. */
  seed(folder: string): Promise<void>;
  /** Deletes the account and its tables. Does nothing if it was already deleted. */
  delete(): Promise<void>;
}

/** A running server. As an account, it is the server's first account, which cannot be deleted. */
export interface SharedRowhouse extends Account {
  /** The clock of the server, used for Timestamps and the expiry of signatures. */
  readonly clock: Clock;
  /** Creates an empty account. */
  newAccount(): Promise<Account>;
  /** Takes a snapshot of the content of all accounts. This takes milliseconds, regardless of the number of entities. */
  snapshot(): Promise<Snapshot>;
  /** Returns to the initial content, including `--seed`. Accounts created since then are removed. */
  reset(): Promise<void>;
}

/** A server that this process started. */
export interface Rowhouse extends SharedRowhouse, AsyncDisposable {
  /** Returns the last part of the server's log. */
  log(): string;
  /** Stops the server and waits until it has exited. Does nothing if it has already exited. */
  stop(): Promise<void>;
}

/**
 * The clock of a server. It is the system clock until it is changed. Requests signed with the system clock are accepted
 * even if the server's clock differs.
 */
export interface Clock {
  /** Returns the server's time. */
  now(): Promise<Date>;
  /** Sets the time. The clock stops there until `resume()`. */
  set(time: Date | string | number): Promise<void>;
  /** Advances the clock. */
  advance(duration: Duration): Promise<void>;
  /** Stops the clock; it can still be set and advanced. */
  stop(): Promise<void>;
  /** Restarts a stopped clock from its current time. */
  resume(): Promise<void>;
  /** Returns to the system clock. */
  reset(): Promise<void>;
}

/** A length of time: the sum of its parts. */
export interface Duration {
  days?: number;
  hours?: number;
  minutes?: number;
  seconds?: number;
  milliseconds?: number;
}

/** The content of all accounts on a server at one point in time. */
export interface Snapshot {
  /** Restores the content. Can be called more than once. */
  restore(): Promise<void>;
  /** Frees the memory of the snapshot. Does nothing if it was already deleted. */
  delete(): Promise<void>;
}
