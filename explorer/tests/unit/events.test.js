// Server-sent events as the explorer reads them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { readEvents } from "../../web/core/events.js";

async function eventsOf(parts) {
  const encoder = new TextEncoder();
  const body = new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(typeof part === "string" ? encoder.encode(part) : part);
      controller.close();
    },
  });
  const events = [];
  for await (const event of readEvents(body)) events.push(event);
  return events;
}

test("events have an ID, a kind and data", async () => {
  const text = "retry: 1000\n\nid: 1\nevent: change\ndata: {\"N\":\"\u00fc: x\"}\n\n: heartbeat\nid: 2\n\ndata:a\ndata: b\n\nevent: error\ndata\n\ndata: cut";
  const expected = [
    { id: "1", event: "change", data: '{"N":"\u00fc: x"}' },
    { id: "2", event: "", data: "" },
    { id: "2", event: "", data: "a\nb" },
    { id: "2", event: "error", data: "" },
  ];
  assert.deepEqual(await eventsOf([text]), expected);
  assert.deepEqual(await eventsOf([text.replaceAll("\n", "\r\n")]), expected);
  // Parts can end anywhere, also inside a character.
  const bytes = new TextEncoder().encode(text);
  assert.deepEqual(await eventsOf(Array.from(bytes, (byte) => new Uint8Array([byte]))), expected);
});

test("the body is cancelled if the reader stops", async () => {
  let isCancelled = false;
  const body = new ReadableStream({
    start: (controller) => controller.enqueue(new TextEncoder().encode("id: 1\n\nid: 2\n\n")),
    cancel: () => (isCancelled = true),
  });
  for await (const _ of readEvents(body)) break;
  assert.ok(isCancelled);
});
