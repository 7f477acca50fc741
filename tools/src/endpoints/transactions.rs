//! Parting entities so that each part can be one transaction.

use client::Entity;
use model::KeyText;
use model::limits::{REQUEST_BODY_BYTES_MAX, TRANSACTION_OPERATIONS_MAX};

/// Most bytes of the entities of a transaction, by the size formula. JSON may make them longer; then the client sends
/// them in parts.
const TRANSACTION_ENTITY_BYTES_MAX: usize = REQUEST_BODY_BYTES_MAX / 2;

/// Entities in their order, parted so that each part can be one transaction; what carries them is told how.
pub(crate) fn transactions<T>(carriers: Vec<T>, entity: impl Fn(&T) -> &Entity) -> Vec<Vec<T>> {
    let mut parts: Vec<Vec<T>> = Vec::new();
    let mut last: Option<(KeyText, usize)> = None;
    for carrier in carriers {
        let Entity { key, properties, .. } = entity(&carrier);
        let bytes = properties.formula_bytes();
        match (&mut last, parts.last_mut()) {
            (Some((partition, total)), Some(part))
                if *partition == key.partition
                    && part.len() < TRANSACTION_OPERATIONS_MAX
                    && *total + bytes <= TRANSACTION_ENTITY_BYTES_MAX =>
            {
                *total += bytes;
                part.push(carrier);
            }
            _ => {
                last = Some((key.partition.clone(), bytes));
                parts.push(vec![carrier]);
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{EdmValue, EntityKey, RecordBuilder};

    fn entity(partition: &str, row: usize, bytes: usize) -> Entity {
        let key =
            EntityKey { partition: KeyText::new(partition).unwrap(), row: KeyText::new(&row.to_string()).unwrap() };
        let mut properties = RecordBuilder::default();
        properties.push("B", EdmValue::Binary(&vec![0; bytes]));
        Entity::new(key, properties)
    }

    #[test]
    fn transactions_have_one_partition_and_keep_the_limits() {
        let sizes = |entities| transactions(entities, |entity| entity).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(vec![]), [0; 0]);
        let mut entities: Vec<_> = (0..250).map(|row| entity("a", row, 1)).collect();
        entities.push(entity("b", 0, 1));
        entities.extend((0..2).map(|row| entity("c", row, 1)));
        assert_eq!(sizes(entities), [100, 100, 50, 1, 2]);
        let large = (0..40).map(|row| entity("a", row, 60_000)).collect();
        assert_eq!(sizes(large), [34, 6], "at most 2 MiB together");
    }
}
