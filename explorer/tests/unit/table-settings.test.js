// The settings of tables as XML.

import assert from "node:assert/strict";
import { test } from "node:test";
import { readTableRetention, writeTableRetention } from "../../web/core/xml.js";

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
