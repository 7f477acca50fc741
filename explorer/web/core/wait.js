// Pauses that the caller can cancel.

/**
 * Waits for the given time. Rejects if the caller cancels the wait.
 * @param {number} milliseconds
 * @param {AbortSignal | undefined} signal
 */
export function wait(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    const giveUp = () => {
      clearTimeout(timer);
      reject(new DOMException("The request was cancelled.", "AbortError"));
    };
    if (signal?.aborted) {
      giveUp();
    }
    signal?.addEventListener("abort", giveUp, { once: true });
  });
}
