// The errors of requests and values, and their messages for users.

/** An error response of the service. */
export class ServiceError extends Error {
  /**
   * @param {number} status
   * @param {string} code
   * @param {string} message
   * @param {{requestId?: string, reason?: string, index?: number | null}} [more]
   */
  constructor(status, code, message, { requestId = "", reason = "", index = null } = {}) {
    super(message);
    this.name = "ServiceError";
    this.status = status;
    this.code = code;
    this.requestId = requestId;
    /** Why the server refuses the request, and what to do; empty if it does not tell. */
    this.reason = reason;
    /** The number of the operation that made a transaction fail. */
    this.index = index;
  }

  /** True if programs cause this error on purpose, and the reason therefore adds nothing to the message. */
  get isRoutine() {
    return [404, 409, 412].includes(this.status);
  }

  /**
   * True if the service refused the credential itself, for example because it has expired, and not just the permission.
   */
  get isOfCredential() {
    return this.status === 401 || ["AuthenticationFailed", "NoAuthenticationInformation"].includes(this.code);
  }
}

/** The server could not be reached, or the connection was lost. */
export class Unreachable extends Error {
  constructor() {
    super("The server cannot be reached.");
    this.name = "Unreachable";
  }
}

/** A value that is invalid for its type, or other malformed input. */
export class ValueError extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = "ValueError";
  }
}

/**
 * Explanations for errors whose message from the service does not tell users what to do.
 * @type {Record<string, string>}
 */
const EXPLANATIONS = {
  AuthenticationFailed: "The server does not accept the credential. Sign in again with the correct account and credential.",
  InvalidXmlDocument: "The server does not accept these settings. Check their values, and the names of properties.",
  NotImplemented: "The service does not support this request. If it has a filter, check its operators and literals.",
};

/**
 * Describes an error to the user.
 * @param {unknown} error
 * @returns {string}
 */
export function describe(error) {
  if (error instanceof ServiceError) {
    const explanation = (!error.isRoutine && error.reason) || EXPLANATIONS[error.code];
    if (explanation) {
      return `${explanation} (${error.code}, ${error.status})`;
    }
    // The service appends the ID and the time of the request to its messages.
    const text = error.message.split("\n")[0]?.trim() ?? "";
    return text ? `${text} (${error.code}, ${error.status})` : `${error.code} (${error.status})`;
  }
  return error instanceof Error ? error.message : String(error);
}

/**
 * Returns true if the caller cancelled the request.
 * @param {unknown} error
 */
export function isAborted(error) {
  return error instanceof DOMException && error.name === "AbortError";
}
