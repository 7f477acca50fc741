use client::PropertyBag;
use model::KeyText;
use model::limits::{REQUEST_BODY_BYTES_MAX, TRANSACTION_OPERATIONS_MAX};

/// The maximum size of the entities in a transaction, by the size formula. If their JSON exceeds the maximum size of a
/// request, the transaction is split.
const TRANSACTION_ENTITY_BYTES_MAX: usize = REQUEST_BODY_BYTES_MAX / 2;

/// Preserves the order of the items. The entities of each group can be written in one transaction.
pub(crate) fn group_into_transactions<T>(items: Vec<T>, entity: impl Fn(&T) -> &PropertyBag) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    let mut last: Option<(KeyText, usize)> = None;
    for item in items {
        let PropertyBag { key, properties, .. } = entity(&item);
        let bytes = properties.as_record_builder().formula_bytes();
        match (&mut last, groups.last_mut()) {
            (Some((partition, total)), Some(group))
                if *partition == key.partition
                    && group.len() < TRANSACTION_OPERATIONS_MAX
                    && *total + bytes <= TRANSACTION_ENTITY_BYTES_MAX =>
            {
                *total += bytes;
                group.push(item);
            }
            _ => {
                last = Some((key.partition.clone(), bytes));
                groups.push(vec![item]);
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{EdmValue, EntityKey, RecordBuilder};

    fn entity(partition: &str, row: usize, bytes: usize) -> PropertyBag {
        let key =
            EntityKey { partition: KeyText::new(partition).unwrap(), row: KeyText::new(&row.to_string()).unwrap() };
        let mut properties = RecordBuilder::default();
        properties.push("B", EdmValue::Binary(&vec![0; bytes]));
        PropertyBag::of_properties(key, properties)
    }

    #[test]
    fn transactions_have_one_partition_and_keep_the_limits() {
        let sizes =
            |entities| group_into_transactions(entities, |entity| entity).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(vec![]), [0; 0]);
        let mut entities: Vec<_> = (0..250).map(|row| entity("a", row, 1)).collect();
        entities.push(entity("b", 0, 1));
        entities.extend((0..2).map(|row| entity("c", row, 1)));
        assert_eq!(sizes(entities), [100, 100, 50, 1, 2]);
        let large = (0..40).map(|row| entity("a", row, 60_000)).collect();
        assert_eq!(sizes(large), [34, 6], "at most 2 MiB in total");
    }
}
