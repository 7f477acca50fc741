//! `rowhouse entity`.

use crate::commands::confirmation::ConfirmationArgs;
use crate::commands::connection::{ConnectionArgs, connection_help, from_service, is_not_found};
use crate::commands::other_types;
use crate::commands::output::{EntityOutput, OutputFormat, write_one, write_out};
use crate::commands::table::check_readable_name;
use crate::endpoints::{Query, WriteMode, query_of};
use crate::formats::{LineError, push_value, read_line};
use crate::option_values::{parse_table, parse_type};
use crate::runtime::{stop_signal, until_stopped};
use crate::terminal::{Progress, counted};
use anyhow::{Context, anyhow, bail, ensure};
use clap::{Args, Subcommand};
use client::{ETag, IfMatch, PropertyBag, TableService};
use model::limits::REQUEST_BODY_BYTES_MAX;
use model::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP, check_property_name};
use model::{Condition, EdmType, EntityKey, KeyText, RecordBuilder};
use serde_json::value::RawValue;
use std::io::Read;

/// The default number of key ranges that a count reads in parallel.
const PARALLEL_RANGES: u16 = 8;

/// The examples at the end of the help of `entity`.
pub const ENTITY_EXAMPLES: &str = concat!(
    "\
Examples:
  rowhouse entity query cars
      all entities of a table, in key order
  rowhouse entity query cars --filter \"PartitionKey eq 'kestrel' and Doors gt 4\" --select Doors,Weight --top 10
  rowhouse entity query cars --output jsonl | jq .Weight
  rowhouse entity get cars kestrel 0007
  rowhouse entity put cars kestrel 0007 Model=Kestrel Doors:Int32=4 Weight:Double=981.5
      replaces or inserts the entity, and prints its new ETag
  rowhouse entity put cars kestrel 0007 Doors:Int32=5 --merge
      sets this property and keeps the other properties
  rowhouse entity put cars --json '{\"PartitionKey\":\"kestrel\",\"RowKey\":\"0008\",\"Doors\":2}' --insert
  rowhouse entity put cars kestrel 0007 Doors:Int32=3 --merge --if-match \"$ETAG\"
      only if the entity has not been changed in the meantime
  rowhouse entity delete cars kestrel 0007
  rowhouse entity delete cars --filter \"Ready eq false\" --dry-run
      counts what would be deleted; without --dry-run, deletes all matching entities
  rowhouse entity count cars --filter \"Ready eq true\"

Filters compare with eq, ne, gt, ge, lt, le and combine with and, or, not. Values: 'text', 5, 5000000000L, 1.5, true, \
datetime'2031-04-01T00:00:00Z', guid'01234567-89ab-cdef-0123-456789abcdef', X'AF05'. Servers with --extensions \
also support startswith(Name,'text'), endswith and contains.

Types of NAME:TYPE=VALUE: String, Int32, Int64, Double, Boolean, DateTime, Guid, Binary (Base64).

",
    connection_help!()
);

/// The options of `entity` as given, without validation or defaults.
#[derive(Debug, Args)]
pub struct EntityArgs {
    #[command(flatten)]
    connection: ConnectionArgs,

    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Read one entity
    #[command(after_long_help = ENTITY_EXAMPLES)]
    Get {
        #[command(flatten)]
        address: EntityAddress,

        /// Read only these properties, comma-separated
        #[arg(long, value_name = "NAMES", value_delimiter = ',')]
        select: Vec<String>,

        /// Format of the output [default: table on a terminal, otherwise jsonl]
        #[arg(long, short, value_enum)]
        output: Option<OutputFormat>,
    },
    /// Read all matching entities, page by page
    #[command(after_long_help = ENTITY_EXAMPLES)]
    Query {
        /// Name of the table
        table: String,

        #[command(flatten)]
        filter: FilterArgs,

        /// Read only these properties, comma-separated; the keys are always included
        #[arg(long, value_name = "NAMES", value_delimiter = ',')]
        select: Vec<String>,

        /// Maximum number of entities to read
        #[arg(long, value_name = "COUNT")]
        top: Option<u64>,

        /// Format of the output [default: table on a terminal, otherwise jsonl]
        #[arg(long, short, value_enum)]
        output: Option<OutputFormat>,
    },
    /// Count the matching entities; unless the server has --extensions, this reads all of them
    #[command(after_long_help = ENTITY_EXAMPLES)]
    Count {
        /// Name of the table
        table: String,

        #[command(flatten)]
        filter: FilterArgs,

        /// Maximum number of key ranges that are read in parallel, unless the server counts the entities
        #[arg(long, value_name = "COUNT", default_value_t = PARALLEL_RANGES, value_parser = clap::value_parser!(u16).range(1..=64))]
        parallel: u16,
    },
    /// Write an entity, and print its new ETag
    #[command(after_long_help = ENTITY_EXAMPLES)]
    Put(PutArgs),
    /// Delete one entity, or all entities that match a filter
    #[command(after_long_help = ENTITY_EXAMPLES)]
    Delete(DeleteArgs),
}

/// The table and the keys of an entity.
#[derive(Debug, Args)]
struct EntityAddress {
    /// Name of the table
    table: String,

    /// Partition key; after -- it may begin with a hyphen
    #[arg(allow_negative_numbers = true)]
    partition: String,

    /// Row key; after -- it may begin with a hyphen
    #[arg(allow_negative_numbers = true)]
    row: String,
}

#[derive(Debug, Args)]
struct FilterArgs {
    /// Select only matching entities, such as "PartitionKey eq 'north' and Count gt 5"
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    filter: Option<String>,
}

#[derive(Debug, Args)]
struct PutArgs {
    /// Name of the table
    table: String,

    /// Partition key; with --json, it may be in the JSON instead
    #[arg(requires = "row", allow_negative_numbers = true)]
    partition: Option<String>,

    /// Row key; after -- it may begin with a hyphen
    #[arg(allow_negative_numbers = true)]
    row: Option<String>,

    /// Properties: Name=text, or with a type, Age:Int32=5
    #[arg(value_name = "NAME[:TYPE]=VALUE", conflicts_with = "json")]
    properties: Vec<String>,

    /// Entity as JSON, an array of entities, or - for standard input
    #[arg(long, value_name = "JSON|-", allow_hyphen_values = true)]
    json: Option<String>,

    /// Fail if the entity already exists
    #[arg(long, conflicts_with_all = ["replace", "merge"])]
    insert: bool,

    /// Replace all properties of the entity; this is the default
    #[arg(long, conflicts_with = "merge")]
    replace: bool,

    /// Set the given properties, and keep the other properties
    #[arg(long)]
    merge: bool,

    /// Write the entity only if it still has this ETag; * requires only that it exists
    #[arg(long, value_name = "ETAG", conflicts_with = "insert")]
    if_match: Option<String>,
}

#[derive(Debug, Args)]
struct DeleteArgs {
    /// Name of the table
    table: String,

    /// Partition key; after -- it may begin with a hyphen
    #[arg(requires = "row", conflicts_with = "filter", allow_negative_numbers = true)]
    partition: Option<String>,

    /// Row key; after -- it may begin with a hyphen
    #[arg(allow_negative_numbers = true)]
    row: Option<String>,

    /// Delete the entity only if it still has this ETag [default: regardless of its ETag]
    #[arg(long, value_name = "ETAG", conflicts_with = "filter", default_value = "*", hide_default_value = true)]
    if_match: String,

    /// Do not fail if the entity does not exist
    #[arg(long, conflicts_with = "filter")]
    if_exists: bool,

    /// Delete all matching entities, and print their number; true matches every entity
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    filter: Option<String>,

    /// Print the number of matching entities, and delete nothing
    #[arg(long, requires = "filter", conflicts_with = "partition")]
    dry_run: bool,

    #[command(flatten)]
    confirmation: ConfirmationArgs,
}

pub(super) async fn run(args: &EntityArgs) -> anyhow::Result<()> {
    let service = args.connection.service()?;
    match &args.action {
        Action::Get { address, select, output } => get(&service, address, select, *output).await,
        Action::Query { table, filter, select, top, output } => {
            let query = Query { filter: filter.filter.clone(), select: select.clone() };
            let mut output = EntityOutput::new(OutputFormat::or_default(*output))?;
            each_page(&service, table, &query, *top, |page| output.page(page)).await?;
            output.end()
        }
        Action::Count { table, filter, parallel } => {
            let table = check_readable_name(table)?;
            count(&service, table, filter.filter.as_deref(), usize::from(*parallel)).await
        }
        Action::Put(args) => put(&service, args).await,
        Action::Delete(deletion) => delete(&service, &args.connection, deletion).await,
    }
}

async fn get(
    service: &TableService,
    address: &EntityAddress,
    select: &[String],
    output: Option<OutputFormat>,
) -> anyhow::Result<()> {
    let table = check_readable_name(&address.table)?;
    let key = entity_key(&address.partition, &address.row)?;
    let select: Vec<&str> = select.iter().map(String::as_str).collect();
    let table = service.table(table);
    let stored = table.get_properties(key.partition.as_str(), key.row.as_str(), &select).await;
    write_one(OutputFormat::or_default(output), &stored.map_err(from_service(service))?.entity)
}

async fn put(service: &TableService, args: &PutArgs) -> anyhow::Result<()> {
    let table = parse_table(&args.table)?;
    let key = args.partition.as_deref().zip(args.row.as_deref());
    let key = key.map(|(partition, row)| entity_key(partition, row)).transpose()?;
    let entities = match (&args.json, key) {
        (Some(json), key) => parse_json(json, key.as_ref())?,
        (None, Some(key)) => vec![PropertyBag::of_properties(key, parse_properties(&args.properties)?)],
        (None, None) => bail!("no entity given: pass PARTITION ROW NAME=VALUE…, or --json"),
    };
    let mode = match (args.insert, args.merge) {
        (true, _) => WriteMode::Insert,
        (false, true) => WriteMode::Merge,
        (false, false) => WriteMode::Replace,
    };
    args.if_match.as_deref().map_or(Ok(()), check_condition)?;
    let table = service.table(table.as_str());
    let untyped = args.properties.iter().filter_map(|text| text.split_once('='));
    let untyped: Vec<_> = untyped.filter(|(name, _)| !name.contains(':')).collect();
    other_types::warn(&table, args.partition.as_deref().unwrap_or_default(), &untyped).await;
    for entity in entities {
        let written = match (mode, args.if_match.as_deref().map(condition)) {
            (WriteMode::Insert, _) => table.insert(&entity).await,
            (WriteMode::Replace, None) => table.insert_or_replace(&entity).await,
            (WriteMode::Replace, Some(condition)) => table.replace(&entity, condition).await,
            (WriteMode::Merge, None) => table.insert_or_merge(&entity).await,
            (WriteMode::Merge, Some(condition)) => table.merge(&entity, condition).await,
        };
        let written = written.map_err(from_service(service))?;
        write_out(format!("{}\n", written.etag).as_bytes())?;
    }
    Ok(())
}

async fn count(service: &TableService, table: &str, filter: Option<&str>, parallel: usize) -> anyhow::Result<()> {
    let count = matches(service, table, filter, parallel).await?;
    write_out(format!("{count}\n").as_bytes())
}

/// Returns the number of matching entities, and shows the progress.
async fn matches(service: &TableService, table: &str, filter: Option<&str>, parallel: usize) -> anyhow::Result<u64> {
    let progress = Progress::new("counting", 1);
    let query = service.table(table).query::<PropertyBag>();
    let query = filter.into_iter().fold(query, client::Query::filter_text);
    let count = query.scan().parallel(parallel).count_with(|counted| progress.set_entities(counted));
    progress.show_during(Box::pin(count)).await.map_err(from_service(service))
}

async fn delete(service: &TableService, connection: &ConnectionArgs, args: &DeleteArgs) -> anyhow::Result<()> {
    let table = parse_table(&args.table)?;
    if let Some(filter) = &args.filter {
        ensure!(
            !filter.trim().is_empty(),
            "--filter is empty: to delete all entities of the table, pass --filter true"
        );
        if args.dry_run {
            let parallel = usize::from(PARALLEL_RANGES);
            count(service, table.as_str(), Some(filter), parallel).await?;
            if let Some(dependence) = other_types::dependence(filter) {
                let filter = wire::filter::print(&dependence.filter);
                other_types::report(matches(service, table.as_str(), Some(&filter), parallel).await?, &dependence);
            }
            return Ok(());
        }
        let effect = format!("deletes all entities of the table '{table}' that match the filter {filter}");
        args.confirmation.confirm(connection, service, &effect)?;
        return delete_matching(service, table.as_str(), filter).await;
    }
    let Some((partition, row)) = args.partition.as_deref().zip(args.row.as_deref()) else {
        bail!("no entity given: pass PARTITION ROW, or --filter FILTER to delete all matching entities");
    };
    let key = entity_key(partition, row)?;
    check_condition(&args.if_match)?;
    let table = service.table(table.as_str());
    let deleted = table.delete(key.partition.as_str(), key.row.as_str(), condition(&args.if_match)).await;
    match deleted.map_err(from_service(service)) {
        Err(error) if args.if_exists && is_not_found(&error) => Ok(()),
        result => result,
    }
}

async fn delete_matching(service: &TableService, table: &str, filter: &str) -> anyhow::Result<()> {
    let stop = stop_signal()?;
    let progress = Progress::new("deleting", 1);
    let query = service.table(table).query::<PropertyBag>().filter_text(filter);
    let deletion = async {
        let deletion = query.delete_matching_with(|deleted| progress.set_entities(deleted));
        deletion.await.map_err(from_service(service))
    };
    let result = progress.show_during(until_stopped(stop, Box::pin(deletion))).await;
    let deleted = result.map_err(|error| match progress.done() {
        (_, 0) => error,
        (_, deleted) => {
            let were = if deleted == 1 { "was" } else { "were" };
            let deleted = counted(deleted, "entity", "entities");
            error.context(format!("{deleted} {were} deleted; run the same command to delete the rest"))
        }
    })?;
    write_out(format!("{deleted}\n").as_bytes())
}

fn check_condition(etag: &str) -> anyhow::Result<()> {
    ensure!(
        Condition::parse(etag).is_ok(),
        "'{etag}' is not a valid ETag: write it like W/\"datetime'2031-04-01T06%3A30%3A00.1234567Z'\", or * for any"
    );
    Ok(())
}

/// The value of the option has already been checked.
fn condition(etag: &str) -> IfMatch {
    if etag == "*" { IfMatch::Any } else { IfMatch::ETag(ETag::from(etag)) }
}

async fn each_page(
    service: &TableService,
    table: &str,
    query: &Query,
    top: Option<u64>,
    mut take: impl FnMut(&[PropertyBag]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let table = check_readable_name(table)?;
    let mut pages = query_of(&service.table(table), query).take(top.unwrap_or(u64::MAX)).pages();
    while let Some(page) = pages.next().await {
        take(&page.map_err(from_service(service))?.items)?;
    }
    Ok(())
}

pub(super) fn entity_key(partition: &str, row: &str) -> anyhow::Result<EntityKey> {
    let text = |name: &str, text: &str| {
        KeyText::new(text).map_err(|_| {
            anyhow!("{text:?} is not a valid {name}: use up to 512 characters, without / \\ # ? and control characters")
        })
    };
    Ok(EntityKey { partition: text(PARTITION_KEY, partition)?, row: text(ROW_KEY, row)? })
}

pub(super) fn parse_properties(texts: &[String]) -> anyhow::Result<RecordBuilder> {
    let mut properties = RecordBuilder::default();
    let mut names: Vec<&str> = Vec::new();
    for text in texts {
        let (name, value) = text
            .split_once('=')
            .with_context(|| format!("'{text}' is not a property: write Name=value or Age:Int32=5"))?;
        let (name, edm_type) = match name.split_once(':') {
            None => (name, EdmType::String),
            Some((name, edm_type)) => {
                let known = parse_type(edm_type).with_context(|| {
                    format!("'{edm_type}' is not a type: use String, Int32, Int64, Double, Boolean, DateTime, Guid or Binary")
                })?;
                (name, known)
            }
        };
        let is_property = check_property_name(name).is_ok() && ![PARTITION_KEY, ROW_KEY, TIMESTAMP].contains(&name);
        ensure!(is_property, "'{name}' is not a valid property name");
        ensure!(!names.contains(&name), "the property '{name}' is given twice");
        names.push(name);
        push_value(&mut properties, name, edm_type, value).map_err(|reason| anyhow!(reason))?;
    }
    Ok(properties)
}

/// Accepts an object, an array of objects, or either of these from standard input.
///
/// A single object may omit keys that are given on the command line.
pub(super) fn parse_json(json: &str, key: Option<&EntityKey>) -> anyhow::Result<Vec<PropertyBag>> {
    let mut text = json.to_owned();
    if json == "-" {
        text.clear();
        let mut limited = std::io::stdin().lock().take(REQUEST_BODY_BYTES_MAX as u64 + 1);
        limited.read_to_string(&mut text).context("reading standard input")?;
        ensure!(text.len() <= REQUEST_BODY_BYTES_MAX, "standard input is larger than 4 MiB: use 'rowhouse import'");
    }
    if !text.trim_start().starts_with('[') {
        return Ok(vec![entity(text.trim(), key)?]);
    }
    ensure!(key.is_none(), "entities in an array have their own keys: remove PARTITION and ROW");
    let objects: Vec<&RawValue> = serde_json::from_str(&text).context("reading --json")?;
    let read = objects
        .iter()
        .enumerate()
        .map(|(at, object)| entity(object.get(), None).with_context(|| format!("entity {} of the array", at + 1)));
    read.collect()
}

fn entity(text: &str, key: Option<&EntityKey>) -> anyhow::Result<PropertyBag> {
    let refused = |error: LineError| anyhow!("--json, column {}: {}", error.column, error.reason);
    let Some(key) = key else { return read_line(text.as_bytes()).map_err(refused) };
    let members: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(text).ok();
    let Some(members) = members else {
        let read = read_line(text.as_bytes()).map_err(refused);
        return read.and_then(|_| bail!("--json is not an object"));
    };
    let mut whole = text.to_owned();
    let mut missing = Vec::new();
    for (name, given) in [(PARTITION_KEY, &key.partition), (ROW_KEY, &key.row)] {
        match members.get(name).map(|known| known.as_str()) {
            None => missing.push(format!("{}:{}", serde_json::json!(name), serde_json::json!(given.as_str()))),
            // The entity parser reports a key that is not a string.
            Some(None) => {}
            Some(known) => ensure!(
                known == Some(given.as_str()),
                "--json and the command line have a different {name}: remove one of them"
            ),
        }
    }
    // Add keys at the end, so that the columns in errors refer to the given text.
    if let Some(open) = whole.trim_end().strip_suffix('}').filter(|_| !missing.is_empty()) {
        let comma = if members.is_empty() { "" } else { "," };
        whole = format!("{open}{comma}{}}}", missing.join(","));
    }
    read_line(whole.as_bytes()).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(properties: &RecordBuilder) -> String {
        let shown = properties.properties().map(|property| {
            let property = property.unwrap();
            format!("{}={:?}", property.name().unwrap(), property.value().unwrap())
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    fn read(texts: &[&str]) -> anyhow::Result<String> {
        parse_properties(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>()).map(|read| shown(&read))
    }

    #[test]
    fn typed_properties() {
        for (texts, expected) in [
            (&["Name=a=b", "Empty="][..], "Name=String(\"a=b\") Empty=String(\"\")"),
            (&["Age:Int32=5", "Weight:Edm.Double=5"], "Age=Int32(5) Weight=Double(5.0)"),
            (&["At:String=x:y"], "At=String(\"x:y\")"),
        ] {
            assert_eq!(read(texts).unwrap(), expected);
        }
        for (texts, expected) in [
            (&["Name"][..], "write Name=value"),
            (&["Age:Int=5"], "use String, Int32"),
            (&["Age:Int32=x"], "is not Edm.Int32"),
            (&["a-b=1"], "not a valid property name"),
            (&["RowKey=1"], "not a valid property name"),
            (&["a=1", "a=2"], "given twice"),
        ] {
            let error = read(texts).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn json_with_and_without_keys() {
        let key = entity_key("p", "r").unwrap();
        for (text, key) in [
            (r#"{"PartitionKey":"p","RowKey":"r","N":1}"#, None),
            (r#" {"N":1} "#, Some(&key)),
            (r#"{"RowKey":"r","N":1}"#, Some(&key)),
            (r#"[{"PartitionKey":"p","RowKey":"r","N":1}]"#, None),
        ] {
            let [entity] = &parse_json(text, key).unwrap()[..] else { panic!("expected one entity") };
            assert_eq!((entity.key.partition.as_str(), entity.key.row.as_str()), ("p", "r"));
            assert_eq!(shown(entity.properties.as_record_builder()), "N=Int32(1)", "{text}");
        }
        assert!(parse_json("{}", Some(&key)).unwrap()[0].properties.is_empty());
        for (text, key, expected) in [
            (r#"{"N":1}"#, None, "the PartitionKey is missing"),
            (r#"{"N":1,}"#, Some(&key), "column 8: this is not JSON"),
            (r#"{"PartitionKey":"q"}"#, Some(&key), "a different PartitionKey"),
            (r#"{"RowKey":5}"#, Some(&key), "column 2: the RowKey is a number, but keys are strings"),
            (r#"[{"PartitionKey":5,"RowKey":"r"}]"#, None, "the PartitionKey is a number"),
            ("5", Some(&key), "expected a JSON object"),
            (r#"{"N":{}}"#, Some(&key), "'N' has a value that no property can have"),
            ("[]", Some(&key), "remove PARTITION and ROW"),
            ("[5]", None, "entity 1 of the array"),
        ] {
            let error = format!("{:#}", parse_json(text, key).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
