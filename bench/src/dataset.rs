//! The entities of all measurements, which are the same for every engine and server. Each entity has 1 KiB and ten
//! properties of mixed types, or 100 bytes and two of these properties.
//!
//! Invariants:
//!
//! 1. An entity is a function of its number (and of a salt, if it is overwritten), so entities need not be stored.
//! 2. The property `Count` of an entity contains the last two digits of its number, so 1% of the entities have the same
//!    value.
//! 3. The JSON text and the record of an entity have the same content.

use clap::ValueEnum;
use fastrand::Rng;
use model::{DateTime, EdmValue, EntityKey, Guid, KeyText, RecordBuilder};
use std::ops::Range;
use wire::json::write_entity_request;

pub(crate) const PER_PARTITION_DEFAULT: u64 = 1000;
/// A filter that matches 1% of the entities.
pub(crate) const ONE_PERCENT_FILTER: &str = "Count eq 7";

/// The size of the text from which property values are cut, in bytes. The text is much larger than a block of any
/// storage library, so compression sees ordinary text instead of repeated values.
const POOL_BYTES: usize = 1 << 20;
/// The number of bytes of the pool that one entity uses.
const CUT_BYTES: usize = 1024;
const NAME: Range<usize> = 0..32;
const DESCRIPTION: Range<usize> = 32..448;
const NOTES: Range<usize> = 448..516;
const IMAGE: Range<usize> = 548..620;
/// The number of entities from which the total length is estimated.
const SAMPLE_ENTITIES: u64 = 1000;
/// The approximate size of a record with ten properties.
const RECORD_BYTES: usize = 900;

/// The size of an entity's JSON, with its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EntitySize {
    /// Two properties, a string and a number
    #[value(name = "100")]
    Small,
    /// Ten properties of all types
    #[value(name = "1024")]
    Large,
}

impl EntitySize {
    fn has(self, property: &str) -> bool {
        match self {
            Self::Small => matches!(property, "Name" | "Count"),
            Self::Large => true,
        }
    }
}

/// Each usage has separate tables, so that no measurement changes the data of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    Read,
    /// The number of entities stays the same.
    Overwritten,
    Growing,
}

#[derive(Debug)]
pub(crate) struct Dataset {
    /// The number of entities, which are numbered from zero.
    pub(crate) entities: u64,
    /// The number of consecutive entities that share a partition.
    pub(crate) per_partition: u64,
    size: EntitySize,
    pool: Vec<u8>,
}

impl Dataset {
    pub(crate) fn new(entities: u64, per_partition: u64) -> Self {
        Self { entities, per_partition: per_partition.max(1), size: EntitySize::Large, pool: words(POOL_BYTES) }
    }

    pub(crate) fn of_size(self, size: EntitySize) -> Self {
        Self { size, ..self }
    }

    pub(crate) fn table(&self, usage: Usage) -> String {
        let usage = match usage {
            Usage::Read => "",
            Usage::Overwritten => "Overwritten",
            Usage::Growing => "Growing",
        };
        let size = if self.size == EntitySize::Small { "Small" } else { "" };
        format!("Bench{usage}{size}{}P{}", self.entities, self.per_partition)
    }

    pub(crate) fn partition(&self, number: u64) -> String {
        format!("p{:06}", number / self.per_partition)
    }

    pub(crate) fn row(number: u64) -> String {
        format!("{number:010}")
    }

    pub(crate) fn key(&self, number: u64) -> EntityKey {
        entity_key(&self.partition(number), &Self::row(number))
    }

    pub(crate) fn one_percent(&self) -> u64 {
        (self.entities + 92) / 100
    }

    /// Replaces the contents of the buffer by the JSON of an entity with these keys and the properties of `number`.
    pub(crate) fn write_json(&self, out: &mut Vec<u8>, key: &EntityKey, number: u64, salt: u64) {
        out.clear();
        self.append_json(out, key, number, salt);
    }

    /// Appends the JSON of an entity with these keys and the properties of `number`.
    pub(crate) fn append_json(&self, out: &mut Vec<u8>, key: &EntityKey, number: u64, salt: u64) {
        write_entity_request(out, key, &self.record(number, salt)).expect("the record was just built");
    }

    /// Returns a record that is not stamped yet.
    pub(crate) fn record(&self, number: u64, salt: u64) -> RecordBuilder {
        let mut builder = RecordBuilder::with_capacity(RECORD_BYTES);
        for (name, value) in self.properties(number, salt) {
            builder.push(name, value);
        }
        builder
    }

    /// Estimates the size of all keys and records in bytes from a sample, because their lengths hardly differ.
    pub(crate) fn stored_bytes(&self) -> u64 {
        let sample = self.entities.min(SAMPLE_ENTITIES);
        let bytes: usize = (0..sample)
            .map(|number| {
                self.key(number).encode().len() + self.record(number, 0).finish(DateTime::MIN).as_bytes().len()
            })
            .sum();
        bytes as u64 * self.entities / sample.max(1)
    }

    fn properties(&self, number: u64, salt: u64) -> impl Iterator<Item = (&'static str, EdmValue<'_>)> {
        let mut random = Rng::with_seed(number.rotate_left(32) ^ salt);
        let start = random.usize(..POOL_BYTES - CUT_BYTES);
        let bytes = |range: Range<usize>| self.pool.get(start + range.start..start + range.end).unwrap_or_default();
        let text = |range| std::str::from_utf8(bytes(range)).unwrap_or_default();
        let guid = random.u128(..).to_le_bytes();
        // A time in the 21st century with microsecond precision.
        let instant = 631_139_040_000_000_000 + random.i64(0..3_000_000_000_000_000) * 10;
        let (total, price) = (random.i64(0..1 << 50), f64::from(random.u32(..10_000_000)) / 100.0);
        let properties = [
            ("Name", EdmValue::String(text(NAME))),
            ("Description", EdmValue::String(text(DESCRIPTION))),
            ("Notes", EdmValue::String(text(NOTES))),
            ("Image", EdmValue::Binary(bytes(IMAGE))),
            ("Count", EdmValue::Int32(i32::try_from(number % 100).unwrap_or_default())),
            ("Total", EdmValue::Int64(total)),
            ("Price", EdmValue::Double(price)),
            ("Active", EdmValue::Boolean(random.bool())),
            ("Created", EdmValue::DateTime(DateTime::from_ticks(instant).unwrap_or(DateTime::MIN))),
            ("Owner", EdmValue::Guid(Guid::from_bytes(guid))),
        ];
        properties.into_iter().filter(|(name, _)| self.size.has(name))
    }
}

/// Both keys must be valid.
pub(crate) fn entity_key(partition: &str, row: &str) -> EntityKey {
    let text = |text| KeyText::new(text).expect("generated keys consist of a few letters and digits");
    EntityKey { partition: text(partition), row: text(row) }
}

/// The vocabulary is so large that random words compress like ordinary text.
fn words(bytes: usize) -> Vec<u8> {
    let mut random = Rng::with_seed(7);
    let vocabulary: Vec<Vec<u8>> =
        (0..4000).map(|_| (0..random.usize(3..11)).map(|_| random.u8(b'a'..=b'z')).collect()).collect();
    let mut text = Vec::with_capacity(bytes + 16);
    while text.len() < bytes {
        text.extend_from_slice(random.choice(&vocabulary).map(Vec::as_slice).unwrap_or_default());
        text.push(b' ');
    }
    text.truncate(bytes);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::EntityLimits;
    use wire::entity_body::KeyLocation;
    use wire::filter::Grammar;
    use wire::json::read_entity;

    #[test]
    fn the_body_and_the_record_are_equal_and_have_the_size() {
        for (size, properties, bytes) in [(EntitySize::Large, 10, 1015..=1035), (EntitySize::Small, 2, 100..=101)] {
            let dataset = Dataset::new(1000, 100).of_size(size);
            for number in [0, 7, 123, 999] {
                let mut body = Vec::new();
                dataset.append_json(&mut body, &dataset.key(number), number, 5);
                let read = read_entity(&body, KeyLocation::Body, &EntityLimits::STORAGE).unwrap();
                assert_eq!(read.properties, dataset.record(number, 5), "{}", String::from_utf8_lossy(&body));
                assert_eq!(read.properties.len(), properties);
                assert!(bytes.contains(&body.len()), "{}", body.len());
            }
        }
    }

    #[test]
    fn entities_differ_by_number_and_by_salt() {
        let dataset = Dataset::new(1000, 100);
        assert_eq!(dataset.record(1, 0), Dataset::new(5, 5).record(1, 0));
        assert_ne!(dataset.record(1, 0), dataset.record(2, 0));
        assert_ne!(dataset.record(1, 0), dataset.record(1, 1));
    }

    #[test]
    fn the_filter_selects_one_percent() {
        let filter = wire::filter::parse(ONE_PERCENT_FILTER, Grammar::Service).unwrap();
        for entities in [7, 8, 100, 1000, 1008] {
            let dataset = Dataset::new(entities, 100);
            let selected = (0..entities).filter(|number| {
                let record = dataset.record(*number, 3).finish(DateTime::MIN);
                let key = dataset.key(*number);
                filter.matches(&model::EntityView::from_parts(&key, &record).unwrap()).unwrap()
            });
            assert_eq!(selected.count() as u64, dataset.one_percent(), "of {entities}");
        }
    }

    #[test]
    fn the_bytes_of_all_entities_are_their_keys_and_records() {
        let dataset = Dataset::new(300, 100);
        let bytes = |number| {
            dataset.key(number).encode().len() + dataset.record(number, 0).finish(DateTime::MIN).as_bytes().len()
        };
        assert_eq!(dataset.stored_bytes(), (0..300).map(bytes).sum::<usize>() as u64);
        let larger = Dataset::new(30_000, 100).stored_bytes();
        assert!((90..=110).contains(&(larger / dataset.stored_bytes())), "{larger}");
    }
}
