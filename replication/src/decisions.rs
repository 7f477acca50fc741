//! What the servers of a log decide about each other: whom a primary serves, whose confirmations count, who is fenced,
//! and how epochs continue.
//!
//! The decisions depend only on their arguments. The model of takeovers makes the same ones.

use engine_embedded::{Epoch, FrameError, Identity, Lineage, Role};
use std::fmt;

/// How a standby introduces itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct StandbyHello {
    /// Identifies the standby.
    pub(crate) standby: Identity,
    /// What the standby has; `None` if it needs a base copy.
    pub(crate) has: Option<StandbyPosition>,
    /// Whether the standby may take over from the one whose confirmations count.
    pub(crate) replaces: bool,
}

/// The end of a standby's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct StandbyPosition {
    /// The identity of the log.
    pub(crate) log: Identity,
    /// The epoch of the standby.
    pub(crate) epoch: Epoch,
    /// The last transaction that is on disk.
    pub(crate) last: u64,
}

/// The reason why a standby is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// This server has a different log.
    OtherLog,
    /// The standby's log contains transactions that this server's log does not.
    Diverged,
    /// The log begins with a later transaction than the standby needs.
    Dropped,
    /// Another standby's confirmations count.
    OtherStandby,
    /// A standby was promoted, so this server is not the primary any more.
    Fenced,
    /// This server is a standby itself.
    NotPrimary,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherLog => "the server is not the primary of this standby: it has a different log",
            Self::Diverged => {
                "the standby has transactions that the primary does not have; begin again with an empty folder"
            }
            Self::Dropped => {
                "the primary no longer keeps the part of its log that the standby needs; begin again with an empty \
                 folder, and give the primary a longer --keep-log"
            }
            Self::OtherStandby => {
                "the primary waits for another standby; to replace that standby, start this one with --replace"
            }
            Self::Fenced => "a standby of this server was promoted, so it is not a primary any more",
            Self::NotPrimary => "the server is a standby itself",
        })
    }
}

impl std::error::Error for Refusal {}

/// The log of a primary at the time when a standby introduces itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogState {
    /// The first transaction that can be sent.
    pub(crate) first: u64,
    /// The last transaction that is on disk.
    pub(crate) synced: u64,
    /// The last transaction that may have been acknowledged; `None` if writes wait for no standby.
    pub(crate) acknowledged: Option<u64>,
}

/// Decides whether a primary serves a standby. If the standby's confirmations count from now on, returns the lineage
/// that the primary must write first.
pub(crate) fn admission(primary: &Lineage, hello: &StandbyHello, log: LogState) -> Result<Option<Lineage>, Refusal> {
    let confirming = match primary.role {
        Role::Fenced { .. } => return Err(Refusal::Fenced),
        Role::Standby { .. } => return Err(Refusal::NotPrimary),
        Role::Primary { confirming } => confirming,
    };
    if let Some(has) = &hello.has {
        if has.log != primary.log {
            return Err(Refusal::OtherLog);
        }
        if has.last > log.synced || !primary.continues(&has.epoch, has.last) {
            return Err(Refusal::Diverged);
        }
        if has.last.saturating_add(1) < log.first {
            return Err(Refusal::Dropped);
        }
    }
    let Some(acknowledged) = log.acknowledged.filter(|_| confirming != Some(hello.standby)) else { return Ok(None) };
    if confirming.is_some() && !hello.replaces {
        return Err(Refusal::OtherStandby);
    }
    // Only a standby with everything that was acknowledged counts.
    let counts = hello.has.is_some_and(|has| has.last >= acknowledged);
    let role = Role::Primary { confirming: Some(hello.standby) };
    Ok(counts.then(|| Lineage { role, ..primary.clone() }))
}

/// Returns whether a standby's confirmations count.
pub(crate) fn counts(primary: &Lineage, standby: Identity) -> bool {
    primary.role == Role::Primary { confirming: Some(standby) }
}

/// The maximum difference between the number of an epoch and of a later one that fences a server. No log has so many
/// promotions; a number that is invented must not use up those that follow.
const NEWER_EPOCHS_MAX: u64 = 1 << 20;

/// Returns the lineage of a primary that hears of another epoch of its log, if that fences it. If `is_told` is true, an
/// operator named the server as a former primary. Otherwise, a standby is in the epoch.
///
/// Two standbys may be promoted in epochs with the same number. Then only the operator knows which server is former.
pub(crate) fn fencing(primary: &Lineage, epoch: &Epoch, is_told: bool) -> Option<Lineage> {
    let is_replaced = epoch.number > primary.epoch()
        || (is_told && epoch.number == primary.epoch() && !primary.epochs.contains(epoch));
    let is_plausible = epoch.number.saturating_sub(primary.epoch()) <= NEWER_EPOCHS_MAX;
    let is_primary = matches!(primary.role, Role::Primary { .. });
    let role = Role::Fenced { by: epoch.number, first: Some(epoch.first) };
    (is_replaced && is_plausible && is_primary).then(|| Lineage { role, ..primary.clone() })
}

/// Returns the lineage of a standby that continues in the epochs of its primary; `None` if it is in them already. The
/// standby's log ends with `synced`: after a failure, nothing that follows may come back.
pub(crate) fn adoption(standby: &Lineage, primary: &Lineage, synced: u64) -> Result<Option<Lineage>, FrameError> {
    if primary.epochs == standby.epochs {
        return Ok(None);
    }
    if primary.log != standby.log || !primary.continues(&standby.newest(), synced) {
        return Err(FrameError::ORDER);
    }
    Ok(Some(Lineage { epochs: primary.epochs.clone(), ..standby.clone() }))
}

/// Returns the lineage of a promoted folder whose next transaction is `next`. `id` identifies the new epoch. The epoch
/// of a former primary follows the one that fenced it, so the same news does not fence it again.
pub(crate) fn promotion(folder: &Lineage, next: u64, id: Identity) -> Lineage {
    let newest = match folder.role {
        Role::Fenced { by, .. } => by.max(folder.epoch()),
        Role::Standby { .. } | Role::Primary { .. } => folder.epoch(),
    };
    let mut promoted = Lineage { role: Role::Primary { confirming: None }, ..folder.clone() };
    promoted.epochs.push(Epoch { number: newest + 1, first: next, id });
    promoted
}
