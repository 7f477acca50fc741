// The settings of tables as XML, and the names of tables in the order of an index.

import assert from "node:assert/strict";
import { test } from "node:test";
import { changeIndexes, isOrderedTable, orderedTable, watchIndexes } from "../../web/core/indexes.js";
import { readIndexes, readTableRetention, writeIndexes, writeTableRetention } from "../../web/core/xml.js";

const HEAD = '<?xml version="1.0" encoding="utf-8"?>';

test("a retention is by age, by a property, or none", () => {
  const cases = [
    [null, "<TableRetention></TableRetention>"],
    [{ property: "", seconds: 60 }, "<TableRetention><Seconds>60</Seconds></TableRetention>"],
    [{ property: "A&<", seconds: 0 }, "<TableRetention><Property>A&#38;&#60;</Property><Seconds>0</Seconds></TableRetention>"],
  ];
  for (const [retention, text] of cases) {
    assert.equal(writeTableRetention(retention), `${HEAD}${text}`);
    assert.deepEqual(readTableRetention(`${HEAD}${text}`), retention);
  }
  assert.equal(readTableRetention(`${HEAD}<TableRetention />`), null);
});

test("indexes have a property and a state", () => {
  const text = (state) => `<TableIndex><Property>Größe</Property>${state}</TableIndex>`;
  assert.equal(writeIndexes(["Größe", "A&B"]), `${HEAD}<TableIndexes>${text("")}<TableIndex><Property>A&#38;B</Property></TableIndex></TableIndexes>`);
  const states = [["<State>ready</State>", true], ["<State>building</State>", false], ["", false]];
  for (const [state, isReady] of states) {
    assert.deepEqual(readIndexes(`${HEAD}<TableIndexes>${text(state)}</TableIndexes>`), [{ property: "Größe", isReady }]);
  }
  assert.deepEqual(readIndexes(`${HEAD}<TableIndexes />`), []);
});

test("a table in the order of an index has the names of the property and of the table", () => {
  assert.equal(orderedTable("Orders", { name: "Total", descending: false }), "$ByTotalOfOrders");
  assert.equal(orderedTable("Orders", { name: "Total", descending: true }), "$ByTotalDescendingOfOrders");
  for (const [name, expected] of [["$ByTotalOfOrders", true], ["$MetricsCapacityBlob", false], ["ByTotalOfOrders", false], ["$ByTotal", false]]) {
    assert.equal(isOrderedTable(name), expected, name);
  }
});

// A service with a list of indexes, of which one becomes ready after some requests.
function service(properties, requests) {
  const sent = [];
  return {
    sent,
    getIndexes: async () => {
      requests -= 1;
      return properties.map((property) => ({ property, isReady: requests < 0 }));
    },
    setIndexes: async (_, next) => {
      sent.push(next);
      properties = next;
    },
  };
}

test("a change of the indexes starts from the list of the server", async () => {
  const { sent, ...given } = service(["A", "B"], 0);
  const indexes = await changeIndexes(given, "t", (names) => [...names.filter((name) => name !== "A"), "C"]);
  assert.deepEqual(sent, [["B", "C"]]);
  assert.deepEqual(indexes.map(({ property }) => property), ["B", "C"]);
});

test("indexes are followed until all are ready, or until the caller stops", async (test) => {
  test.mock.timers.enable({ apis: ["setTimeout"] });
  const ticks = setInterval(() => test.mock.timers.tick(10_000), 1);
  test.after(() => clearInterval(ticks));
  const states = async (signal, requests) => {
    const seen = [];
    for await (const [{ isReady }] of watchIndexes(service(["A"], requests), "t", signal)) {
      seen.push(isReady);
    }
    return seen;
  };
  assert.deepEqual(await states(new AbortController().signal, 2), [false, false, true]);
  const controller = new AbortController();
  const stopped = states(controller.signal, Infinity);
  controller.abort();
  await assert.rejects(stopped, { name: "AbortError" });
});
