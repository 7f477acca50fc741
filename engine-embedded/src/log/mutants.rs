//! Mistakes that tests plant in the log, to prove that the simulation finds them. No other build contains any.

/// A mistake, described by what the log does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Groups claim that no transaction before them was synced.
    ForgetSyncedThrough,
    /// Groups claim that all transactions before them were synced.
    ClaimEverythingSynced,
    /// A failed sync is only reported, and the next one is trusted.
    TrustSyncAfterFailure,
    /// After the next segment could not be begun, writes to the previous one continue.
    ContinueAfterFailedRotation,
    /// The header of the next segment names everything written as the end, although a sync of it failed.
    NameUnsyncedEnd,
    /// After a failure, acknowledged groups that were not synced are not written again.
    DropUnsyncedGroups,
    /// The next segment begins although the previous one is not synced.
    RotateWithoutSync,
    /// A segment becomes live before its header is synced.
    RenameBeforeSync,
    /// Released segments keep their live names until they are reused.
    ReuseBeforeRename,
    /// Several segments are released before the folder is synced.
    ReleaseWithoutSync,
    /// A segment is released whose last transaction is not persisted.
    ReleaseTooMuch,
    /// Recovery appends where the log ends, and does not begin a segment.
    AppendAfterCut,
    /// Recovery relies on groups that may only be in the page cache.
    TrustPageCache,
    /// Recovery relies on names that may not be on disk.
    TrustNames,
    /// Recovery does not compare the hashes of payloads.
    IgnorePayloads,
    /// Recovery does not search for later groups.
    IgnoreEvidence,
    /// Recovery deletes files before it has read the segments.
    ChangeBeforeJudging,
    /// A clean shutdown only syncs.
    CloseWithoutSegment,
    /// A segment is released before its archived form is synced.
    ArchiveWithoutSync,
}

#[cfg(not(test))]
pub(crate) const fn planted(_: Mutant) -> bool {
    false
}

#[cfg(test)]
pub(crate) use planting::{plant, planted};

#[cfg(test)]
mod planting {
    use super::Mutant;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    pub(crate) fn planted(mutant: Mutant) -> bool {
        PLANTED.get() == Some(mutant)
    }

    /// Plants a mistake in the log of this thread, or removes it.
    pub(crate) fn plant(mutant: Option<Mutant>) {
        PLANTED.set(mutant);
    }
}
