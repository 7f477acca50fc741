/**
 * The absolute path of the program: `ROWHOUSE_BINARY` if that is set, else that of the installed platform package.
 * Throws an error that says what to do if there is none.
 */
export function programPath(): string;
