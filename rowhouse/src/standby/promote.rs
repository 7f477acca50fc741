//! `rowhouse promote`: makes a standby's folder the folder of a primary, and tells the former primary.

use super::protocol::{Ask, Content, Link, NamedEpoch, Token};
use anyhow::{Context, bail};
use clap::Args;
use engine_embedded::{Awaited, Lineage, Promotion, Role, lineage_of, promote_folder, promote_folder_despite_loss};
use std::fmt::Write as _;
use std::path::PathBuf;

/// The examples at the end of the help of `promote`.
pub(crate) const PROMOTE_EXAMPLES: &str = "\
Examples:
  rowhouse promote --data /var/lib/rowhouse-standby --former https://tables.example.org --token-file token
      makes the standby a primary, and tells the former primary, so that it refuses writes
  rowhouse promote --data /var/lib/rowhouse-standby
      the same, if the former primary cannot be reached; make sure that it is stopped
  rowhouse promote --data /var/lib/rowhouse-standby --despite-loss
      promotes a standby that may lack acknowledged writes, because its primary waited for another one that is lost
  rowhouse serve --data /var/lib/rowhouse-standby
      serves the promoted folder

Stop the standby first. If the former primary is started again later, repeat the command with --former: it does not \
change a folder that is promoted already.

The exit code is 1 if the folder was not promoted, or if the former primary was not told.";

/// The options of `promote`.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, which must not contain backticks")]
pub struct PromoteArgs {
    /// Data folder of the standby
    #[arg(long, env = "ROWHOUSE_DATA", value_name = "DIR")]
    data: PathBuf,

    /// Address of the former primary, which is told that it was replaced
    #[arg(long, value_name = "URL", requires = "token_file")]
    former: Option<String>,

    /// File with the token of the standbys
    #[arg(long, env = "ROWHOUSE_STANDBY_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Promote the standby even if its primary waited for another one. Acknowledged writes may be lost
    #[arg(long)]
    despite_loss: bool,
}

pub(crate) fn run(args: PromoteArgs) -> anyhow::Result<String> {
    let PromoteArgs { data, former, token_file, despite_loss } = args;
    let link = match (&former, &token_file) {
        (Some(former), Some(file)) => Some(Link::new(former, Token::read(file)?)?),
        _ => None,
    };
    let mut report = String::new();
    let lineage = match lineage_of(&data)? {
        Some(lineage) if lineage.epoch() > 1 && matches!(lineage.role, Role::Primary { .. }) => {
            writeln!(report, "{} is promoted already: epoch {}", data.display(), lineage.epoch())?;
            lineage
        }
        before => {
            let promote = if despite_loss { promote_folder_despite_loss } else { promote_folder };
            let Promotion { lineage, last } = promote(&data)?;
            writeln!(report, "promoted: epoch {} begins after transaction {last}", lineage.epoch())?;
            match before.map(|before| before.role) {
                Some(Role::Standby { awaited: Awaited::This, .. }) => {}
                Some(Role::Fenced { by, first }) => {
                    writeln!(report, "what was written to the server that was promoted in epoch {by} is not here")?;
                    match first {
                        Some(first) if first <= last => writeln!(
                            report,
                            "the transactions from {first} to {last} are only here, unless a standby has them"
                        )?,
                        _ => {}
                    }
                }
                _ => writeln!(
                    report,
                    "the former primary did not wait for this standby: its last writes may be missing"
                )?,
            }
            lineage
        }
    };
    match link.zip(former) {
        None => writeln!(report, "the former primary was not told: make sure that it is stopped, or pass --former")?,
        Some((link, former)) => {
            tell(&link, &lineage)
                .with_context(|| format!("{}the former primary {former} was not told", report.clone()))?;
            writeln!(report, "the former primary {former} refuses writes from now on")?;
        }
    }
    Ok(report)
}

fn tell(link: &Link, lineage: &Lineage) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the async runtime")?;
    let ask = Ask::Fence { log: lineage.log.to_string(), epoch: NamedEpoch::from(&lineage.newest()) };
    let (answer, _) = runtime.block_on(link.ask(&ask))?;
    match answer.content {
        Content::Fenced { is_fenced: true } => Ok(()),
        Content::Refused { reason, .. } => bail!("it refuses: {reason}"),
        _ => bail!("it is not fenced; it may be the promoted server itself"),
    }
}
