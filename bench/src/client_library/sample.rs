//! The entity type of the measurements, with the ten properties of the dataset's entities.

use crate::dataset::{Dataset, entity_key};
use client::{DateTime, Entity, Guid, Properties, PropertyBag};

pub(crate) const PARTITION: &str = "p000000";
/// The entity that is read. It is never inserted again.
pub(crate) const ROW: &str = "read";

/// An entity of about 1 KiB.
#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(crate = client, rename_all = "PascalCase")]
pub(crate) struct Sample {
    #[entity(partition_key)]
    pub(crate) partition: String,
    #[entity(row_key)]
    pub(crate) row: String,
    name: String,
    description: String,
    notes: String,
    image: Vec<u8>,
    count: i32,
    total: i64,
    price: f64,
    active: bool,
    created: DateTime,
    owner: Guid,
}

impl Sample {
    pub(crate) fn new(dataset: &Dataset, partition: &str, number: u64) -> anyhow::Result<Self> {
        let properties = Properties::from(dataset.record(number, 0));
        let key = entity_key(partition, &Dataset::row(number));
        Ok(Self::from_bag(PropertyBag { key, properties, timestamp: None, etag: None })?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entity_of_the_type_has_all_that_the_dataset_has() {
        let dataset = Dataset::new(10, 10);
        let bag = Sample::new(&dataset, PARTITION, 7).unwrap().to_bag().unwrap();
        assert_eq!(bag.key, entity_key(PARTITION, "0000000007"));
        assert_eq!(bag.properties, Properties::from(dataset.record(7, 0)));
    }
}
