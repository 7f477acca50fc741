//! Applies the changes that the source made during a copy, up to the end of its change feed.
//!
//! Invariants:
//!
//! 1. The position of a table is recorded before its first page is read, so each change that a page lacks comes after
//!    it.
//! 2. A position is recorded only when the target has all changes up to it. Changes are applied again after an
//!    interruption, which ends with the same entities.

use super::plan::TableCopy;
use super::state::CopyProgress;
use super::transfer::Transfer;
use crate::runtime::next_result;
use crate::state_file::Save;
use anyhow::{Context, bail, ensure};
use client::{Change, ChangeOperation, ChangeStream, Changes, Error, PropertyBag};
use model::EntityKey;
use model::limits::{PAGE_BODY_BYTES_MAX, PAGE_RESULTS_MAX};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;

/// The last change of each entity, by its encoded key: the entity, or only the key if it was deleted.
type LastChanges = BTreeMap<Vec<u8>, Result<PropertyBag, EntityKey>>;

impl Transfer {
    fn changes(&self, table: &TableCopy) -> anyhow::Result<Changes<PropertyBag>> {
        self.from.changes(&table.from).context("--follow needs a running server with --keep-log as --from")
    }

    /// Records the end of the table's feed if the table has not been begun.
    pub(super) async fn begin_to_follow(&self, table: &TableCopy, progress: &CopyProgress) -> anyhow::Result<()> {
        let changes = self.changes(table)?;
        if progress.changes().is_some() {
            return Ok(());
        }
        ensure!(
            !progress.has_begun(),
            "the state file belongs to a copy without --follow, which may have missed changes; delete the state file and \
             the tables of the target to start over"
        );
        let end = changes.end().await.context(
            "--follow reads the change feed of --from: start that server with --keep-log, and use an account key or a \
             signature that can read the feed",
        )?;
        tokio::task::block_in_place(|| self.state.advance_changes(table, end, Save::Now))
    }

    pub(super) async fn apply_changes(self: &Arc<Self>, table: &TableCopy) -> anyhow::Result<()> {
        let from = self.state.table(&table.name()).and_then(|progress| progress.changes());
        let from = from.context("the position in the state file is not valid")?;
        let mut stream = self.changes(table)?.from(from).until_end().stream();
        loop {
            let last = next_changes(&mut stream).await?;
            let is_end = last.is_empty();
            self.apply(table, last).await?;
            if let Some(position) = stream.position() {
                tokio::task::block_in_place(|| self.state.advance_changes(table, position, Save::WhenDue))?;
            }
            if is_end {
                return Ok(());
            }
        }
    }

    async fn apply(self: &Arc<Self>, table: &TableCopy, last: LastChanges) -> anyhow::Result<()> {
        let (mut entities, mut deletions) = (Vec::new(), JoinSet::new());
        for change in last.into_values() {
            let key = match change {
                Ok(entity) => {
                    entities.push(entity);
                    continue;
                }
                Err(key) => key,
            };
            let permit = Arc::clone(&self.transactions).acquire_owned().await?;
            let (to, target) = (Arc::clone(&self.to), table.to.clone());
            deletions.spawn(async move {
                to.delete(&target, key).await?;
                drop(permit);
                anyhow::Ok(())
            });
        }
        while next_result(&mut deletions).await?.is_some() {}
        self.write(table, entities).await
    }
}

/// Reads up to a page of changes. Returns none at the end of the feed.
async fn next_changes(stream: &mut ChangeStream<Change<PropertyBag>>) -> anyhow::Result<LastChanges> {
    let (mut last, mut bytes) = (LastChanges::new(), 0);
    while last.len() < PAGE_RESULTS_MAX && bytes < PAGE_BODY_BYTES_MAX {
        let Some(change) = stream.next().await else { break };
        let change = change.map_err(expired)?;
        match (change.operation, change.key, change.entity) {
            (ChangeOperation::Put, _, Some(entity)) => {
                let entity = entity.into_entity();
                bytes += entity.properties.as_record_builder().formula_bytes();
                last.insert(entity.key.encode(), Ok(entity));
            }
            (ChangeOperation::Delete | ChangeOperation::Expire, Some(key), _) => {
                last.insert(key.encode(), Err(key));
            }
            (ChangeOperation::CreateTable, ..) => {}
            _ => bail!(
                "the source deleted the table during the copy; delete it in the target, and run the command again"
            ),
        }
    }
    Ok(last)
}

fn expired(error: Error) -> anyhow::Error {
    let is_expired = matches!(error, Error::PositionExpired { .. });
    let error = anyhow::Error::from(error);
    if is_expired {
        return error.context(
            "the source no longer has all changes since the last run; delete the state file and the tables of the target \
             to start over, and give the source a longer --keep-log",
        );
    }
    error
}
