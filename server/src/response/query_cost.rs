//! The cost of a query and its explanation: the value of the header `x-ms-rowhouse-explain`, which is sent only if the
//! client requests it.
//!
//! The value is JSON in ASCII: the kind of the plan, the key ranges and the index that were read, how many entities
//! were examined and returned, and how long the query took. docs/operations.md describes it for clients. Its size is
//! limited, whatever the keys and the filter are.
//!
//! This module must not depend on how ranges were determined or on who sent the query.

use crate::clock;
use http::{HeaderName, HeaderValue};
use model::key::{KEY_SEPARATOR, decode_ordinal};
use model::limits::{EXPLAIN_HEADER_BYTES_MAX, EXPLAIN_KEY_CHARS_MAX, EXPLAIN_RANGES_MAX};
use model::plan::{PlanKind, ScanCause};
use model::{IndexedProperty, KeyRange};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write;
use std::time::Instant;

const EXPLAIN: HeaderName = HeaderName::from_static("x-ms-rowhouse-explain");
/// The maximum length of everything except the plan and the ranges: names, four numbers of at most 20 digits, brackets,
/// the advice, and the name of an indexed property, of which each UTF-16 code unit can take 6 bytes.
const REST_BYTES_MAX: usize = 500 + 6 * (EXPLAIN_KEY_CHARS_MAX + 1);

/// The cost of a query, without what is known only after it has finished.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueryCost {
    #[serde(skip)]
    began: Instant,
    plan: String,
    ranges: Vec<ShownRange>,
    range_count: usize,
    #[serde(skip)]
    cause: Option<ScanCause>,
}

#[derive(Debug, Serialize)]
struct ShownRange {
    from: Option<Vec<String>>,
    to: Option<Vec<String>>,
}

/// The content of the header.
#[derive(Serialize)]
struct Explanation {
    #[serde(flatten)]
    cost: QueryCost,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<String>,
    examined: u64,
    returned: u64,
    microseconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'static str>,
}

/// Tells the author of a query why so many entities were examined and what would help, unless they were found in an
/// index. A page examines one entity more than it returns, to learn whether it is the last.
pub(crate) fn scan_advice(
    cause: Option<ScanCause>,
    examined: u64,
    returned: u64,
    has_index: bool,
) -> Option<&'static str> {
    if has_index || examined <= returned + 1 {
        return None;
    }
    Some(match cause? {
        ScanCause::Table => {
            "The filter does not restrict PartitionKey, so the whole table is examined. Compare PartitionKey in every \
             alternative of the filter. With --extensions, an index of a property that the filter compares also helps."
        }
        ScanCause::Partition => {
            "The filter does not restrict RowKey, so whole partitions are examined. Compare RowKey in every alternative \
             of the filter. With --extensions, an index of a property that the filter compares also helps."
        }
        ScanCause::TooManyRanges => {
            "The filter allows too many ranges of keys, so what lies between some of them is examined, too. Ask for fewer \
             keys in one query."
        }
    })
}

impl QueryCost {
    /// Creates the cost from the ranges that will be read: the ranges of the filter, restricted by the URL and the
    /// credential. The time of the query begins.
    pub(crate) fn new(ranges: &[KeyRange], cause: Option<ScanCause>) -> Self {
        let plan = PlanKind::from_ranges(ranges).to_string();
        let mut bytes = REST_BYTES_MAX + plan.len();
        let fits = |range: &ShownRange| {
            bytes += ascii_json(range).len() + 1;
            bytes <= EXPLAIN_HEADER_BYTES_MAX
        };
        Self {
            began: clock::instant(),
            plan,
            ranges: ranges.iter().take(EXPLAIN_RANGES_MAX).map(shown_range).take_while(fits).collect(),
            range_count: ranges.len(),
            cause,
        }
    }

    /// Returns the header. `index` is the property whose index was read.
    pub(crate) fn header(
        self,
        examined: u64,
        returned: u64,
        index: Option<&IndexedProperty>,
    ) -> (HeaderName, HeaderValue) {
        let microseconds = u64::try_from(clock::elapsed_since(self.began).as_micros()).unwrap_or(u64::MAX);
        let advice = scan_advice(self.cause, examined, returned, index.is_some());
        let index = index.map(|property| shortened(property.as_str()));
        let explanation = Explanation { cost: self, index, examined, returned, microseconds, advice };
        (EXPLAIN, HeaderValue::try_from(ascii_json(&explanation)).expect("it is visible ASCII"))
    }
}

/// Returns JSON in which all characters except printable ASCII are escaped. They occur only in strings.
fn ascii_json(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).expect("strings and numbers have a JSON form");
    let mut ascii = String::with_capacity(json.len());
    for character in json.chars() {
        if matches!(character, ' '..='~') {
            ascii.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            write!(ascii, "\\u{unit:04x}").expect("writing to a string succeeds");
        }
    }
    ascii
}

fn shown_range(range: &KeyRange) -> ShownRange {
    let is_point = PlanKind::from_ranges(std::slice::from_ref(range)) == PlanKind::Point;
    ShownRange { from: bound(&range.start, is_point), to: range.end.as_deref().and_then(|end| bound(end, is_point)) }
}

/// Returns a bound as one or two keys, or `None` for the beginning and the end of the table. A bound before the first
/// entity of a partition consists of the partition key only, unless the range is a single entity.
fn bound(bytes: &[u8], is_point: bool) -> Option<Vec<String>> {
    let (partition, row) = Some(bytes).filter(|bytes| !bytes.is_empty()).and_then(keys)?;
    let row = row.filter(|row| is_point || !row.is_empty());
    Some([Some(partition), row].into_iter().flatten().map(|key| shortened(&key)).collect())
}

/// Decodes the keys of a bound. If a range excludes a key, or includes a whole partition, its bound ends with a control
/// character, which makes the bound sort after them.
fn keys(bytes: &[u8]) -> Option<(Cow<'_, str>, Option<Cow<'_, str>>)> {
    let mut parts = bytes.splitn(2, |byte| *byte == KEY_SEPARATOR);
    let partition = decode_ordinal(parts.next()?)?;
    let row = parts.next().map(decode_ordinal);
    Some((partition, row.flatten()))
}

/// Truncates a long key or name.
fn shortened(key: &str) -> String {
    let rest = key.chars().nth(EXPLAIN_KEY_CHARS_MAX).map(|_| '…');
    key.chars().take(EXPLAIN_KEY_CHARS_MAX).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::plan::plan;
    use serde_json::{Value, json};

    fn parsed(ranges: &[KeyRange]) -> Value {
        let name = IndexedProperty::new(&"日".repeat(255)).unwrap();
        let (_, header) = QueryCost::new(ranges, None).header(u64::MAX, u64::MAX, Some(&name));
        assert!(header.len() <= EXPLAIN_HEADER_BYTES_MAX, "{}", header.len());
        for cause in [ScanCause::Table, ScanCause::Partition, ScanCause::TooManyRanges] {
            let cost = || QueryCost::new(ranges, Some(cause));
            let (_, with_advice) = cost().header(u64::MAX, 0, None);
            assert!(with_advice.len() <= EXPLAIN_HEADER_BYTES_MAX, "{}", with_advice.len());
            let value: Value = serde_json::from_str(with_advice.to_str().unwrap()).unwrap();
            assert!(value["advice"].as_str().unwrap().starts_with("The filter "));
            for (_, without) in [cost().header(4, 3, None), cost().header(9, 3, Some(&name))] {
                assert!(!without.to_str().unwrap().contains("advice"));
            }
        }
        serde_json::from_str(header.to_str().unwrap()).unwrap()
    }

    fn ranges(filter: &str) -> Value {
        let filter = wire::filter::parse_optional(filter, wire::filter::Grammar::Extended).unwrap();
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
            ("startswith(PartitionKey,'a')", json!(["partition range", [{"from": ["a"], "to": ["b"]}]])),
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
