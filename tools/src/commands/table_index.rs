//! `rowhouse table index`.

use super::connection::{connection_help, from_service};
use super::output::write_out;
use crate::option_values::parse_table;
use crate::terminal::{escaped, notice};
use anyhow::bail;
use clap::Subcommand;
use client::{Table, TableIndex, TableService};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// The pause between two requests for the state of an index that is being built.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
const NOTICE_INTERVAL: Duration = Duration::from_secs(5);

/// The examples at the end of the help of `table index`.
pub(super) const INDEX_EXAMPLES: &str = concat!(
    "\
Examples:
  rowhouse table index add orders Total Created
  rowhouse table index list orders
  rowhouse table index remove orders Created
  rowhouse entity query '$ByTotalDescendingOforders' --top 10
      the ten entities with the greatest values

",
    connection_help!()
);

#[derive(Debug, Subcommand)]
pub(super) enum IndexAction {
    /// List the indexes of a table, each with its state: 'ready' or 'building'
    #[command(after_long_help = INDEX_EXAMPLES)]
    List {
        /// Name of the table
        #[arg(value_name = "TABLE")]
        table: String,
    },
    /// Add indexes to a table, and wait until they are ready
    #[command(after_long_help = INDEX_EXAMPLES)]
    Add {
        /// Name of the table
        #[arg(value_name = "TABLE")]
        table: String,

        /// Names of the properties
        #[arg(value_name = "PROPERTY", required = true)]
        properties: Vec<String>,

        /// Do not wait until the indexes are ready
        #[arg(long)]
        no_wait: bool,
    },
    /// Remove indexes from a table
    #[command(after_long_help = INDEX_EXAMPLES)]
    Remove {
        /// Name of the table
        #[arg(value_name = "TABLE")]
        table: String,

        /// Names of the properties
        #[arg(value_name = "PROPERTY", required = true)]
        properties: Vec<String>,
    },
}

pub(super) async fn run(service: &TableService, action: &IndexAction) -> anyhow::Result<()> {
    match action {
        IndexAction::List { table } => {
            let table = service.table(parse_table(table)?.as_str());
            let indexes = table.indexes().await.map_err(from_service(service))?;
            write_out(describe(&indexes).as_bytes())
        }
        IndexAction::Add { table, properties, no_wait } => {
            let table = service.table(parse_table(table)?.as_str());
            let indexes = table.indexes().await.map_err(from_service(service))?;
            let wanted = names(&indexes).chain(properties.iter().map(String::as_str));
            set(service, &table, wanted).await?;
            if *no_wait { Ok(()) } else { wait(service, &table, properties).await }
        }
        IndexAction::Remove { table, properties } => {
            let table = service.table(parse_table(table)?.as_str());
            let indexes = table.indexes().await.map_err(from_service(service))?;
            if let Some(missing) = properties.iter().find(|property| !has(&indexes, property)) {
                bail!("the table '{}' has no index of the property '{missing}'", table.name());
            }
            set(service, &table, names(&indexes).filter(|name| properties.iter().all(|other| other != name))).await
        }
    }
}

fn describe(indexes: &[TableIndex]) -> String {
    indexes.iter().fold(String::new(), |mut text, TableIndex { property, is_ready }| {
        let state = if *is_ready { "ready" } else { "building" };
        writeln!(text, "{} {state}", escaped(property.as_str())).expect("writing to a string succeeds");
        text
    })
}

fn names(indexes: &[TableIndex]) -> impl Iterator<Item = &str> {
    indexes.iter().map(|index| index.property.as_str())
}

fn has(indexes: &[TableIndex], property: &str) -> bool {
    names(indexes).any(|name| name == property)
}

/// Sets the list of indexes, without duplicates.
async fn set<'n>(
    service: &TableService,
    table: &Table,
    properties: impl Iterator<Item = &'n str>,
) -> anyhow::Result<()> {
    let mut list: Vec<&str> = Vec::new();
    for property in properties {
        if !list.contains(&property) {
            list.push(property);
        }
    }
    table.set_indexes(&list).await.map_err(from_service(service))
}

/// Waits until the indexes are ready.
async fn wait(service: &TableService, table: &Table, properties: &[String]) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut noticed = began;
    loop {
        let indexes = table.indexes().await.map_err(from_service(service))?;
        if let Some(removed) = properties.iter().find(|property| !has(&indexes, property)) {
            bail!("the index of the property '{removed}' was removed while it was being built");
        }
        let is_awaited = |index: &&TableIndex| properties.iter().any(|property| property == index.property.as_str());
        let building = indexes.iter().filter(is_awaited).find(|index| !index.is_ready);
        let Some(building) = building else { return Ok(()) };
        if noticed.elapsed() >= NOTICE_INTERVAL {
            noticed = Instant::now();
            let (name, seconds) = (&building.property, began.elapsed().as_secs());
            notice(format_args!("the index of the property '{name}' is still being built after {seconds} s"));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::IndexedProperty;

    #[test]
    fn the_list_shows_the_states() {
        let index = |name, is_ready| TableIndex { property: IndexedProperty::new(name).unwrap(), is_ready };
        assert_eq!(describe(&[index("Total", true), index("Created", false)]), "Total ready\nCreated building\n");
        assert_eq!(describe(&[]), "");
    }
}
