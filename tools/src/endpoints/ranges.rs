//! Splits a table into key ranges that can be read in parallel.
//!
//! A service reports neither the number of partitions nor the last one. So the algorithm repeatedly requests the first
//! key at or after a key in the middle of a range, until there are enough ranges. A range consists of whole partitions,
//! or of a range of row keys in one partition, because a service finds the beginning of such a range quickly. The
//! number of entities in a range is unknown, so a table is split into more ranges than are read in parallel.
//!
//! The middle of a range is found in two steps. Most keys share a prefix, whose length is found by bisection. At the
//! first character in which keys differ, the algorithm chooses the middle of the digits or letters that may follow.

use super::endpoint::{PageReader, Query};
use super::engine::parse_filter;
use crate::runtime::next_result;
use model::key::{KEY_SEPARATOR, decode_ordinal};
use model::limits::{PAGE_RESULTS_MAX, TABLE_PROBES_MAX, TABLE_RANGES_MAX};
use model::name::{PARTITION_KEY, ROW_KEY};
use model::plan::plan;
use model::{EntityKey, Filter, KeyRange};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::sync::Arc;
use tokio::task::JoinSet;

/// The maximum number of queries that do not split a range before it is left as it is.
const FRUITLESS_QUERIES_MAX: usize = 48;
/// The maximum number of empty pages at the beginning of a query.
const EMPTY_PAGES_MAX: usize = 16;
/// The number of ranges for each parallel reader, so that one large range does not hold up the others.
const RANGES_PER_READER: usize = 4;

/// The entities of a table from one key up to, but not including, another key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EntityRange {
    /// The partition whose row keys are bounded; `None` if partition keys are bounded.
    pub(crate) partition: Option<String>,
    /// The first key; `None` for no lower bound.
    pub(crate) from: Option<String>,
    /// The first key after the range; `None` for no upper bound.
    pub(crate) to: Option<String>,
}

impl EntityRange {
    /// Returns the filter for the entities in the range that also match another filter.
    pub(crate) fn filter(&self, filter: Option<&str>) -> Option<String> {
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

    /// Returns the smallest range that contains all keys that a filter can match, or `None` if it can match none.
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

/// Splits key bytes at the first structural byte, and returns the text before it, this byte, and the bytes after it.
fn cut(bytes: &[u8]) -> Option<(String, Option<u8>, &[u8])> {
    let at = bytes.iter().position(|byte| *byte <= KEY_SEPARATOR + 1).unwrap_or(bytes.len());
    let text = decode_ordinal(bytes.get(..at)?)?.into_owned();
    Some((text, bytes.get(at).copied(), bytes.get(at + 1..).unwrap_or_default()))
}

/// Returns the first string after a key that is a valid key.
fn after(key: &str) -> String {
    format!("{key} ")
}

/// Splits the part of a table that a filter can match into ranges, of which `parallel` are to be read concurrently. The
/// ranges are in key order and have no gaps. A table that fits in one page becomes one range.
pub(crate) async fn split(
    table: &Arc<dyn PageReader>,
    filter: Option<&str>,
    parallel: usize,
) -> anyhow::Result<Vec<EntityRange>> {
    let whole = || vec![EntityRange::default()];
    let ranges_max = (parallel * RANGES_PER_READER).min(TABLE_RANGES_MAX);
    // An invalid filter is passed to the service, which reports the error.
    let Ok(filter) = filter.map_or(Ok(None), parse_filter) else { return Ok(whole()) };
    let Some(around) = EntityRange::around(filter.as_ref()).filter(|_| parallel > 1) else { return Ok(whole()) };
    let page = table.page(&keys_in(&around), None, PAGE_RESULTS_MAX).await?;
    let (Some(first), Some(_)) = (page.entities.first(), &page.next) else { return Ok(whole()) };
    let axis = around.partition.map_or(Axis::Partitions, Axis::RowsOf);
    let mut spans = vec![Span::new(axis, &first.key, around.to)];
    let mut probes_left = TABLE_PROBES_MAX;
    loop {
        let count = parallel.min(probes_left).min(ranges_max.saturating_sub(spans.len()));
        let asked = next_probes(&mut spans, count);
        if asked.is_empty() {
            break;
        }
        probes_left -= asked.len();
        let mut running = JoinSet::new();
        for (at, probe, range) in asked {
            let table = Arc::clone(table);
            running.spawn(async move { first_key(&*table, &range).await.map(|found| (at, probe, found)) });
        }
        let mut answers = Vec::new();
        while let Some(answer) = next_result(&mut running).await? {
            answers.push(answer);
        }
        // Process the last span first, so that new spans do not shift the remaining spans.
        answers.sort_unstable_by_key(|(at, ..)| Reverse(*at));
        for (at, probe, found) in answers {
            if let Some(following) = spans.get_mut(at).and_then(|span| span.record_probe(probe, found)) {
                spans.insert(at + 1, following);
            }
        }
    }
    Ok(ranges_of(&spans))
}

/// Returns probes for the spans that were split least often, each with the index of its span and the range that it
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

/// Returns the ranges between the beginnings of spans.
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

/// The keys by which a span is split.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Axis {
    Partitions,
    /// The row keys in the only partition of the span.
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
    /// The row key of the first entity.
    first_row: String,
    /// An exclusive upper bound: no key lies between this bound and the next span. `None` if no bound is known.
    high: Option<String>,
    depth: u32,
    tries: usize,
    /// The number of leading UTF-16 units of `low` that all keys share: at least `shared.0`, and at most `shared.1`
    /// once another key is known.
    shared: (usize, Option<usize>),
    /// True if the span cannot be split further.
    is_final: bool,
}

/// A query for the first key of a span at or after a given key.
#[derive(Debug)]
enum Probe {
    /// Starts at a key where the span may be split.
    Middle(String),
    /// Checks whether there is a second key.
    Second(String),
    /// Checks whether all keys begin with the given number of units of the first key.
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
    /// The service returned only empty pages and did not reach the end of the range.
    Unknown,
}

impl Span {
    fn new(axis: Axis, first: &EntityKey, high: Option<String>) -> Self {
        let low = axis.key_of(first).to_owned();
        let shared = high.as_ref().map_or(0, |high| shared_units(&units(&low), &units(high)));
        let first_row = first.row.as_str().to_owned();
        Self { axis, low, first_row, high, depth: 0, tries: 0, shared: (shared, None), is_final: false }
    }

    /// Returns the part of the span that starts at a key.
    fn from(&self, key: &str) -> EntityRange {
        let partition = self.axis.partition().map(str::to_owned);
        EntityRange { partition, from: Some(key.to_owned()), to: self.high.clone() }
    }

    /// Returns the next probe, or `None` if no probe is useful.
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

    /// Records a result. Returns the second half of the span if it is split.
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

/// Returns the length of the common prefix of two keys, in units.
fn common_units(one: &[u16], other: &[u16]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Returns the number of leading units that all keys from `low` up to `high` certainly share.
fn shared_units(low: &[u16], high: &[u16]) -> usize {
    let common = common_units(low, high);
    let is_following = low.get(..=common).and_then(following_prefix).is_some_and(|key| units(&key) == high);
    common + usize::from(is_following)
}

/// Returns the first string after all keys with the given prefix.
fn following_prefix(beginning: &[u16]) -> Option<String> {
    let (last, rest) = beginning.split_last()?;
    let following = (last.checked_add(1)?..=u16::MAX).find(|unit| is_key_unit(*unit) || is_surrogate(*unit))?;
    // Half of a surrogate pair is not a valid string.
    String::from_utf16(&[rest, &[following]].concat()).ok()
}

fn keys_in(range: &EntityRange) -> Query {
    Query { filter: range.filter(None), select: vec![PARTITION_KEY.to_owned()] }
}

async fn first_key(table: &dyn PageReader, range: &EntityRange) -> anyhow::Result<ProbeResult> {
    let query = keys_in(range);
    let mut next = None;
    for _ in 0..EMPTY_PAGES_MAX {
        let page = table.page(&query, next.as_ref(), 1).await?;
        if let Some(entity) = page.entities.into_iter().next() {
            return Ok(ProbeResult::Key(entity.key));
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
/// Sorts after the characters that most keys consist of. Keys with later characters are still found.
const LATIN_CEILING: u16 = 0x7F;

/// Returns the first unit after the class of digits or letters that a unit belongs to, and the unit in the middle of
/// that class.
fn class_of(unit: u16) -> Option<(u16, u16)> {
    let class = |from: u8, to: u8| (u16::from(to) + 1, u16::from(from) + u16::from(to - from) / 2 + 1);
    match u8::try_from(unit).ok()? {
        b'0'..=b'9' => Some(class(b'0', b'9')),
        b'A'..=b'Z' => Some(class(b'A', b'Z')),
        b'a'..=b'z' => Some(class(b'a', b'z')),
        _ => None,
    }
}

/// Returns a key between two keys that share the first `shared` units, roughly in the middle of the likely keys, in
/// the order of UTF-16 code units.
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
        // No unit fits between the bounds here, so look for a key that begins with this unit of the low key.
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
    use crate::endpoints::{Endpoint, EngineEndpoint, Page, SourceTable, WriteMode};
    use async_trait::async_trait;
    use client::{Continuation, PropertyBag};
    use model::clock::SystemClock;
    use model::edm::compare_ordinal;
    use model::{AccountName, KeyText, RecordBuilder, TableName};
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use store::{Memory, TableKey};

    type Key = (String, String);
    type Matches = fn(&Key) -> bool;

    /// A table that counts its pages.
    struct Counted {
        table: SourceTable,
        pages: AtomicUsize,
    }

    #[async_trait]
    impl PageReader for Counted {
        async fn page(&self, query: &Query, from: Option<&Continuation>, limit: usize) -> anyhow::Result<Page> {
            self.pages.fetch_add(1, Ordering::Relaxed);
            self.table.page(query, from, limit).await
        }
    }

    async fn table_of(keys: &[Key]) -> Arc<Counted> {
        let source = Arc::new(EngineEndpoint(Memory::new(SystemClock)));
        let table = TableKey { account: AccountName::new("acct").unwrap(), name: TableName::new("cars").unwrap() };
        source.create_table(&table).await.unwrap();
        for (partition, row) in keys {
            let key = EntityKey { partition: KeyText::new(partition).unwrap(), row: KeyText::new(row).unwrap() };
            let entity = PropertyBag::of_properties(key, RecordBuilder::default());
            source.write(&table, vec![entity], WriteMode::Replace).await.unwrap();
        }
        Arc::new(Counted { table: SourceTable { source, table }, pages: AtomicUsize::new(0) })
    }

    async fn split_counted(table: &Arc<Counted>, filter: Option<&str>, parallel: usize) -> Vec<EntityRange> {
        split(&(Arc::clone(table) as Arc<dyn PageReader>), filter, parallel).await.unwrap()
    }

    /// Returns the number of entities in each range. Together, the ranges contain all keys, in order.
    async fn sizes(table: &Counted, filter: Option<&str>, ranges: &[EntityRange], keys: &[Key]) -> Vec<usize> {
        let (mut found, mut sizes) = (Vec::new(), Vec::new());
        for range in ranges {
            let query = Query { filter: range.filter(filter), select: Vec::new() };
            let (mut next, before) = (None, found.len());
            loop {
                let page = table.page(&query, next.as_ref(), PAGE_RESULTS_MAX).await.unwrap();
                let keys = page.entities.into_iter().map(|entity| entity.key);
                found.extend(keys.map(|key| (key.partition.as_str().to_owned(), key.row.as_str().to_owned())));
                next = page.next;
                if next.is_none() {
                    break;
                }
            }
            sizes.push(found.len() - before);
        }
        let mut keys = keys.to_vec();
        keys.sort_by(|one, other| compare_ordinal(&one.0, &other.0).then(compare_ordinal(&one.1, &other.1)));
        assert!(found == keys, "{ranges:?}");
        sizes
    }

    /// Returns keys in typical formats.
    fn shapes() -> Vec<(&'static str, Vec<Key>)> {
        let all = |key: &dyn Fn(u64) -> Key| (0..20_000).map(key).collect::<Vec<_>>();
        let hash = |number: u64| {
            number
                .wrapping_add(1)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(23)
                .wrapping_mul(0xD6E8_FEB8_6659_FD93)
        };
        let row = || "r".to_owned();
        vec![
            ("numbers with zeros", all(&|number| (format!("tenant-{number:08}"), row()))),
            ("numbers", all(&|number| (format!("user-{number}"), row()))),
            ("GUIDs", all(&|number| (format!("{:016x}{:016x}", hash(number), hash(number + 77)), row()))),
            ("a long prefix", all(&|number| (format!("subscriptions|eu-west|customers|{number:06}"), row()))),
            (
                "times",
                all(&|number| {
                    (
                        format!(
                            "20{:02}-{:02}-{:02}T{:02}",
                            20 + number / 8064,
                            1 + number / 672 % 12,
                            1 + number / 24 % 28,
                            number % 24
                        ),
                        row(),
                    )
                }),
            ),
            ("one partition of numbers", all(&|number| ("all".to_owned(), format!("{number:08}")))),
            ("one partition of GUIDs", all(&|number| ("all".to_owned(), format!("{:016x}", hash(number))))),
            (
                "three partitions",
                all(&|number| {
                    (["a", "b", "wren"][usize::try_from(hash(number) % 3).unwrap()].to_owned(), format!("{number:08}"))
                }),
            ),
            (
                "words",
                all(&|number| {
                    (
                        (0..5)
                            .map(|at| char::from(b'a' + u8::try_from((hash(number) >> (8 * at)) % 26).unwrap()))
                            .collect(),
                        row(),
                    )
                }),
            ),
            (
                "mixed letters and digits",
                all(&|number| {
                    (
                        (0..9)
                            .map(|at| {
                                char::from(
                                    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                        [usize::try_from((hash(number) >> (6 * at)) % 62).unwrap()],
                                )
                            })
                            .collect(),
                        row(),
                    )
                }),
            ),
            (
                "characters outside of Latin",
                all(&|number| {
                    (format!("\u{1F600}{}", char::from_u32(0x4E00 + u32::try_from(number).unwrap()).unwrap()), row())
                }),
            ),
            (
                "half in one partition",
                all(&|number| {
                    if number % 2 == 0 {
                        ("tenant-0042".to_owned(), format!("{number:06}"))
                    } else {
                        (format!("tenant-{:04}", hash(number) % 5000), format!("{number:06}"))
                    }
                }),
            ),
        ]
    }

    #[tokio::test]
    async fn tables_of_every_shape_are_split_evenly_enough_and_completely() {
        for (name, keys) in shapes() {
            let table = table_of(&keys).await;
            let ranges = split_counted(&table, None, 8).await;
            let pages = table.pages.load(Ordering::Relaxed);
            assert!(pages <= TABLE_PROBES_MAX + 1, "{name}: {pages}");
            let sizes = sizes(&table, None, &ranges, &keys).await;
            // Each range goes to the first idle reader, as in the commands.
            let mut readers = [0; 8];
            for size in &sizes {
                *readers.iter_mut().min().unwrap() += size;
            }
            let longest = readers.iter().max().unwrap();
            // The partition with half of the entities stays within one range, because nothing reveals that it is
            // large.
            let most = if name == "half in one partition" { keys.len() * 6 / 10 } else { keys.len() / 2 };
            assert!((32..=34).contains(&ranges.len()) && *longest < most, "{name}: {sizes:?}");
        }
    }

    #[tokio::test]
    async fn what_is_one_page_is_one_range_and_one_request() {
        let keys = |count: usize| (0..count).map(|row| ("p".to_owned(), format!("{row:04}"))).collect::<Vec<_>>();
        for (count, filter, parallel, requests) in [
            (0, None, 8, 1),
            (1000, None, 8, 1),
            (1100, None, 1, 0),
            (1100, Some("RowKey lt '0500' and PartitionKey eq 'p'"), 8, 1),
            (1100, Some("PartitionKey eq 'q'"), 8, 1),
            (1100, Some("PartitionKey lt 'a' and PartitionKey gt 'b'"), 8, 0),
            (1100, Some("N gt"), 8, 0),
        ] {
            let table = table_of(&keys(count)).await;
            let ranges = split_counted(&table, filter, parallel).await;
            assert_eq!(ranges, [EntityRange::default()], "{filter:?}");
            assert_eq!(table.pages.load(Ordering::Relaxed), requests, "{filter:?}");
        }
    }

    #[tokio::test]
    async fn only_the_keys_that_a_filter_can_match_are_split() {
        let keys =
            |partition: &str| (0..3000).map(|row| (partition.to_owned(), format!("{row:04}"))).collect::<Vec<_>>();
        let all = [keys("a"), keys("b"), keys("b "), keys("c")].concat();
        let table = table_of(&all).await;
        let cases: [(&str, Matches); 6] = [
            ("PartitionKey eq 'b'", |(partition, _)| partition == "b"),
            ("PartitionKey eq 'b' and RowKey ge '1500'", |(partition, row)| partition == "b" && row.as_str() >= "1500"),
            ("PartitionKey eq 'b' and RowKey le '1500'", |(partition, row)| partition == "b" && row.as_str() <= "1500"),
            ("PartitionKey gt 'a' and PartitionKey le 'b'", |(partition, _)| partition == "b"),
            ("PartitionKey eq 'a' or PartitionKey eq 'c'", |(partition, _)| partition == "a" || partition == "c"),
            ("PartitionKey ge 'b' and RowKey gt '0100'", |(partition, row)| partition != "a" && row.as_str() > "0100"),
        ];
        for (filter, matches) in cases {
            let ranges = split_counted(&table, Some(filter), 2).await;
            let expected: Vec<Key> = all.iter().filter(|key| matches(key)).cloned().collect();
            let sizes = sizes(&table, Some(filter), &ranges, &expected).await;
            let largest = *sizes.iter().max().unwrap();
            assert!(sizes.len() == 8 && largest < expected.len() * 2 / 3, "{filter}: {sizes:?} {ranges:?}");
        }
    }

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

    /// Keys that consist of only a few different characters, so that many share a prefix.
    fn few_keys() -> impl Strategy<Value = Vec<Key>> {
        let key = || "[ab \u{1F600}\u{E000}]{0,3}";
        proptest::collection::vec((key(), key()), 1..40)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn ranges_have_every_entity_once(mut keys in few_keys(), parallel in 2_usize..20) {
            // More than a page, so that there is something to split.
            keys.extend((0..1001).map(|row| ("a".to_owned(), format!("{row}"))));
            keys.sort();
            keys.dedup();
            tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
                let table = table_of(&keys).await;
                let ranges = split_counted(&table, None, parallel).await;
                sizes(&table, None, &ranges, &keys).await;
            });
        }
    }
}
