//! Splits a table into key ranges that can be read at the same time.
//!
//! A service tells neither how many partitions there are nor which is the last. So it is asked for the first partition
//! from a key in the middle of a range on, again and again, until there are enough ranges. Ranges have whole
//! partitions, because a service finds the beginning of a partition at once, but not that of a row.

use super::state::TablePart;
use crate::endpoints::Query;
use crate::endpoints::Source;
use model::limits::{EXPORT_PROBES_MAX, PAGE_RESULTS_MAX};
use model::name::PARTITION_KEY;
use store::TableKey;

/// Most fruitless queries of one range before it is left as it is.
const TRIES_MAX: usize = 48;
/// Most empty pages that a query may begin with.
const EMPTY_PAGES_MAX: usize = 16;

/// A range with at least one partition.
#[derive(Debug, Clone)]
struct Span {
    /// Its first partition.
    low: String,
    /// No partition is between this key and the next range; `None` if that is not known.
    high: Option<String>,
    /// How often it was split.
    depth: u32,
    tries: usize,
    /// It cannot be split further.
    is_final: bool,
}

/// Splits a table into at most `ranges_max` ranges, in order. A table of one page is one range.
pub(super) async fn split(source: &dyn Source, table: &TableKey, ranges_max: usize) -> anyhow::Result<Vec<TablePart>> {
    let all = vec![TablePart::new(None, None)];
    if ranges_max <= 1 {
        return Ok(all);
    }
    let keys = Query { filter: None, select: vec![PARTITION_KEY.to_owned()] };
    let page = source.page(table, &keys, None, PAGE_RESULTS_MAX).await?;
    let (Some(first), Some(_)) = (page.entities.first(), &page.next) else { return Ok(all) };
    let mut spans =
        vec![Span { low: first.key.partition.as_str().to_owned(), high: None, depth: 0, tries: 0, is_final: false }];
    for _ in 0..EXPORT_PROBES_MAX {
        let open = spans.iter().enumerate().filter(|(_, span)| !span.is_final).min_by_key(|(_, span)| span.depth);
        let Some(at) = open.map(|(at, _)| at).filter(|_| spans.len() < ranges_max) else { break };
        let Some(span) = spans.get_mut(at) else { break };
        let middle = between(&span.low, span.high.as_deref()).filter(|_| span.tries < TRIES_MAX);
        let Some(middle) = middle else {
            span.is_final = true;
            continue;
        };
        span.tries += 1;
        let found = first_partition(source, table, &middle, span.high.as_deref()).await?;
        let high = span.high.replace(middle);
        if let Some(low) = found {
            (span.depth, span.tries) = (span.depth + 1, 0);
            let depth = span.depth;
            spans.insert(at + 1, Span { low, high, depth, tries: 0, is_final: false });
        }
    }
    let bounds: Vec<String> = spans.into_iter().skip(1).map(|span| span.low).collect();
    let froms = std::iter::once(None).chain(bounds.iter().cloned().map(Some));
    let tos = bounds.iter().cloned().map(Some).chain(std::iter::once(None));
    Ok(froms.zip(tos).map(|(from, to)| TablePart::new(from, to)).collect())
}

/// The filter for the entities of a range, combined with another filter.
pub(super) fn filter_of(part: &TablePart, filter: Option<&str>) -> Option<String> {
    let bound = |operator: &str, key: &String| format!("{PARTITION_KEY} {operator} '{}'", key.replace('\'', "''"));
    let conditions = [
        filter.filter(|filter| !filter.trim().is_empty()).map(|filter| format!("({filter})")),
        part.from.as_ref().map(|from| bound("ge", from)),
        part.to.as_ref().map(|to| bound("lt", to)),
    ];
    let conditions: Vec<String> = conditions.into_iter().flatten().collect();
    (!conditions.is_empty()).then(|| conditions.join(" and "))
}

/// The first partition from one key on and before another one.
async fn first_partition(
    source: &dyn Source,
    table: &TableKey,
    from: &str,
    to: Option<&str>,
) -> anyhow::Result<Option<String>> {
    let filter = filter_of(&TablePart::new(Some(from.to_owned()), to.map(str::to_owned)), None);
    let query = Query { filter, select: vec![PARTITION_KEY.to_owned()] };
    let mut next = None;
    for _ in 0..EMPTY_PAGES_MAX {
        let page = source.page(table, &query, next.as_ref(), 1).await?;
        if let Some(entity) = page.entities.first() {
            return Ok(Some(entity.key.partition.as_str().to_owned()));
        }
        match page.next {
            None => return Ok(None),
            following => next = following,
        }
    }
    Ok(None)
}

/// Sorts before every character of a key.
const FLOOR: u16 = 0x1F;
/// Sorts after the characters that most keys are made of. Keys with later characters are found, too.
const LATIN_CEILING: u16 = 0x7F;

/// A key between two keys, about in the middle, in the order of UTF-16 code units.
fn between(low: &str, high: Option<&str>) -> Option<String> {
    let low: Vec<u16> = low.encode_utf16().collect();
    let mut high: Option<Vec<u16>> = high.map(|high| high.encode_utf16().collect());
    let mut key = Vec::new();
    for at in 0..=low.len() {
        let begin = low.get(at).copied().unwrap_or(FLOOR);
        let end = match &high {
            Some(high) => high.get(at).copied().unwrap_or(0),
            None if begin < LATIN_CEILING - 1 => LATIN_CEILING,
            None => u16::MAX,
        };
        if begin != end {
            let middle = begin + end.saturating_sub(begin) / 2;
            if let Some(unit) = (middle..end).chain(begin + 1..middle).find(|unit| *unit > begin && is_key_unit(*unit))
            {
                key.push(unit);
                return String::from_utf16(&key).ok();
            }
            // No key fits before the end here, so one that begins with this unit of the low key is sought.
            high = None;
        }
        key.push(begin);
    }
    None
}

fn is_key_unit(unit: u16) -> bool {
    char::from_u32(u32::from(unit)).is_some_and(|c| model::KeyText::new(c.encode_utf8(&mut [0; 4])).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::WriteMode;
    use crate::endpoints::{Endpoint, EngineEndpoint};
    use client::PropertyBag;
    use model::clock::SystemClock;
    use model::edm::compare_ordinal;
    use model::{AccountName, EntityKey, KeyText, RecordBuilder, TableName};
    use proptest::prelude::*;
    use store::Memory;

    async fn ranges(partitions: &[String], rows: usize, most: usize) -> Vec<TablePart> {
        let endpoint = EngineEndpoint(Memory::new(SystemClock));
        let table = TableKey { account: AccountName::new("acct").unwrap(), name: TableName::new("cars").unwrap() };
        endpoint.create_table(&table).await.unwrap();
        let text = |text: &str| KeyText::new(text).unwrap();
        for partition in partitions {
            for row in 0..rows {
                let key = EntityKey { partition: text(partition), row: text(&row.to_string()) };
                let entity = PropertyBag::of_properties(key, RecordBuilder::default());
                endpoint.write(&table, vec![entity], WriteMode::Replace).await.unwrap();
            }
        }
        split(&endpoint, &table, most).await.unwrap()
    }

    #[tokio::test]
    async fn a_table_is_split_evenly_enough_and_completely() {
        let many: Vec<String> = (0..1200).map(|number| format!("tenant-{number:05}")).collect();
        let parts = ranges(&many, 1, 8).await;
        assert_eq!(parts.len(), 8, "{parts:?}");
        assert!(parts.first().unwrap().from.is_none() && parts.last().unwrap().to.is_none());
        let mut largest = 0;
        for (part, following) in parts.iter().zip(parts.iter().skip(1)) {
            assert_eq!(part.to, following.from);
            let inside =
                |key: &&String| part.from.as_ref().is_none_or(|from| from <= *key) && part.to.as_ref().unwrap() > *key;
            largest = largest.max(many.iter().filter(inside).count());
        }
        assert!(largest < 900, "{parts:?}");
    }

    #[tokio::test]
    async fn a_small_table_or_one_partition_is_one_range() {
        assert_eq!(ranges(&["a".to_owned(), "b".to_owned()], 10, 8).await, [TablePart::new(None, None)]);
        assert_eq!(ranges(&["only".to_owned()], 1100, 8).await, [TablePart::new(None, None)]);
        assert_eq!(ranges(&[], 0, 8).await, [TablePart::new(None, None)]);
        assert_eq!(ranges(&["a".to_owned(), "\u{1F600}".to_owned()], 600, 8).await.len(), 2);
    }

    #[test]
    fn filters_of_ranges() {
        let part =
            |from: Option<&str>, to: Option<&str>| TablePart::new(from.map(str::to_owned), to.map(str::to_owned));
        assert_eq!(filter_of(&part(None, None), Some(" ")), None);
        assert_eq!(filter_of(&part(None, None), Some("a or b")).as_deref(), Some("(a or b)"));
        assert_eq!(
            filter_of(&part(Some("o'k"), Some("z")), Some("N gt 5")).as_deref(),
            Some("(N gt 5) and PartitionKey ge 'o''k' and PartitionKey lt 'z'")
        );
    }

    proptest! {
        #[test]
        fn a_key_between_two_keys_sorts_between_them(one in "[ -~é\u{D7FF}\u{FFFD}\u{1F600}]{0,4}", other in "[ -~é\u{FFFD}\u{1F600}]{0,4}", is_open in any::<bool>()) {
            let (low, high) = if compare_ordinal(&one, &other).is_lt() { (one, other) } else { (other, one) };
            let high = Some(high).filter(|_| !is_open);
            prop_assume!(high.as_ref() != Some(&low));
            if let Some(middle) = between(&low, high.as_deref()) {
                prop_assert!(compare_ordinal(&low, &middle).is_lt(), "{:?} {:?}", low, middle);
                prop_assert!(high.is_none_or(|high| compare_ordinal(&middle, &high).is_lt()), "{:?}", middle);
            }
        }
    }
}
