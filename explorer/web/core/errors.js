// What goes wrong with a request, and how it is said to people.

/** A refusal of the service. */
export class ServiceError extends Error {
  /**
   * @param {number} status
   * @param {string} code
   * @param {string} message
   * @param {{requestId?: string, index?: number | null}} [more]
   */
  constructor(status, code, message, { requestId = "", index = null } = {}) {
    super(message);
    this.name = "ServiceError";
    this.status = status;
    this.code = code;
    this.requestId = requestId;
    /** The operation of a transaction that failed. */
    this.index = index;
  }

  /** Whether the credential itself was refused, as when it has expired. What it allows is another matter. */
  get isOfCredential() {
    return this.status === 401 || ["AuthenticationFailed", "NoAuthenticationInformation"].includes(this.code);
  }
}

/** The server could not be reached, or the connection broke. */
export class Unreachable extends Error {
  constructor() {
    super("The server cannot be reached.");
    this.name = "Unreachable";
  }
}

/** A value that is not of its type. */
export class ValueError extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = "ValueError";
  }
}

/**
 * Refusals whose message from the service does not tell people what to do.
 * @type {Record<string, string>}
 */
const EXPLANATIONS = {
  AuthenticationFailed: "The server does not accept the credential. Sign in again with the right account and credential.",
  NotImplemented: "The service does not support this request. If it has a filter, check its operators and literals.",
};

/**
 * Describes an error to the user.
 * @param {unknown} error
 * @returns {string}
 */
export function describe(error) {
  if (error instanceof ServiceError) {
    const explanation = EXPLANATIONS[error.code];
    if (explanation) {
      return `${explanation} (${error.code}, ${error.status})`;
    }
    // The service ends its messages with the id and the time of the request.
    const text = error.message.split("\n")[0]?.trim() ?? "";
    return text ? `${text} (${error.code}, ${error.status})` : `${error.code} (${error.status})`;
  }
  return error instanceof Error ? error.message : String(error);
}

/**
 * Whether a request was given up by its caller.
 * @param {unknown} error
 */
export function isAborted(error) {
  return error instanceof DOMException && error.name === "AbortError";
}
