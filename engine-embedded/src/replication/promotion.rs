//! The promotion of a standby: its folder becomes the folder of a primary.

use super::decisions;
use crate::disk::folder::{self, Folder};
use crate::disk::lineage::{Awaited, Identity, Lineage, Role};
use crate::disk::open_error::OpenError;
use crate::disk::opening;
use crate::disk::storage::{OpenSettings, SMALL_CACHE_BYTES};
use crate::log::options::Durability;
use model::DateTime;
use std::path::Path;

/// The result of a promotion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promotion {
    /// The lineage after the promotion.
    pub lineage: Lineage,
    /// The last transaction in the log.
    pub last: u64,
    /// The Timestamp of the last write.
    pub last_stamp: DateTime,
}

/// Returns the lineage of a folder that another process may have open, if the folder takes part in replication.
pub fn lineage_of(path: &Path) -> Result<Option<Lineage>, OpenError> {
    folder::lineage(path)
}

/// Makes a standby's folder the folder of a primary, in a new epoch. The standby must have been stopped. If the attempt
/// is interrupted, the folder is still a standby, and the promotion can be repeated. If the primary waited, but not for
/// this standby, or could not serve it any more, the folder is refused.
pub fn promote_folder(path: &Path) -> Result<Promotion, OpenError> {
    promote(path, false)
}

/// The same, but also promotes a standby that may lack acknowledged writes, and a former primary, which ends its fence.
pub fn promote_folder_despite_loss(path: &Path) -> Result<Promotion, OpenError> {
    promote(path, true)
}

fn promote(path: &Path, accepts_loss: bool) -> Result<Promotion, OpenError> {
    let (mut folder, lineage) = Folder::acquire_to_promote(path)?;
    let storage =
        opening::open(&mut folder, OpenSettings { cache_bytes: SMALL_CACHE_BYTES, durability: Durability::Sync })?;
    let storage_error = |error| OpenError::storage(path, error);
    let last_stamp = storage.recover().map_err(storage_error)?.last_stamp;
    match lineage.role {
        _ if accepts_loss => {}
        Role::Standby { awaited: Awaited::Other, .. } => {
            return Err(OpenError::NotAwaited { folder: path.to_owned(), last_stamp });
        }
        Role::Standby { awaited: Awaited::CutOff, .. } => {
            return Err(OpenError::CutOff { folder: path.to_owned(), last_stamp });
        }
        Role::Fenced { by, .. } => return Err(OpenError::Fenced { folder: path.to_owned(), by }),
        Role::Standby { .. } | Role::Primary { .. } => {}
    }
    let next = storage.next_sequence();
    let promoted = decisions::promotion(&lineage, next, Identity::random());
    storage.begin_epoch(promoted.epoch()).map_err(storage_error)?;
    storage.close().map_err(storage_error)?;
    drop(storage);
    folder.write_lineage(&promoted)?;
    Ok(Promotion { lineage: promoted, last: next.previous().get(), last_stamp })
}
