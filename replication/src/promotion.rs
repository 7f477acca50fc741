//! The promotion of a standby: its folder becomes the folder of a primary, and the former primary is told.

use crate::decisions::promotion;
use crate::protocol::{Ask, Content, Link, NamedEpoch, Token};
use anyhow::{Context, bail};
use engine_embedded::{Awaited, Identity, Lineage, OpenError, PromotableFolder, Role};
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

/// Makes a standby's folder the folder of a primary, in a new epoch. The standby must have been stopped. If the attempt
/// is interrupted, the folder is still a standby, and the promotion can be repeated.
///
/// If the primary waited, but not for this standby, or could not serve it any more, the folder is refused unless
/// `accepts_loss` is true. A former primary is promoted only then too, which ends its fence.
pub fn promote_folder(path: &Path, accepts_loss: bool) -> Result<Promotion, OpenError> {
    let opened = PromotableFolder::open(path)?;
    let (folder, last_stamp, next) = (path.to_owned(), opened.last_stamp(), opened.next());
    match opened.lineage().role {
        _ if accepts_loss => {}
        Role::Standby { awaited: Awaited::Other, .. } => return Err(OpenError::NotAwaited { folder, last_stamp }),
        Role::Standby { awaited: Awaited::CutOff, .. } => return Err(OpenError::CutOff { folder, last_stamp }),
        Role::Fenced { by, .. } => return Err(OpenError::Fenced { folder, by }),
        Role::Standby { .. } | Role::Primary { .. } => {}
    }
    let promoted = promotion(opened.lineage(), next, Identity::random());
    opened.promote(&promoted)?;
    Ok(Promotion { lineage: promoted, last: next.saturating_sub(1), last_stamp })
}

/// The server that was the primary before a promotion.
pub struct FormerPrimary(Link);

impl FormerPrimary {
    /// `address` is the address of the server without an account.
    pub fn new(address: &str, token: Token) -> anyhow::Result<Self> {
        Ok(Self(Link::new(address, token)?))
    }

    /// Tells the server which epoch began, so that it refuses writes.
    pub fn tell(&self, promoted: &Lineage) -> anyhow::Result<()> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the async runtime")?;
        let ask = Ask::Fence { log: promoted.log.to_string(), epoch: NamedEpoch::from(&promoted.newest()) };
        let (answer, _) = runtime.block_on(self.0.ask(&ask))?;
        match answer.content {
            Content::Fenced { is_fenced: true } => Ok(()),
            Content::Refused { reason, .. } => bail!("it refuses: {reason}"),
            _ => bail!("it is not fenced; it may be the promoted server itself"),
        }
    }
}
