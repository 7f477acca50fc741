//! `rowhouse promote`: makes a standby's folder the folder of a primary, and tells the former primary.

use clap::Args;
use engine_embedded::{Awaited, Role, lineage_of};
use model::DateTime;
use replication::{FormerPrimary, Promotion, Token, promote_folder};
use std::fmt::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

/// The examples at the end of the help of `promote`.
pub(crate) const PROMOTE_EXAMPLES: &str = "\
Examples:
  rowhouse promote --data /var/lib/rowhouse-standby --former https://tables.example.org --token-file token
      makes the standby a primary, and tells the former primary, so that it refuses writes
  rowhouse promote --data /var/lib/rowhouse-standby
      the same, if the former primary cannot be reached; make sure that it is stopped
  rowhouse promote --data /var/lib/rowhouse-standby --despite-loss
      promotes a standby that may lack acknowledged writes, because its primary waited for another one that is lost, or \
      could not serve it any more
  rowhouse promote --data /var/lib/rowhouse --despite-loss
      makes a former primary the primary again, if the server that replaced it is lost or never existed
  rowhouse serve --data /var/lib/rowhouse-standby
      serves the promoted folder

Stop the standby first. If the former primary is started again later, repeat the command with --former: it does not \
change a folder that is promoted already.

The exit code is 0 if the folder is promoted and the former primary was told, or no --former was given; 1 if the folder \
was not promoted; 2 if the command line is wrong; 3 if the folder is promoted and the former primary was not told, for \
example because it is lost.";

/// The exit code if the folder is promoted and the former primary was not told.
const NOT_TOLD: u8 = 3;

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

    /// Promote a standby that may lack acknowledged writes, or a former primary that was told of a promotion
    #[arg(long)]
    despite_loss: bool,
}

/// Returns the report and the exit code.
pub(crate) fn run(args: PromoteArgs) -> anyhow::Result<(String, ExitCode)> {
    let PromoteArgs { data, former, token_file, despite_loss } = args;
    let told = match (&former, &token_file) {
        (Some(former), Some(file)) => Some(FormerPrimary::new(former, Token::read(file)?)?),
        _ => None,
    };
    let mut report = String::new();
    let lineage = match lineage_of(&data)? {
        Some(lineage) if lineage.epoch() > 1 && matches!(lineage.role, Role::Primary { .. }) => {
            writeln!(report, "{} is promoted already: epoch {}", data.display(), lineage.epoch())?;
            lineage
        }
        before => {
            let promotion = promote_folder(&data, despite_loss)?;
            describe(&mut report, before.map(|before| before.role), &promotion)?;
            promotion.lineage
        }
    };
    let Some((told, former)) = told.zip(former) else {
        writeln!(report, "the former primary was not told: make sure that it is stopped, or pass --former")?;
        return Ok((report, ExitCode::SUCCESS));
    };
    match told.tell(&lineage) {
        Ok(()) => {
            writeln!(report, "the former primary {former} refuses writes from now on")?;
            Ok((report, ExitCode::SUCCESS))
        }
        Err(error) => {
            writeln!(
                report,
                "the former primary {former} was not told: {error:#}\n\
                 the folder can be served; make sure that the former primary is stopped, and when it is started again, \
                 repeat this command"
            )?;
            Ok((report, ExitCode::from(NOT_TOLD)))
        }
    }
}

/// Says what the promoted folder contains, and what it may lack. `before` is its former role.
fn describe(report: &mut String, before: Option<Role>, promotion: &Promotion) -> fmt::Result {
    let Promotion { lineage, last, last_stamp } = promotion;
    writeln!(report, "promoted: epoch {} begins after transaction {last}", lineage.epoch())?;
    if *last_stamp > DateTime::MIN {
        writeln!(report, "the last write in the folder is of {last_stamp}")?;
    }
    match before {
        Some(Role::Standby { awaited: Awaited::This, .. }) => Ok(()),
        Some(Role::Standby { awaited: Awaited::CutOff, .. }) => {
            writeln!(report, "this standby could not follow its primary any more: later writes are missing")
        }
        Some(Role::Fenced { by, first }) => {
            writeln!(report, "what was written to the server that was promoted in epoch {by} is not here")?;
            match first.filter(|first| first <= last) {
                Some(first) => writeln!(
                    report,
                    "the transactions from {first} to {last} are only here, unless another standby has them"
                ),
                None => Ok(()),
            }
        }
        _ => writeln!(report, "the former primary did not wait for this standby: its last writes may be missing"),
    }
}
