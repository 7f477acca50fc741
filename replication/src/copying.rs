//! How a standby receives a base copy, with which it begins.
//!
//! A lost response, a restart of the standby and a restart of the primary only delay the copy. Chunks are requested by
//! the last key that the standby has, so a request can be repeated, also by the next process. If the primary does not
//! have the copy any more, the standby begins again.

use crate::follower::FollowerSettings;
use crate::frames::take_entry;
use crate::protocol::{Ask, Content, Link, is_transient};
use crate::waiting::{Retry, blocking};
use anyhow::{Context, bail};
use engine_embedded::{AppendError, FrameError, Identity, OpenError, Role, StandbyFolder, lineage_of};
use std::path::Path;
use tracing::{info, warn};

/// Fills the folder from a base copy unless it is a standby already. The copy pauses while the disk has less free
/// space.
pub async fn prepare_folder(path: &Path, settings: &FollowerSettings, min_free_bytes: u64) -> anyhow::Result<()> {
    match lineage_of(path)?.map(|lineage| lineage.role) {
        Some(Role::Standby { .. }) => return Ok(()),
        Some(Role::Primary { .. }) => return Err(OpenError::NotStandby { folder: path.to_owned() }.into()),
        Some(Role::Fenced { by, .. }) => return Err(OpenError::Fenced { folder: path.to_owned(), by }.into()),
        None => {}
    }
    let primary = &settings.primary;
    let link = Link::new(primary, settings.token.clone())?;
    let folder = path.to_owned();
    let mut interrupted = blocking(move || Ok(StandbyFolder::resume(&folder)?)).await?;
    if let Some(copy) = &interrupted {
        info!(sequence = copy.sequence(), "continuing the base copy from {primary}");
    }
    loop {
        let copy = match interrupted.take() {
            Some(copy) => copy,
            None => begin(&link, path, settings).await.with_context(|| format!("asking {primary} for a base copy"))?,
        };
        match receive(&link, copy, (primary, min_free_bytes)).await.with_context(|| store_failure(path))? {
            Received::Whole(copy) => {
                blocking(move || Ok(copy.finish()?)).await.with_context(|| store_failure(path))?;
                return Ok(());
            }
            Received::Gone(reason) => {
                warn!(reason, "the base copy from {primary} cannot be completed; the standby begins again");
            }
        }
    }
}

fn store_failure(path: &Path) -> String {
    format!(
        "the base copy cannot be stored in {}; remove the cause and start the standby again, which continues the copy",
        path.display()
    )
}

/// Begins a copy. Waits while the primary cannot be reached, or sends too many copies. A refusal is an error, and so is
/// a failure that is the same until someone changes a setting.
async fn begin(link: &Link, path: &Path, settings: &FollowerSettings) -> anyhow::Result<StandbyFolder> {
    let primary = &settings.primary;
    let standby = Identity::random();
    let ask = Ask::begin(standby, settings.replaces);
    let mut retry = Retry::new();
    loop {
        match link.ask(&ask).await {
            Err(error) if is_transient(&error) => {
                retry.failed(&format!("cannot begin a base copy from {primary}"), format!("{error:#}")).await;
            }
            Err(error) => return Err(error),
            Ok((answer, _)) => match &answer.content {
                Content::Copy { sequence, waits } => {
                    let (sequence, awaited) = (*sequence, (*waits).into());
                    info!(sequence, "receiving a base copy from {primary}");
                    let (folder, lineage) = (path.to_owned(), answer.lineage()?);
                    let begun = move || Ok(StandbyFolder::begin(&folder, (standby, awaited), &lineage, sequence)?);
                    return blocking(begun).await;
                }
                Content::TooManyCopies => {
                    let reason = "the primary sends as many copies as it can; one must end first".to_owned();
                    retry.failed(&format!("cannot begin a base copy from {primary} yet"), reason).await;
                }
                Content::Refused { reason, .. } => bail!("the primary refuses: {reason}"),
                _ => bail!("the primary sent no base copy"),
            },
        }
    }
}

enum Received {
    Whole(Box<StandbyFolder>),
    /// The primary does not have the copy any more, for this reason.
    Gone(String),
}

/// Receives the chunks of a copy. An error means that one cannot be stored.
async fn receive(
    link: &Link,
    mut copy: StandbyFolder,
    (primary, min_free_bytes): (&str, u64),
) -> anyhow::Result<Received> {
    let what = format!("cannot continue the base copy from {primary}");
    let mut retry = Retry::new();
    let mut bytes = 0;
    loop {
        if copy.free_bytes().is_some_and(|free| free < min_free_bytes) {
            let reason = "the disk has less space than --min-free-space; free some".to_owned();
            retry.failed(&what, reason).await;
            continue;
        }
        let failure = match link.ask(&Ask::chunk(copy.id(), copy.sequence(), copy.last_key())).await {
            Ok((answer, chunk)) => match answer.content {
                Content::Chunk => {
                    retry.succeeded();
                    bytes += chunk.len();
                    copy = blocking(move || {
                        add_chunk(&mut copy, &chunk)?;
                        Ok(copy)
                    })
                    .await?;
                    continue;
                }
                Content::CopyEnd => {
                    info!(bytes, "the base copy is complete");
                    return Ok(Received::Whole(Box::new(copy)));
                }
                Content::NoCopy { reason } => return Ok(Received::Gone(reason)),
                Content::Refused { reason, .. } => format!("the primary refuses: {reason}"),
                _ => "the primary sent no base copy".to_owned(),
            },
            Err(error) => format!("{error:#}"),
        };
        retry.failed(&what, failure).await;
    }
}

/// Adds the chunk that follows the last key of the copy.
pub(crate) fn add_chunk(copy: &mut StandbyFolder, mut chunk: &[u8]) -> Result<(), AppendError> {
    while !chunk.is_empty() {
        let (key, value) = take_entry(&mut chunk).ok_or(FrameError::ENTRY)?;
        copy.add(key, value)?;
    }
    Ok(())
}
