use crate::commands::{ConnectionArgs, connection_help};
use crate::option_values::parse_duration;
use clap::{ArgGroup, Args};
use client::ChangePosition;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The examples at the end of the help of `follow`.
pub const FOLLOW_EXAMPLES: &str = concat!(
    "\
Examples:
  rowhouse follow --table orders
      prints each change from now on, one JSON object per line
  rowhouse follow --table orders --from start --until-end | jq -r '.Operation + \" \" + .Entity_RowKey'
      everything that the server has kept, and then ends
  rowhouse follow --table orders --state orders.json --webhook http://127.0.0.1:7071/orders
      sends each change to a program; after a restart, continues where it stopped
  rowhouse follow --table orders --state orders.json --exec './process-order' --dead-letters failed.jsonl
      starts a command for each change; after ten failures in a row, saves the change in a file and goes on
  rowhouse follow --state all.json --webhook https://collector.example/changes --batch 500
      the changes of all tables, up to 500 in a request
  rowhouse follow --table orders --from 00000000000000004711-002
      continues after a known position

The server must keep its log (rowhouse serve --keep-log 24h). A change is a row of the change feed: Operation (Put, Delete, \
Expire, CreateTable or DeleteTable), Table, the position in RowKey, and the properties of the entity after the change with \
the prefix Entity_. See docs/change-feed.md.

Each change is delivered at least once, and the changes of a table in order: the next one only when the last one was \
acknowledged. A command acknowledges by exit code 0, a webhook by a status from 200 to 299. Otherwise, the delivery is \
repeated, after 0.2 s, then after pauses that double up to 30 s, or as Retry-After says. When --attempts are used up, the \
change goes to --dead-letters; without this option, the command fails, and the next run begins with this change. A \
change may be delivered again after a failure, so deliveries should be idempotent: the position identifies a change. If \
no connection to the webhook was opened yet, a failed one ends the command, because the URL may be wrong.

SIGTERM and Ctrl-C end the command after the delivery in progress, with exit code 0.

Exit code 6: the server no longer keeps the changes after the position, or its log began again, as after a restore. Then \
begin again in this order, so that no change is lost: record the end of the log in a new state file with \
'rowhouse follow --state NEW --until-end', with the same tables and filter, but without --exec and --webhook; read the \
whole tables; follow with the new state file.

",
    connection_help!()
);

/// The options of `follow` as given, without validation or defaults.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("target").args(["exec", "webhook"]))]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, which must not contain backticks")]
pub struct FollowArgs {
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,

    /// Follow this table; can be repeated or comma-separated [default: all tables of the account]
    #[arg(long = "table", value_name = "NAME", value_delimiter = ',')]
    pub(super) tables: Vec<String>,

    /// Where to begin if the state file contains no position: after a position, at the oldest kept change, or now
    #[arg(long, value_name = "POSITION|start|now", default_value = "now")]
    pub(super) from: FromArg,

    /// Deliver only matching changes, such as "Operation eq 'Put' and Entity_Total gt 100"
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    pub(super) filter: Option<String>,

    /// File that records the position of the last acknowledged change; created if missing. Only one process can use it
    /// at a time
    #[arg(long, value_name = "FILE")]
    pub(super) state: Option<PathBuf>,

    /// Start this command with the shell for each change, which it reads as JSON from standard input
    #[arg(long, value_name = "COMMAND")]
    pub(super) exec: Option<String>,

    /// Send each change as JSON to this URL with POST. If the URL contains a secret, set the variable instead
    #[arg(long, env = "ROWHOUSE_WEBHOOK", value_name = "URL", hide_env_values = true)]
    pub(super) webhook: Option<String>,

    /// Deliver up to this number of changes at once: to a webhook as a JSON array, to a command as lines
    #[arg(long, value_name = "COUNT", requires = "target", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) batch: Option<u16>,

    /// Maximum duration of a delivery, such as 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_timeout)]
    pub(super) timeout: Duration,

    /// Maximum number of attempts to deliver a change
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) attempts: u32,

    /// Append changes that could not be delivered to this file, and go on
    #[arg(long, value_name = "FILE", requires = "target")]
    pub(super) dead_letters: Option<PathBuf>,

    /// End at the end of the log instead of waiting for further changes
    #[arg(long)]
    pub(super) until_end: bool,
}

/// Where a command without a state file begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FromArg {
    Start,
    Now,
    After(ChangePosition),
}

impl FromStr for FromArg {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "start" => Ok(Self::Start),
            "now" => Ok(Self::Now),
            _ => ChangePosition::parse(text)
                .map(Self::After)
                .ok_or("use start, now or a position such as 00000000000000004711-002"),
        }
    }
}

fn parse_timeout(text: &str) -> Result<Duration, &'static str> {
    parse_duration(text).filter(|time| !time.is_zero()).ok_or("use a number followed by s, m, h or d, such as 60s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts() {
        let position = ChangePosition { transaction: 4711, index: 2 };
        assert_eq!("start".parse(), Ok(FromArg::Start));
        assert_eq!("now".parse(), Ok(FromArg::Now));
        assert_eq!(position.to_string().parse(), Ok(FromArg::After(position)));
        assert!("4711".parse::<FromArg>().is_err());
    }
}
