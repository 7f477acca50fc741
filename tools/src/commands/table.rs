//! `rowhouse table`.

use super::confirmation::ConfirmationArgs;
use super::connection::{ConnectionArgs, connection_help, from_service, is_not_found};
use super::output::{OutputFormat, write_out};
use super::table_index::{self, INDEX_EXAMPLES, IndexAction};
use crate::option_values::{parse_duration, parse_table};
use crate::terminal::escaped;
use anyhow::Context;
use clap::{Args, Subcommand};
use client::{Retention, TableService};
use model::TableName;
use wire::json::write_json_string;

/// The examples at the end of the help of `table`.
pub const TABLE_EXAMPLES: &str = concat!(
    "\
Examples:
  rowhouse table list
      the tables of the development account on this machine, one per line
  rowhouse table list 'log*' --output json
      the tables whose names begin with 'log'
  rowhouse table create cars trucks
  rowhouse table create cars --if-not-exists
  rowhouse table delete cars --if-exists
      the table and all its entities
  rowhouse table retention sessions --age 7d
      entities expire seven days after their last write
  rowhouse table retention offers --property Ends
      entities expire at the time in their property Ends
  rowhouse table retention sessions --off
  rowhouse table index add orders Total
      entities can be listed in the order of their property Total
  ROWHOUSE_KEY='<key>' rowhouse table list --endpoint https://orchard.table.core.windows.net

",
    connection_help!()
);

/// The options of `table` as given, without validation or defaults.
#[derive(Debug, Args)]
pub struct TableArgs {
    #[command(flatten)]
    connection: ConnectionArgs,

    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the tables of the account
    #[command(after_long_help = TABLE_EXAMPLES)]
    List {
        /// List only tables whose names begin with this prefix, which may end with an asterisk
        #[arg(value_name = "PREFIX")]
        prefix: Option<String>,

        /// Format of the output; 'table' prints one name per line
        #[arg(long, short, value_enum, default_value = "table")]
        output: OutputFormat,
    },
    /// Create tables
    #[command(after_long_help = TABLE_EXAMPLES)]
    Create {
        /// Names of the tables: 3 to 63 letters and digits
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,

        /// Do not fail if a table already exists
        #[arg(long)]
        if_not_exists: bool,
    },
    /// Delete tables and everything in them
    #[command(after_long_help = TABLE_EXAMPLES)]
    Delete {
        /// Names of the tables
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,

        /// Do not fail if a table does not exist
        #[arg(long)]
        if_exists: bool,

        #[command(flatten)]
        confirmation: ConfirmationArgs,
    },
    /// Show or change how long the entities of a table exist; needs a server with --extensions
    #[command(after_long_help = TABLE_EXAMPLES)]
    Retention {
        /// Name of the table
        table: String,

        /// Time after the last write of an entity until it expires, such as 90m, 8h or 7d; with --property, time after
        /// the time in the property
        #[arg(long, value_name = "DURATION")]
        age: Option<String>,

        /// Property with the time from which an entity expires [default: the Timestamp]
        #[arg(long, value_name = "NAME")]
        property: Option<String>,

        /// Keep entities until they are deleted
        #[arg(long, conflicts_with_all = ["age", "property"])]
        off: bool,

        #[command(flatten)]
        confirmation: ConfirmationArgs,
    },
    /// Show or change the indexes of a table; needs a server with --extensions
    #[command(after_long_help = INDEX_EXAMPLES)]
    Index {
        #[command(subcommand)]
        action: IndexAction,
    },
}

pub(super) async fn run(args: &TableArgs) -> anyhow::Result<()> {
    let service = args.connection.service()?;
    match &args.action {
        Action::List { prefix, output } => list(&service, prefix.as_deref().unwrap_or_default(), *output).await,
        Action::Create { names, if_not_exists } => {
            for name in parse_names(names)? {
                let table = service.table(name.as_str());
                let created = if *if_not_exists { table.create_if_missing().await } else { table.create().await };
                created.map_err(from_service(&service))?;
            }
            Ok(())
        }
        Action::Delete { names, if_exists, confirmation } => {
            let names = parse_names(names)?;
            confirmation.confirm(&args.connection, &service, &deletion(&names))?;
            for name in names {
                match service.table(name.as_str()).delete_table().await.map_err(from_service(&service)) {
                    Err(error) if *if_exists && is_not_found(&error) => {}
                    result => result?,
                }
            }
            Ok(())
        }
        Action::Retention { table, age, property, off, confirmation } => {
            let name = parse_table(table)?;
            let table = service.table(name.as_str());
            if !off && age.is_none() && property.is_none() {
                let retention = table.retention().await.map_err(from_service(&service))?;
                return write_out(describe(retention.as_ref()).as_bytes());
            }
            let retention = if *off { None } else { Some(parse_retention(age.as_deref(), property.as_deref())?) };
            if retention.is_some() {
                let effect = format!("deletes the entities of the table '{name}' as soon as they expire");
                confirmation.confirm(&args.connection, &service, &effect)?;
            }
            table.set_retention(retention).await.map_err(from_service(&service))
        }
        Action::Index { action } => table_index::run(&service, action).await,
    }
}

fn parse_retention(age: Option<&str>, property: Option<&str>) -> anyhow::Result<Retention> {
    let seconds = |age: &str| u32::try_from(parse_duration(age)?.as_secs()).ok();
    let seconds = age.map_or(Some(0), seconds).context("--age must be a duration such as 90m, 8h or 7d")?;
    match property {
        None => Retention::by_age(seconds).context("--age must be from one second to 36500 days"),
        Some(property) => Retention::by_property(property, seconds)
            .context("--property must be the name of a custom property, and --age at most 36500 days"),
    }
}

fn describe(retention: Option<&Retention>) -> String {
    let Some(retention) = retention else { return "entities do not expire\n".to_owned() };
    let seconds = retention.seconds();
    match retention.property() {
        None => format!("entities expire {seconds} s after their last write\n"),
        Some(property) => format!("entities expire {seconds} s after the time in their property '{property}'\n"),
    }
}

fn deletion(names: &[TableName]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("'{name}'")).collect();
    match &quoted[..] {
        [only] => format!("deletes the table {only} with all its entities"),
        _ => format!("deletes the tables {} with all their entities", quoted.join(", ")),
    }
}

/// Parses all names, so that nothing is done if one of them is invalid.
fn parse_names(names: &[String]) -> anyhow::Result<Vec<TableName>> {
    names.iter().map(|name| parse_table(name)).collect()
}

/// Also accepts the service's own tables, such as `$MetricsCapacityBlob`, and ordered views, whose names contain a
/// property. No client can create them.
pub(super) fn check_readable_name(name: &str) -> anyhow::Result<&str> {
    let is_own = name.strip_prefix('$').is_some_and(|rest| rest.chars().all(|c| c.is_alphanumeric() || c == '_'));
    if !is_own {
        parse_table(name)?;
    }
    Ok(name)
}

async fn list(service: &TableService, prefix: &str, output: OutputFormat) -> anyhow::Result<()> {
    let prefix = prefix.trim_end_matches('*').to_ascii_lowercase();
    let mut names = service.tables().all().await.map_err(from_service(service))?;
    names.retain(|name| name.to_ascii_lowercase().starts_with(&prefix));
    let mut out = Vec::new();
    match output {
        OutputFormat::Table | OutputFormat::Csv => {
            let (header, end) = if output == OutputFormat::Csv { ("TableName\r\n", "\r\n") } else { ("", "\n") };
            out.extend_from_slice(header.as_bytes());
            for name in &names {
                out.extend_from_slice(escaped(name).as_bytes());
                out.extend_from_slice(end.as_bytes());
            }
        }
        OutputFormat::Json | OutputFormat::Jsonl => {
            let is_array = output == OutputFormat::Json;
            let (open, separator, close) = if is_array { ("[", ",\n", "]\n") } else { ("", "\n", "\n") };
            out.extend_from_slice(open.as_bytes());
            for (at, name) in names.iter().enumerate() {
                out.extend_from_slice(if at > 0 { separator.as_bytes() } else { b"" });
                out.extend_from_slice(b"{\"TableName\":");
                write_json_string(&mut out, name);
                out.push(b'}');
            }
            out.extend_from_slice(if is_array || !names.is_empty() { close.as_bytes() } else { b"" });
        }
    }
    write_out(&out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retentions_are_parsed_and_described() {
        for (age, property, expected) in [
            (Some("2h"), None, "entities expire 7200 s after their last write\n"),
            (Some("5s"), Some("Ends"), "entities expire 5 s after the time in their property 'Ends'\n"),
            (None, Some("Ends"), "entities expire 0 s after the time in their property 'Ends'\n"),
        ] {
            assert_eq!(describe(Some(&parse_retention(age, property).unwrap())), expected);
        }
        assert_eq!(describe(None), "entities do not expire\n");
        for (age, property) in [
            (Some("0s"), None),
            (Some("2"), None),
            (Some("36501d"), None),
            (Some("99999999d"), None),
            (Some("36501d"), Some("Ends")),
            (None, Some("a b")),
            (None, Some("Timestamp")),
        ] {
            assert!(parse_retention(age, property).is_err(), "{age:?} {property:?}");
        }
    }
}
