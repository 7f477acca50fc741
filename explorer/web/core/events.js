// Server-sent events, read from the body of a response. The browser's own reader cannot send a signed request.

/** @typedef {{id: string, event: string, data: string}} ServerEvent `id` is the last one that the server has sent */

/**
 * Yields the events of a stream. An ID without data yields an event without data, so that the caller can continue from
 * there.
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<ServerEvent>}
 */
export async function* readEvents(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let [id, event, data, rest, isNew] = ["", "", "", "", false];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const [, field = "", content = ""] = /^([^:]*)(?:: ?(.*))?$/.exec(line.replace(/\r$/, "")) ?? [];
        if (line === "" || line === "\r") {
          if (isNew) yield { id, event, data };
          [event, data, isNew] = ["", "", false];
        } else if (field === "id") {
          [id, isNew] = [content, true];
        } else if (field === "event") {
          event = content;
        } else if (field === "data") {
          [data, isNew] = [data ? `${data}\n${content}` : content, true];
        }
      }
    }
  } finally {
    // Closes the connection if the caller has stopped reading.
    await reader.cancel().catch(() => {});
  }
}
