/// <reference lib="esnext.disposable" />

/**
 * Starts a server for tests. It keeps everything in memory, takes a free port of this machine, and ends with `stop()`, or with this
 * process, however that ends.
 *
 * The promise is rejected, with a message that says what to do, if there is no program or the server does not start.
 */
export function startRowhouse(options?: StartOptions): Promise<Rowhouse>;

/**
 * As `startRowhouse()`, in the global setup of a test runner: `sharedRowhouse()` finds this server in every test file. Returns what
 * stops it. Without options, name the module `rowhouse-tables/global-setup` as the global setup.
 */
export function shareRowhouse(options?: StartOptions): Promise<() => Promise<void>>;

/**
 * The server that the global setup of the test runner started. Throws an error that says what to do if there is none. Test files that
 * run at the same time need an account each; clock, snapshots and reset are those of the whole server.
 */
export function sharedRowhouse(): SharedRowhouse;

/**
 * The absolute path of the program: `ROWHOUSE_BINARY` if that is set, else that of the installed platform package.
 * Throws an error that says what to do if there is none.
 */
export function programPath(): string;

export interface StartOptions {
  /**
   * Options of `rowhouse serve`, such as `["--seed", "tests/data"]`. Variables of the environment do not change how the server works.
   */
  args?: readonly string[];
  /** The folder that paths in `args` are relative to; that of this process if it is not given. */
  cwd?: string;
}

/** An account on a server. Accounts do not see each other's tables. */
export interface Account {
  /** What client libraries take, with all of the following. */
  readonly connectionString: string;
  /** The address of its tables, such as `http://127.0.0.1:40123/orchard`. */
  readonly endpoint: string;
  /** Its name. */
  readonly account: string;
  /** Its key, in Base64. */
  readonly key: string;
  /** Creates tables from files of entities, one file for each table, as `rowhouse export` writes them. */
  seed(folder: string): Promise<void>;
  /** Deletes the account with everything in it. It may have been deleted already. */
  delete(): Promise<void>;
}

/** A running server. As an account, it is its first one, which cannot be deleted. */
export interface SharedRowhouse extends Account {
  /** The clock of the server: Timestamps, and the expiry of signatures. */
  readonly clock: Clock;
  /** Makes an account with nothing in it. */
  newAccount(): Promise<Account>;
  /** Remembers everything that all accounts hold, in milliseconds however many entities there are. */
  snapshot(): Promise<Snapshot>;
  /** Returns to what the server held when it started, with `--seed`. Accounts made since then are gone. */
  reset(): Promise<void>;
}

/** A server that this process has started. */
export interface Rowhouse extends SharedRowhouse, AsyncDisposable {
  /** The end of what the server has logged. */
  log(): string;
  /** Stops the server and waits for its end. It may have ended already. */
  stop(): Promise<void>;
}

/**
 * The clock of a server. It is that of the system until it is changed. Requests that are signed by the clock of the system are
 * accepted all the same.
 */
export interface Clock {
  /** The time on the server. */
  now(): Promise<Date>;
  /** Sets the time, which goes on from there unless the clock is stopped. */
  set(time: Date | string | number): Promise<void>;
  /** Sets the clock forward. */
  advance(duration: Duration): Promise<void>;
  /** Stops the clock; it can still be set and advanced. */
  stop(): Promise<void>;
  /** Lets a stopped clock run, from the time that it shows. */
  resume(): Promise<void>;
  /** Makes it the clock of the system again. */
  reset(): Promise<void>;
}

/** A length of time, the sum of its parts. */
export interface Duration {
  days?: number;
  hours?: number;
  minutes?: number;
  seconds?: number;
  milliseconds?: number;
}

/** Everything that the accounts of a server held at one time. */
export interface Snapshot {
  /** Returns to it, as often as necessary. */
  restore(): Promise<void>;
  /** Frees its memory. It may have been deleted already. */
  delete(): Promise<void>;
}
