//! The cost of a query and its explanation: the value of the header `x-ms-rowhouse-explain`, which is sent only if the
//! client requests it.
//!
//! The value is JSON in ASCII: the kind of the plan, the key ranges that were read, how many entities were examined and
//! returned, and how long the query took. docs/operations.md describes it for clients. Its size is limited, whatever
//! the keys and the filter are.
//!
//! This module must not depend on how ranges were determined or on who sent the query.

use http::HeaderValue;
use model::KeyRange;
use model::key::{KEY_SEPARATOR, decode_ordinal};
use model::limits::{EXPLAIN_HEADER_BYTES_MAX, EXPLAIN_KEY_CHARS_MAX, EXPLAIN_RANGES_MAX};
use model::plan::PlanKind;
use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

/// The maximum length of the part after the ranges: names, three numbers of at most 20 digits, brackets.
const REST_BYTES_MAX: usize = 192;

#[derive(Debug)]
pub(crate) struct QueryCost {
    json: String,
}

impl QueryCost {
    /// Creates the cost from the ranges that will be read: the ranges of the filter, restricted by the URL and the
    /// credential.
    pub(crate) fn new(ranges: &[KeyRange]) -> Self {
        let mut json = format!("{{\"plan\":\"{}\",\"ranges\":[", PlanKind::from_ranges(ranges));
        for (index, range) in ranges.iter().take(EXPLAIN_RANGES_MAX).enumerate() {
            let length = json.len();
            if index > 0 {
                json.push(',');
            }
            push_range(&mut json, range);
            if json.len() > EXPLAIN_HEADER_BYTES_MAX - REST_BYTES_MAX {
                json.truncate(length);
                break;
            }
        }
        push(&mut json, format_args!("],\"rangeCount\":{}", ranges.len()));
        Self { json }
    }

    pub(crate) fn header(mut self, examined: u64, returned: u64, time: Duration) -> HeaderValue {
        let microseconds = time.as_micros().min(u128::from(u64::MAX));
        push(
            &mut self.json,
            format_args!(",\"examined\":{examined},\"returned\":{returned},\"microseconds\":{microseconds}}}"),
        );
        HeaderValue::try_from(self.json).expect("it is visible ASCII")
    }
}

fn push(json: &mut String, arguments: std::fmt::Arguments<'_>) {
    json.write_fmt(arguments).expect("writing to a string succeeds");
}

fn push_range(json: &mut String, range: &KeyRange) {
    let is_point = PlanKind::from_ranges(std::slice::from_ref(range)) == PlanKind::Point;
    json.push_str("{\"from\":");
    push_bound(json, Some(&range.start), is_point);
    json.push_str(",\"to\":");
    push_bound(json, range.end.as_deref(), is_point);
    json.push('}');
}

/// Writes a bound as one or two keys, or `null` for the beginning and the end of the table. A bound before the first
/// entity of a partition is written as the partition key only, unless the range is a single entity.
fn push_bound(json: &mut String, bytes: Option<&[u8]>, is_point: bool) {
    let Some((partition, row)) = bytes.filter(|bytes| !bytes.is_empty()).and_then(keys) else {
        return json.push_str("null");
    };
    json.push('[');
    push_key(json, &partition);
    if let Some(row) = row.filter(|row| is_point || !row.is_empty()) {
        json.push(',');
        push_key(json, &row);
    }
    json.push(']');
}

/// Decodes the keys of a bound. If a range excludes a key, or includes a whole partition, its bound ends with a control
/// character, which makes the bound sort after them.
fn keys(bytes: &[u8]) -> Option<(Cow<'_, str>, Option<Cow<'_, str>>)> {
    let mut parts = bytes.splitn(2, |byte| *byte == KEY_SEPARATOR);
    let partition = decode_ordinal(parts.next()?)?;
    let row = parts.next().map(decode_ordinal);
    Some((partition, row.flatten()))
}

/// Writes a key as a JSON string, truncated if it is long.
fn push_key(json: &mut String, key: &str) {
    json.push('"');
    for (index, character) in key.chars().enumerate() {
        if index == EXPLAIN_KEY_CHARS_MAX {
            json.push_str("\\u2026");
            break;
        }
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            ' '..='~' => json.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    push(json, format_args!("\\u{unit:04x}"));
                }
            }
        }
    }
    json.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::plan::plan;
    use serde_json::{Value, json};

    fn parsed(ranges: &[KeyRange]) -> Value {
        let header = QueryCost::new(ranges).header(u64::MAX, u64::MAX, Duration::MAX);
        assert!(header.len() <= EXPLAIN_HEADER_BYTES_MAX, "{}", header.len());
        serde_json::from_str(header.to_str().unwrap()).unwrap()
    }

    fn ranges(filter: &str) -> Value {
        let filter = wire::filter::parse_optional(filter).unwrap();
        let mut value = parsed(&plan(filter.as_ref()).ranges);
        json!([value["plan"].take(), value["ranges"].take()])
    }

    #[test]
    fn ranges_show_what_is_read() {
        for (filter, expected) in [
            ("", json!(["table scan", [{"from": null, "to": null}]])),
            ("Fruit eq 'pear'", json!(["table scan", [{"from": null, "to": null}]])),
            ("PartitionKey eq 'p' and RowKey eq 'r'", json!(["point", [{"from": ["p", "r"], "to": ["p", "r\0"]}]])),
            ("PartitionKey eq '' and RowKey eq ''", json!(["point", [{"from": ["", ""], "to": ["", "\0"]}]])),
            ("PartitionKey eq 'p'", json!(["row range", [{"from": ["p"], "to": ["p\u{1}"]}]])),
            (
                "PartitionKey eq 'p' and RowKey ge 'a' and RowKey lt 'b'",
                json!(["row range", [{"from": ["p", "a"], "to": ["p", "b"]}]]),
            ),
            ("PartitionKey eq 'p' and RowKey gt 'a'", json!(["row range", [{"from": ["p", "a\0"], "to": ["p\u{1}"]}]])),
            ("PartitionKey ge 'a' and PartitionKey lt 'b'", json!(["partition range", [{"from": ["a"], "to": ["b"]}]])),
            ("PartitionKey gt 'a'", json!(["partition range", [{"from": ["a\u{1}"], "to": null}]])),
            (
                "PartitionKey eq 'a' or PartitionKey eq 'c'",
                json!(["ranges", [{"from": ["a"], "to": ["a\u{1}"]}, {"from": ["c"], "to": ["c\u{1}"]}]]),
            ),
            ("PartitionKey eq 'a' and PartitionKey eq 'b'", json!(["nothing", []])),
            (
                "PartitionKey eq 'é😀\u{FFFD}' and RowKey eq '\"\\%''\u{7F}\n'",
                json!(["point", [{"from": ["é😀\u{FFFD}", "\"\\%'\u{7F}\n"], "to": ["é😀\u{FFFD}", "\"\\%'\u{7F}\n\0"]}]]),
            ),
        ] {
            assert_eq!(ranges(filter), expected, "{filter}");
        }
    }

    #[test]
    fn bounds_of_a_credential_and_of_an_address() {
        let pair = |partition, row| Some((partition, row));
        for (range, expected) in [
            (
                KeyRange::pairs(pair("p", None), pair("p", None)),
                json!(["row range", {"from": ["p"], "to": ["p\u{1}"]}]),
            ),
            (
                KeyRange::pairs(pair("p", Some("r")), pair("p", Some("s"))),
                json!(["row range", {"from": ["p", "r"], "to": ["p", "s\0"]}]),
            ),
            (
                KeyRange::pairs(pair("p", Some("r")), pair("q", None)),
                json!(["partition range", {"from": ["p", "r"], "to": ["q\u{1}"]}]),
            ),
            (KeyRange::pairs(None, pair("q", None)), json!(["partition range", {"from": null, "to": ["q\u{1}"]}])),
            (
                KeyRange::pairs(pair("p", Some("r")), pair("p", Some("r"))),
                json!(["point", {"from": ["p", "r"], "to": ["p", "r\0"]}]),
            ),
        ] {
            let mut value = parsed(&[range]);
            assert_eq!(json!([value["plan"].take(), value["ranges"][0].take()]), expected);
        }
    }

    #[test]
    fn long_keys_are_cut() {
        let exact = "x".repeat(EXPLAIN_KEY_CHARS_MAX);
        let cut = format!("{exact}…");
        for (key, expected) in [(exact.clone(), &exact), (format!("{exact}y"), &cut)] {
            let shown = ranges(&format!("PartitionKey ge '{key}'"));
            assert_eq!(shown[1][0]["from"], json!([expected]));
        }
    }

    #[test]
    fn the_header_is_bounded_by_ranges_and_by_bytes() {
        let many = |partition: &str, row: &str| {
            let range = |number| KeyRange::pairs(Some((&format!("{number}{partition}"), Some(row))), None);
            let ranges: Vec<_> = (10..26).map(range).collect();
            parsed(&ranges)
        };
        let short = many("p", "r");
        assert_eq!((short["ranges"].as_array().unwrap().len(), &short["rangeCount"]), (EXPLAIN_RANGES_MAX, &json!(16)));
        let long = many(&"😀".repeat(200), &"😀".repeat(200));
        let shown = long["ranges"].as_array().unwrap().len();
        assert!((1..EXPLAIN_RANGES_MAX).contains(&shown), "{shown}");
        assert_eq!(long["rangeCount"], json!(16));
    }
}
