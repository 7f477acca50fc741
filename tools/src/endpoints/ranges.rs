//! Splits a table of an endpoint into key ranges, as the client library does for a service.

use super::endpoint::{Query, Source};
use client::key_ranges::{self, KeyPage, KeyReader};
use client::{BoxFuture, Continuation};
use engine::TableKey;
use model::name::PARTITION_KEY;
use std::sync::Arc;

pub(crate) use client::key_ranges::EntityRange;

pub(crate) async fn split(
    source: Arc<dyn Source>,
    table: TableKey,
    filter: Option<&str>,
    parallel: usize,
) -> anyhow::Result<Vec<EntityRange>> {
    key_ranges::split(&Keys { source, table }, filter, parallel).await
}

#[derive(Clone)]
struct Keys {
    source: Arc<dyn Source>,
    table: TableKey,
}

impl KeyReader for Keys {
    type Error = anyhow::Error;

    fn page(
        &self,
        filter: Option<String>,
        from: Option<Continuation>,
        limit: usize,
    ) -> BoxFuture<'static, anyhow::Result<KeyPage>> {
        let Self { source, table } = self.clone();
        Box::pin(async move {
            let query = Query { filter, select: vec![PARTITION_KEY.to_owned()] };
            let page = source.page(&table, &query, from.as_ref(), limit).await?;
            Ok(KeyPage { first: page.entities.into_iter().next().map(|entity| entity.key), next: page.next })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::{Endpoint, EngineEndpoint, WriteMode};
    use client::PropertyBag;
    use engine::Memory;
    use model::clock::SystemClock;
    use model::edm::compare_ordinal;
    use model::limits::{PAGE_RESULTS_MAX, TABLE_PROBES_MAX};
    use model::{AccountName, EntityKey, KeyText, RecordBuilder, TableName};
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    type Key = (String, String);
    type Matches = fn(&Key) -> bool;

    #[derive(Clone)]
    struct Counted {
        keys: Keys,
        pages: Arc<AtomicUsize>,
    }

    impl KeyReader for Counted {
        type Error = anyhow::Error;

        fn page(
            &self,
            filter: Option<String>,
            from: Option<Continuation>,
            limit: usize,
        ) -> BoxFuture<'static, anyhow::Result<KeyPage>> {
            self.pages.fetch_add(1, Ordering::Relaxed);
            self.keys.page(filter, from, limit)
        }
    }

    async fn table_of(keys: &[Key]) -> Counted {
        let source: Arc<dyn Endpoint> = Arc::new(EngineEndpoint(Arc::new(Memory::new(SystemClock))));
        let table = TableKey { account: AccountName::new("acct").unwrap(), name: TableName::new("cars").unwrap() };
        source.create_table(&table).await.unwrap();
        for (partition, row) in keys {
            let key = EntityKey { partition: KeyText::new(partition).unwrap(), row: KeyText::new(row).unwrap() };
            let entity = PropertyBag::of_properties(key, RecordBuilder::default());
            source.write(&table, vec![entity], WriteMode::Replace).await.unwrap();
        }
        Counted { keys: Keys { source, table }, pages: Arc::default() }
    }

    async fn split_counted(table: &Counted, filter: Option<&str>, parallel: usize) -> Vec<EntityRange> {
        key_ranges::split(table, filter, parallel).await.unwrap()
    }

    /// Returns the number of entities in each range. Also asserts that the ranges together contain all keys in order.
    async fn sizes(table: &Counted, filter: Option<&str>, ranges: &[EntityRange], keys: &[Key]) -> Vec<usize> {
        let (mut found, mut sizes) = (Vec::new(), Vec::new());
        for range in ranges {
            let query = Query { filter: range.filter(filter), select: Vec::new() };
            let (mut next, before) = (None, found.len());
            loop {
                let Keys { source, table } = &table.keys;
                let page = source.page(table, &query, next.as_ref(), PAGE_RESULTS_MAX).await.unwrap();
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
            // As in the commands, the first idle reader reads the next range.
            let mut readers = [0; 8];
            for size in &sizes {
                *readers.iter_mut().min().unwrap() += size;
            }
            let longest = readers.iter().max().unwrap();
            // The partition with half of the entities stays within one range, because nothing reveals its size.
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

    /// With few distinct characters, many keys share a prefix.
    fn few_keys() -> impl Strategy<Value = Vec<Key>> {
        let key = || "[ab \u{1F600}\u{E000}]{0,3}";
        proptest::collection::vec((key(), key()), 1..40)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn ranges_have_every_entity_once(mut keys in few_keys(), parallel in 2_usize..20) {
            // A table of one page would not be split.
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
