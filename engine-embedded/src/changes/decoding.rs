//! Decodes records of the log into changes.

use super::is_shown;
use crate::disk::layout::{self, CatalogEntry, DeletedTable, EngineEntry, NEXT_TABLE_ID, TableId};
use crate::disk::payload::{Operation, Origin, take_operation};
use crate::log::format;
use engine::changes::{Change, ChangeEffect, ChangeSelection, ChangedTransaction};
use engine::{Fault, TableKey};
use model::{DateTime, Record, record};
use std::sync::Arc;

pub(super) struct Decoder<'s, F> {
    pub(super) selection: &'s ChangeSelection,
    /// Entities of tables with lower IDs are left out.
    pub(super) lowest: Option<TableId>,
    /// Returns the name of a table.
    pub(super) table: F,
}

impl<F: Fn(TableId) -> Result<Option<Arc<TableKey>>, Fault>> Decoder<'_, F> {
    /// Returns the selected changes of a transaction, and their size in bytes. Returns `None` if there are none.
    pub(super) fn transaction(
        &self,
        record: &format::Record<'_>,
    ) -> Result<Option<(ChangedTransaction, usize)>, Fault> {
        let position = record.header.sequence.get();
        let damaged = || Fault::Damaged(format!("transaction {position} in the log cannot be read"));
        let origin = Origin::try_from(record.header.origin).map_err(|()| damaged())?;
        if !is_shown(origin) {
            return Ok(None);
        }
        let time = i64::try_from(record.header.stamp).ok().and_then(DateTime::from_ticks).ok_or_else(damaged)?;
        let changes = match origin {
            Origin::Catalog => self.catalog_change(record.payload).ok_or_else(damaged)?,
            _ => self.entity_changes(record.payload, time, origin == Origin::Expiry, damaged)?,
        };
        let bytes = changes.iter().map(|change| change.effect.bytes()).sum();
        Ok((!changes.is_empty()).then_some((ChangedTransaction { position, time, changes }, bytes)))
    }

    fn entity_changes(
        &self,
        mut payload: &[u8],
        time: DateTime,
        is_expired: bool,
        damaged: impl Fn() -> Fault,
    ) -> Result<Vec<Change>, Fault> {
        let mut changes = Vec::new();
        // The first operation is of an entity. The others with the same ID are, too; the rest are entries of indexes.
        let mut transaction_table = None;
        while !payload.is_empty() {
            let operation = take_operation(&mut payload).ok_or_else(&damaged)?;
            let (Operation::Delete { key } | Operation::Put { key, .. } | Operation::PutRecord { key, .. }) = operation;
            let (id, key) = key.split_at_checked(size_of::<TableId>()).ok_or_else(&damaged)?;
            let id = TableId::from_bytes(id).ok_or_else(&damaged)?;
            let (table_id, table) = if let Some(known) = &transaction_table {
                known
            } else {
                let table = (self.table)(id)?.ok_or_else(&damaged)?;
                if !self.selection.contains(&table) || Some(id) < self.lowest {
                    return Ok(changes);
                }
                transaction_table.insert((id, table))
            };
            if id != *table_id {
                continue;
            }
            let (table, key) = (Arc::clone(table), key.to_vec());
            let effect = match operation {
                Operation::Delete { .. } => ChangeEffect::Delete { table, key, is_expired },
                Operation::PutRecord { record, .. } => {
                    let mut bytes = record.to_vec();
                    record::stamp(&mut bytes, time).map_err(|_| damaged())?;
                    ChangeEffect::Put { table, key, record: Record::from_bytes(bytes) }
                }
                Operation::Put { .. } => return Err(damaged()),
            };
            changes.push(Change { index: u32::try_from(changes.len()).unwrap_or(u32::MAX), effect });
        }
        Ok(changes)
    }

    /// A catalog transaction changes one table, or the service properties of one account.
    fn catalog_change(&self, mut payload: &[u8]) -> Option<Vec<Change>> {
        let (mut effect, mut next_id, mut created) = (None, None, None);
        while !payload.is_empty() {
            let Operation::Put { key, value } = take_operation(&mut payload)? else { continue };
            if key == NEXT_TABLE_ID {
                next_id = Some(TableId::from_bytes(value)?);
                continue;
            }
            effect = Some(match layout::decode_engine_entry(key, value) {
                Ok(EngineEntry::Table(CatalogEntry { table, id, created: at, policies, settings, .. })) => {
                    created = Some((id, at));
                    ChangeEffect::SetTable { table: Arc::new(table), policies, settings }
                }
                Ok(EngineEntry::Deleted(DeletedTable { table, .. })) => {
                    ChangeEffect::DeleteTable { table: Arc::new(table) }
                }
                Ok(EngineEntry::ServiceProperties(account, properties)) => {
                    ChangeEffect::SetProperties { account, properties }
                }
                Ok(EngineEntry::NextTableId(_) | EngineEntry::LastStamp(_) | EngineEntry::Purge(_)) => continue,
                Err(_) => return None,
            });
        }
        // The ID of a table is issued only when it is created, and the IDs of its indexes are higher.
        let effect = match (effect?, created) {
            (ChangeEffect::SetTable { table, .. }, Some((id, created))) if next_id == Some(id.next()) => {
                ChangeEffect::CreateTable { table, created }
            }
            (effect, _) => effect,
        };
        let is_selected = self.selection.selects(&effect);
        Some(is_selected.then_some(Change { index: 0, effect }).into_iter().collect())
    }
}
