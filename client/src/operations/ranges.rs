//! Splits a table into key ranges that can be read in parallel.
//!
//! A service reports neither the number of partitions nor the last partition. The algorithm therefore takes a key in
//! the middle of a range and requests the first existing key at or after it, until there are enough ranges. A range
//! consists of whole partitions, or of rows of one partition, because a service finds the beginning of such a range
//! quickly. The number of entities in a range is unknown, so a table is split into more ranges than are read in
//! parallel.
//!
//! The middle of a range is found in two steps. First, bisection determines the length of the prefix that the keys
//! share. Then the next character is chosen from the middle of the digits or letters that are possible there.
//!
//! This module must not depend on requests or entity types. The workspace's commands also use it for data folders and
//! databases.

use super::continuation::Continuation;
use crate::future::BoxFuture;
use model::key::{KEY_SEPARATOR, decode_ordinal};
use model::limits::{PAGE_RESULTS_MAX, TABLE_PROBES_MAX, TABLE_RANGES_MAX};
use model::name::{PARTITION_KEY, ROW_KEY};
use model::plan::plan;
use model::{EntityKey, Filter, KeyRange};
use std::cmp::Reverse;
use std::panic::resume_unwind;
use tokio::task::JoinSet;
use wire::filter::{Grammar, parse_optional};

/// The maximum number of fruitless queries for one range before it is no longer split.
const FRUITLESS_QUERIES_MAX: usize = 48;
/// The maximum number of empty pages at the beginning of a query.
const EMPTY_PAGES_MAX: usize = 16;
/// The number of ranges for each parallel reader, so that one large range does not delay the end of the scan.
const RANGES_PER_READER: usize = 4;

/// The entities of a table from one key up to, but not including, another key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct EntityRange {
    /// The partition whose row keys are bounded; `None` if partition keys are bounded.
    pub partition: Option<String>,
    /// The first key; `None` for no lower bound.
    pub from: Option<String>,
    /// The first key after the range; `None` for no upper bound.
    pub to: Option<String>,
}

impl EntityRange {
    /// Returns the filter for the entities in the range that also match another filter, or `None` to select all
    /// entities.
    pub fn filter(&self, filter: Option<&str>) -> Option<String> {
        let condition =
            |key: &str, operator: &str, text: &String| format!("{key} {operator} '{}'", text.replace('\'', "''"));
        let bounded = if self.partition.is_some() { ROW_KEY } else { PARTITION_KEY };
        let conditions = [
            self.partition.as_ref().map(|partition| condition(PARTITION_KEY, "eq", partition)),
            self.from.as_ref().map(|from| condition(bounded, "ge", from)),
            self.to.as_ref().map(|to| condition(bounded, "lt", to)),
        ];
        let conditions: Vec<String> = conditions.into_iter().flatten().collect();
        let filter = filter.filter(|filter| !filter.trim().is_empty());
        match (filter, conditions.is_empty()) {
            (None, true) => None,
            (Some(filter), true) => Some(filter.to_owned()),
            (None, false) => Some(conditions.join(" and ")),
            (Some(filter), false) => Some(format!("({filter}) and {}", conditions.join(" and "))),
        }
    }

    /// Returns the smallest range with all keys that a filter can match, or `None` if the filter matches no key.
    fn around(filter: Option<&Filter>) -> Option<Self> {
        let mut ranges = plan(filter).ranges.into_iter();
        let first = ranges.next()?;
        let end = ranges.last().map_or(first.end, |last| last.end);
        let keys = KeyRange { start: first.start, end };
        let (mut partition, begun_by, rows_from) = cut(&keys.start)?;
        if begun_by.is_some_and(|byte| byte != KEY_SEPARATOR) {
            partition = after(&partition);
        }
        let from = |key: String| Some(key).filter(|key| !key.is_empty());
        let to = |key: String, is_included: bool| Some(if is_included { after(&key) } else { key });
        let Some(end) = &keys.end else { return Some(Self { partition: None, from: from(partition), to: None }) };
        let (last, ended_by, rows_to) = cut(end)?;
        if keys.partition().is_none() {
            return Some(Self { partition: None, from: from(partition), to: to(last, ended_by.is_some()) });
        }
        let (row, ..) = cut(rows_from)?;
        let (last_row, row_ended_by, _) = cut(rows_to)?;
        let rows_to = if ended_by == Some(KEY_SEPARATOR) { to(last_row, row_ended_by.is_some()) } else { None };
        Some(Self { partition: Some(partition), from: from(row), to: rows_to })
    }
}

/// Splits key bytes at the first structural byte: the string before this byte, the byte, and the bytes after it.
fn cut(bytes: &[u8]) -> Option<(String, Option<u8>, &[u8])> {
    let at = bytes.iter().position(|byte| *byte <= KEY_SEPARATOR + 1).unwrap_or(bytes.len());
    let text = decode_ordinal(bytes.get(..at)?)?.into_owned();
    Some((text, bytes.get(at).copied(), bytes.get(at + 1..).unwrap_or_default()))
}

/// Returns the first valid key after the given key.
fn after(key: &str) -> String {
    format!("{key} ")
}

/// The first keys of a query.
#[derive(Debug, Default)]
pub struct KeyPage {
    /// The first key, or `None` if the page is empty.
    pub first: Option<EntityKey>,
    /// The position of the next page; `None` for the last page.
    pub next: Option<Continuation>,
}

/// A table whose keys can be read in pages. Clones read the same table.
pub trait KeyReader: Clone + Send + Sync + 'static {
    /// The reason why a page cannot be read.
    type Error: Send + 'static;

    /// Reads a page of at most `limit` entities that match the filter.
    fn page(
        &self,
        filter: Option<String>,
        from: Option<Continuation>,
        limit: usize,
    ) -> BoxFuture<'static, Result<KeyPage, Self::Error>>;
}

/// Splits the part of a table that a filter can match into ranges, of which `parallel` will be read concurrently. The
/// ranges are in key order and without gaps. A table of one page becomes one range.
///
/// An invalid filter results in a single range, so that the service reports the mistake in it.
pub async fn split<R: KeyReader>(
    table: &R,
    filter: Option<&str>,
    parallel: usize,
) -> Result<Vec<EntityRange>, R::Error> {
    let whole = || vec![EntityRange::default()];
    let ranges_max = (parallel * RANGES_PER_READER).min(TABLE_RANGES_MAX);
    let filter = filter.map_or(Ok(None), |filter| parse_optional(filter, Grammar::Extended));
    let Ok(filter) = filter else { return Ok(whole()) };
    let Some(around) = EntityRange::around(filter.as_ref()).filter(|_| parallel > 1) else { return Ok(whole()) };
    let page = table.page(around.filter(None), None, PAGE_RESULTS_MAX).await?;
    let (Some(first), Some(_)) = (&page.first, &page.next) else { return Ok(whole()) };
    let axis = around.partition.map_or(Axis::Partitions, Axis::RowsOf);
    let mut spans = vec![Span::new(axis, first, around.to)];
    let mut probes_left = TABLE_PROBES_MAX;
    loop {
        let count = parallel.min(probes_left).min(ranges_max.saturating_sub(spans.len()));
        let probes = next_probes(&mut spans, count);
        if probes.is_empty() {
            break;
        }
        probes_left -= probes.len();
        let mut running = JoinSet::new();
        for (at, probe, range) in probes {
            let table = table.clone();
            running.spawn(async move { first_key(&table, &range).await.map(|found| (at, probe, found)) });
        }
        let mut results = Vec::new();
        while let Some(result) = running.join_next().await {
            results.push(result.unwrap_or_else(|error| resume_unwind(error.into_panic()))?);
        }
        // Process the last span first, so that new spans do not shift the remaining ones.
        results.sort_unstable_by_key(|(at, ..)| Reverse(*at));
        for (at, probe, found) in results {
            if let Some(following) = spans.get_mut(at).and_then(|span| span.record_probe(probe, found)) {
                spans.insert(at + 1, following);
            }
        }
    }
    Ok(ranges_of(&spans))
}

/// Returns probes for the spans that were split least. Each comes with the index of its span and the keys that it
/// covers.
fn next_probes(spans: &mut [Span], count: usize) -> Vec<(usize, Probe, EntityRange)> {
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by_key(|at| spans.get(*at).map(|span| span.depth));
    let mut probes = Vec::new();
    for at in order {
        let Some(span) = spans.get_mut(at).filter(|span| probes.len() < count && !span.is_final) else { continue };
        match span.next_probe() {
            Some(probe) => {
                let range = span.from(probe.key());
                probes.push((at, probe, range));
            }
            None => span.is_final = true,
        }
    }
    probes
}

fn ranges_of(spans: &[Span]) -> Vec<EntityRange> {
    let range = |(at, span): (usize, &Span)| {
        let before = at.checked_sub(1).and_then(|before| spans.get(before));
        let following = spans.get(at + 1);
        match &span.axis {
            Axis::Partitions => EntityRange {
                partition: None,
                from: before.map(|_| span.low.clone()),
                to: following.map(|following| following.axis.partition().unwrap_or(&following.low).to_owned()),
            },
            Axis::RowsOf(partition) => EntityRange {
                partition: Some(partition.clone()),
                from: before.filter(|before| before.axis == span.axis).map(|_| span.low.clone()),
                to: following.filter(|following| following.axis == span.axis).map(|following| following.low.clone()),
            },
        }
    };
    spans.iter().enumerate().map(range).collect()
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Axis {
    Partitions,
    RowsOf(String),
}

impl Axis {
    fn partition(&self) -> Option<&str> {
        match self {
            Self::Partitions => None,
            Self::RowsOf(partition) => Some(partition),
        }
    }

    fn key_of<'a>(&self, key: &'a EntityKey) -> &'a str {
        match self {
            Self::Partitions => key.partition.as_str(),
            Self::RowsOf(_) => key.row.as_str(),
        }
    }
}

/// A range with at least one entity.
#[derive(Debug, Clone)]
struct Span {
    axis: Axis,
    low: String,
    first_row: String,
    /// An exclusive upper bound: no key lies between it and the next span. `None` if no bound is known.
    high: Option<String>,
    depth: u32,
    tries: usize,
    /// The number of leading UTF-16 units of `low` that all keys share: at least `shared.0`, and at most `shared.1`
    /// once another key is known.
    shared: (usize, Option<usize>),
    is_final: bool,
}

#[derive(Debug)]
enum Probe {
    /// Looks for a key at which the span can be split.
    Middle(String),
    /// Checks whether there is a second key.
    Second(String),
    /// Checks whether all keys begin with this many units of the first key.
    Shared(usize, String),
}

impl Probe {
    fn key(&self) -> &str {
        match self {
            Self::Middle(key) | Self::Second(key) | Self::Shared(_, key) => key,
        }
    }
}

#[derive(Debug)]
enum ProbeResult {
    Key(EntityKey),
    Nothing,
    /// The service returned only empty pages and did not reach the end.
    Unknown,
}

impl Span {
    fn new(axis: Axis, first: &EntityKey, high: Option<String>) -> Self {
        let low = axis.key_of(first).to_owned();
        let shared = high.as_ref().map_or(0, |high| shared_units(&units(&low), &units(high)));
        let first_row = first.row.as_str().to_owned();
        Self { axis, low, first_row, high, depth: 0, tries: 0, shared: (shared, None), is_final: false }
    }

    fn from(&self, key: &str) -> EntityRange {
        let partition = self.axis.partition().map(str::to_owned);
        EntityRange { partition, from: Some(key.to_owned()), to: self.high.clone() }
    }

    fn next_probe(&mut self) -> Option<Probe> {
        if self.tries >= FRUITLESS_QUERIES_MAX {
            return None;
        }
        self.tries += 1;
        let low = units(&self.low);
        let (least, most) = self.shared;
        // If keys are evenly distributed, the first probe finds the middle. Otherwise, probe where the keys diverge.
        match most {
            None if self.tries > 1 => Some(Probe::Second(after(&self.low))),
            Some(most) if least < most => {
                let half = (least + most).div_ceil(2);
                // Keeps the two units of a surrogate pair together.
                let count = half + usize::from(low.get(half).is_some_and(|unit| (0xDC00..0xE000).contains(unit)));
                let key = low.get(..count).filter(|_| count <= most).and_then(following_prefix);
                if key.is_none() {
                    self.shared.1 = Some(half - 1);
                    return self.next_probe();
                }
                key.map(|key| Probe::Shared(count, key))
            }
            _ => match between(&low, self.high.as_deref().map(units).as_deref(), least) {
                None if most.is_none() => Some(Probe::Second(after(&self.low))),
                key => key.map(Probe::Middle),
            },
        }
    }

    /// Returns the second half of the span if the result splits the span.
    fn record_probe(&mut self, probe: Probe, found: ProbeResult) -> Option<Self> {
        let low = units(&self.low);
        match (probe, found) {
            (_, ProbeResult::Unknown) => self.is_final = true,
            (Probe::Middle(key), ProbeResult::Key(first)) => {
                let following = Self::new(self.axis.clone(), &first, self.high.take());
                let shared = shared_units(&low, &units(&key));
                (self.high, self.depth, self.tries, self.shared) = (Some(key), self.depth + 1, 0, (shared, None));
                return Some(Self { depth: self.depth, ..following });
            }
            (Probe::Middle(key), ProbeResult::Nothing) => self.high = Some(key),
            (Probe::Second(_) | Probe::Shared(..), ProbeResult::Key(other)) => {
                let most = common_units(&low, &units(self.axis.key_of(&other)));
                self.shared.1 = Some(self.shared.1.map_or(most, |known| known.min(most)));
            }
            (Probe::Shared(count, key), ProbeResult::Nothing) => (self.shared.0, self.high) = (count, Some(key)),
            (Probe::Second(_), ProbeResult::Nothing) => match self.axis {
                Axis::Partitions => {
                    let (partition, row) = (std::mem::take(&mut self.low), std::mem::take(&mut self.first_row));
                    (self.low, self.axis, self.high) = (row, Axis::RowsOf(partition), None);
                    (self.tries, self.shared) = (0, (0, None));
                }
                Axis::RowsOf(_) => self.is_final = true,
            },
        }
        None
    }
}

fn units(key: &str) -> Vec<u16> {
    key.encode_utf16().collect()
}

fn common_units(one: &[u16], other: &[u16]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Returns the number of leading units that all keys from `low` up to `high` certainly share.
fn shared_units(low: &[u16], high: &[u16]) -> usize {
    let common = common_units(low, high);
    let is_following = low.get(..=common).and_then(following_prefix).is_some_and(|key| units(&key) == high);
    common + usize::from(is_following)
}

/// Returns the first string after all keys with this prefix.
fn following_prefix(beginning: &[u16]) -> Option<String> {
    let (last, rest) = beginning.split_last()?;
    let following = (last.checked_add(1)?..=u16::MAX).find(|unit| is_key_unit(*unit) || is_surrogate(*unit))?;
    // Half of a surrogate pair is not a valid string.
    String::from_utf16(&[rest, &[following]].concat()).ok()
}

async fn first_key<R: KeyReader>(table: &R, range: &EntityRange) -> Result<ProbeResult, R::Error> {
    let mut next = None;
    for _ in 0..EMPTY_PAGES_MAX {
        let page = table.page(range.filter(None), next, 1).await?;
        if let Some(key) = page.first {
            return Ok(ProbeResult::Key(key));
        }
        match page.next {
            None => return Ok(ProbeResult::Nothing),
            following => next = following,
        }
    }
    Ok(ProbeResult::Unknown)
}

/// Sorts before every character of a key.
const FLOOR: u16 = 0x1F;
/// Sorts after the characters of most keys. Keys with later characters are still found.
const LATIN_CEILING: u16 = 0x7F;

/// Finds the class of digits or letters that contains a unit. Returns the first unit after the class, and the unit in
/// its middle.
fn class_of(unit: u16) -> Option<(u16, u16)> {
    let class = |from: u8, to: u8| (u16::from(to) + 1, u16::from(from) + u16::from(to - from) / 2 + 1);
    match u8::try_from(unit).ok()? {
        b'0'..=b'9' => Some(class(b'0', b'9')),
        b'A'..=b'Z' => Some(class(b'A', b'Z')),
        b'a'..=b'z' => Some(class(b'a', b'z')),
        _ => None,
    }
}

/// Returns a key between two keys that share the first `shared` units. The result is roughly in the middle of the
/// likely keys, in the order of UTF-16 code units.
fn between(low: &[u16], high: Option<&[u16]>, shared: usize) -> Option<String> {
    let mut key: Vec<u16> = low.get(..shared)?.to_vec();
    for at in shared..=low.len() {
        let begin = low.get(at).copied().unwrap_or(FLOOR);
        let bound = high.filter(|high| high.starts_with(&key)).and_then(|high| high.get(at)).copied();
        let (end, first_choice) = match (class_of(begin), bound) {
            (Some((end, middle)), None) if begin >= middle => (end + 1, end),
            (Some((end, _)), Some(bound)) if bound > end => (bound, end),
            (Some((end, _)), None) => (end, begin + (end - begin) / 2),
            (_, Some(bound)) => (bound, begin + bound.saturating_sub(begin) / 2),
            (None, None) if begin < LATIN_CEILING - 1 => (LATIN_CEILING, begin + (LATIN_CEILING - begin) / 2),
            (None, None) => (u16::MAX, begin + (u16::MAX - begin) / 2),
        };
        let mut choices = (first_choice..end).chain(begin.saturating_add(1)..first_choice);
        if let Some(unit) = choices.find(|unit| *unit > begin && is_key_unit(*unit)) {
            key.push(unit);
            return String::from_utf16(&key).ok();
        }
        // No key with a later unit here is below the upper bound, so continue with keys that have this unit of the low
        // key.
        key.push(begin);
    }
    None
}

fn is_surrogate(unit: u16) -> bool {
    (0xD800..=0xDFFF).contains(&unit)
}

fn is_key_unit(unit: u16) -> bool {
    char::from_u32(u32::from(unit)).is_some_and(|c| model::KeyText::new(c.encode_utf8(&mut [0; 4])).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::edm::compare_ordinal;
    use proptest::prelude::*;

    #[test]
    fn filters_of_ranges() {
        let range = |partition: Option<&str>, from: Option<&str>, to: Option<&str>| EntityRange {
            partition: partition.map(str::to_owned),
            from: from.map(str::to_owned),
            to: to.map(str::to_owned),
        };
        assert_eq!(range(None, None, None).filter(Some(" ")), None);
        assert_eq!(range(None, None, None).filter(Some("a or b")).as_deref(), Some("a or b"));
        assert_eq!(
            range(None, Some("o'k"), Some("z")).filter(Some("N gt 5")).as_deref(),
            Some("(N gt 5) and PartitionKey ge 'o''k' and PartitionKey lt 'z'")
        );
        assert_eq!(
            range(Some("p"), Some("a"), None).filter(None).as_deref(),
            Some("PartitionKey eq 'p' and RowKey ge 'a'")
        );
    }

    proptest! {
        #[test]
        fn a_key_between_two_keys_sorts_between_them(one in "[ -~é\u{D7FF}\u{FFFD}\u{1F600}]{0,4}", other in "[ -~é\u{FFFD}\u{1F600}]{0,4}", is_open in any::<bool>()) {
            let (low, high) = if compare_ordinal(&one, &other).is_lt() { (one, other) } else { (other, one) };
            prop_assume!(low != high);
            let (low_units, high_units) = (units(&low), Some(units(&high)).filter(|_| !is_open));
            let shared = high_units.as_ref().map_or(0, |high| shared_units(&low_units, high));
            if let Some(middle) = between(&low_units, high_units.as_deref(), shared) {
                prop_assert!(compare_ordinal(&low, &middle).is_lt(), "{:?} {:?}", low, middle);
                prop_assert!(is_open || compare_ordinal(&middle, &high).is_lt(), "{:?} {:?}", middle, high);
            }
        }

        #[test]
        fn nothing_is_between_a_beginning_and_what_follows_it(beginning in "[a-c\u{D7FF}\u{1F600}]{1,3}", key in "[a-d\u{D7FF}\u{E000}\u{1F600}]{0,4}") {
            if let Some(following) = following_prefix(&units(&beginning)) {
                prop_assert!(compare_ordinal(&beginning, &following).is_lt());
                let is_between = compare_ordinal(&beginning, &key).is_le() && compare_ordinal(&key, &following).is_lt();
                prop_assert_eq!(is_between, key.starts_with(&beginning), "{:?} {:?} {:?}", beginning, key, following);
            }
        }
    }
}
