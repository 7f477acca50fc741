//! The rows of the change feed: each change as an entity.
//!
//! A row is built in buffers that are reused for the next row, and is read in place, as a stored entity is.

use super::ChangeScope;
use engine::{Change, ChangeEffect, ChangedTransaction};
use model::changes_table::ENTITY_PREFIX;
use model::entity::EntityView;
use model::key::{KEY_SEPARATOR, KeyView};
use model::record::DamagedRecord;
use model::{ChangePosition, ComputedRecord, DateTime, EdmValue};
use std::borrow::Cow;

/// Builds rows, one at a time.
#[derive(Debug, Default)]
pub(crate) struct ChangeRows {
    /// The encoded key of the current row.
    key: Vec<u8>,
    record: ComputedRecord,
}

impl ChangeRows {
    /// Returns the row of a change with its encoded key, or `None` if the reader does not see the change.
    pub(crate) fn row(
        &mut self,
        transaction: &ChangedTransaction,
        change: &Change,
        scope: &ChangeScope,
    ) -> Result<Option<(&[u8], EntityView<'_>)>, DamagedRecord> {
        if !scope.contains(&change.effect) {
            return Ok(None);
        }
        let ChangedTransaction { position, time, .. } = *transaction;
        let separator = self.write_key(ChangePosition { transaction: position, index: change.index }, time);
        let record = &mut self.record;
        record.clear();
        let (operation, table) = match &change.effect {
            ChangeEffect::Put { table, .. } => ("Put", table),
            ChangeEffect::Delete { table, is_expired: false, .. } => ("Delete", table),
            ChangeEffect::Delete { table, is_expired: true, .. } => ("Expire", table),
            ChangeEffect::CreateTable { table, .. } => ("CreateTable", table),
            ChangeEffect::DeleteTable { table } => ("DeleteTable", table),
            ChangeEffect::SetTable { .. } | ChangeEffect::SetProperties { .. } => return Ok(None),
        };
        record.push("Operation", EdmValue::String(operation));
        record.push("Table", EdmValue::String(table.name.as_str()));
        record.push("Transaction", EdmValue::Int64(i64::try_from(position).unwrap_or(i64::MAX)));
        record.push("Index", EdmValue::Int32(i32::try_from(change.index).unwrap_or(i32::MAX)));
        if let ChangeEffect::Put { key, .. } | ChangeEffect::Delete { key, .. } = &change.effect {
            let key = KeyView::decode(key).ok_or(DamagedRecord)?;
            record.push("Entity_PartitionKey", EdmValue::String(&key.partition));
            record.push("Entity_RowKey", EdmValue::String(&key.row));
        }
        if let ChangeEffect::Put { record: stored, .. } = &change.effect {
            let stored = stored.view()?;
            record.push("Entity_Timestamp", EdmValue::DateTime(stored.timestamp()));
            for property in stored.properties() {
                record.push_with_prefix(ENTITY_PREFIX, &property?);
            }
        }
        let text = |bytes| std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| DamagedRecord);
        let (partition, row) = self.key.split_at_checked(separator).ok_or(DamagedRecord)?;
        let key = KeyView { partition: text(partition)?, row: text(row.get(1..).unwrap_or_default())? };
        Ok(Some((&self.key, EntityView { key, record: self.record.view(time) })))
    }

    /// Returns the place of the separator.
    fn write_key(&mut self, position: ChangePosition, time: DateTime) -> usize {
        self.key.clear();
        self.key.extend_from_slice(&time.text().minute());
        let separator = self.key.len();
        self.key.push(KEY_SEPARATOR);
        self.key.extend_from_slice(&position.text());
        separator
    }
}
