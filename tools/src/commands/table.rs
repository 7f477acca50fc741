//! `rowhouse table`.

use super::connection::{ConnectionArgs, connection_help};
use super::output::{OutputFormat, write_out};
use super::service_error::{from_service, is_not_found};
use crate::names::parse_table;
use crate::terminal::escaped;
use clap::{Args, Subcommand};
use client::TableService;
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
        Action::Delete { names, if_exists } => {
            for name in parse_names(names)? {
                match service.table(name.as_str()).delete_table().await.map_err(from_service(&service)) {
                    Err(error) if *if_exists && is_not_found(&error) => {}
                    result => result?,
                }
            }
            Ok(())
        }
    }
}

/// Parses all names, so that nothing is done if one of them is invalid.
fn parse_names(names: &[String]) -> anyhow::Result<Vec<TableName>> {
    names.iter().map(|name| parse_table(name)).collect()
}

/// Also accepts the service's own tables, such as `$MetricsCapacityBlob`, which no client can create.
pub(super) fn check_readable_name(name: &str) -> anyhow::Result<&str> {
    let is_own = name.strip_prefix('$').is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_alphanumeric()));
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
