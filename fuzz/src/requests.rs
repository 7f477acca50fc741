//! The parts of a request outside its body: targets, query options, filters, versions and media types.

use model::changes_table::{ChangesTable, start_of};
use model::limits::{
    FILTER_DEPTH_MAX, FILTER_TEXT_BYTES_MAX, PAGE_RESULTS_MAX, PLAN_RANGES_MAX, REQUEST_TIMEOUT_SECONDS_MAX,
    SELECT_PROPERTIES_MAX,
};
use model::plan::{EntityFilter, plan, plan_bounds};
use model::{ChangePosition, DateTime, EdmValue, EntityKey, EntityView, Filter, KeyText, Record, RecordBuilder};
use wire::continuation::{decode, encode};
use wire::filter::{Grammar, parse, parse_optional, print};
use wire::json::read_change_set;
use wire::negotiation::{DataServiceVersion, FormatPreferences, Preference};
use wire::uri::{encode_list, form_decode, write_entity_address, write_table_address};
use wire::{Format, QueryOptions, Resource, Select, Target, Version};

/// Positions in the change feed, and the keys of its entities.
pub(crate) fn change_positions(text: &str) {
    if let Some(position) = ChangePosition::parse(text) {
        assert_eq!(position.text(), text.as_bytes());
        // Neither changes at the ends of the range.
        assert!(position.next() >= position || position.transaction == u64::MAX);
        assert!(position.previous() <= position || position.transaction == 0);
        assert_eq!(ChangePosition::parse(&position.next().to_string()), Some(position.next()));
    }
    let _ = (ChangesTable::from_name(text), start_of(text), read_change_set(text.as_bytes()));
    // A filter restricts both keys of the feed.
    if let Ok(filter) = parse_optional(text, Grammar::Service) {
        let _bounds = plan_bounds(filter.as_ref());
    }
}

/// Every encoded continuation token decodes to its original value.
pub(crate) fn continuation(text: &str) {
    assert_eq!(decode(&encode(text)).as_deref(), Some(text));
    if let Some(meaning) = decode(text) {
        assert_eq!(decode(&encode(&meaning)), Some(meaning));
    }
}

/// Printed filters parse to the same tree, a plan misses no match, extensions change no filter of the service, and
/// long expressions use no stack.
pub(crate) fn filter(text: &str) {
    let service = parse(text, Grammar::Service);
    let Ok(filter) = parse(text, Grammar::Extended) else {
        assert!(service.is_err(), "{text}");
        return;
    };
    if let Ok(service) = service {
        assert_eq!(print(&filter), print(&service));
    }
    for (partition, row, number) in [("", "", 0), ("p", "r", 5), ("q", "\u{10000}", -1)] {
        let key = |text| KeyText::new(text).expect("the key is valid");
        check_plan(&filter, &EntityKey { partition: key(partition), row: key(row) }, &record(number));
    }
    let printed = print(&filter);
    if printed.len() > FILTER_TEXT_BYTES_MAX {
        return;
    }
    let is_deep = || printed.matches("not ").count() + printed.matches('(').count() > FILTER_DEPTH_MAX;
    match parse(&printed, Grammar::Extended) {
        // Compare printed forms, because a tree that contains NaN does not equal itself.
        Ok(again) => assert_eq!(print(&again), printed),
        // Printing adds parentheses, so a printed filter can exceed the nesting limit.
        Err(error) => assert!(error.message.contains("depth") || is_deep(), "{printed}: {error}"),
    }
}

fn check_plan(filter: &Filter, key: &EntityKey, record: &Record) {
    let view = EntityView::from_parts(key, record).expect("a new record is intact");
    let plan = plan(Some(filter));
    assert!(plan.ranges.len() <= PLAN_RANGES_MAX);
    let planned = plan.ranges.iter().any(|range| range.contains(&key.encode()));
    let matches = filter.matches(&view).expect("a new record is intact");
    assert!(planned || !matches, "{key:?} matches, but {plan:?} does not reach it");
    let mut by_range = EntityFilter::new(filter.clone(), usize::MAX);
    let found = by_range.matches(&key.encode(), &mut view.into()).expect("a new record is intact");
    assert_eq!(found, matches, "{key:?} is decided differently by its range in {plan:?}");
}

/// Returns a record with a property of every type; the seeds use the names of these properties.
fn record(number: i32) -> Record {
    let mut builder = RecordBuilder::default();
    builder.push("S", EdmValue::String("text"));
    builder.push("B", EdmValue::Boolean(number > 0));
    builder.push("I", EdmValue::Int32(number));
    builder.push("L", EdmValue::Int64(i64::from(number) << 40));
    builder.push("D", EdmValue::Double(f64::from(number) / 2.0));
    builder.push("X", EdmValue::Binary(&[0, 255]));
    builder.push("T", EdmValue::DateTime(DateTime::MIN));
    builder.finish(DateTime::MIN)
}

/// The `Content-Type` of a response, sent back as `Accept`, requests the same format. The lines are: version, the two
/// data service versions, Accept, $format, Content-Type, Prefer. An empty line represents an absent header.
pub(crate) fn negotiation(text: &str) {
    let mut lines = text.split('\n').map(|line| Some(line).filter(|line| !line.is_empty()));
    let mut line = || lines.next().flatten();
    let Some(version) = line().map_or(Some(Version::OLDEST), Version::parse) else { return };
    assert_eq!(Version::parse(&version.to_string()), Some(version));
    let Ok(data_service_version) = DataServiceVersion::effective(version, line(), line()) else { return };
    let preferences = FormatPreferences { version, data_service_version, accept: line(), format: line() };
    let speaks_json = data_service_version >= DataServiceVersion::V3;
    if let (true, Ok(format @ Format::Json(level))) = (speaks_json, preferences.response_format()) {
        let accept = Some(level.content_type());
        assert_eq!(FormatPreferences { accept, format: None, ..preferences }.response_format(), Ok(format));
        assert_eq!(preferences.empty_response_format(), Ok(format));
    }
    let _ = preferences.empty_response_format();
    let (content_type, prefer) = (line(), line());
    if let Some(Ok(format)) = content_type.map(|content_type| preferences.body_format(content_type)) {
        let is_json = matches!(format, Format::Json(_));
        assert!(if is_json { version >= Version::JSON } else { version < Version::NO_ATOM }, "{version} {format:?}");
    }
    if let Some(preference) = Preference::parse(data_service_version, prefer) {
        assert_eq!(Preference::parse(data_service_version, Some(preference.applied())), Some(preference));
    }
}

/// Options stay within their limits, and decoding reverses encoding.
pub(crate) fn query_options(query: &str) {
    let options = QueryOptions::parse(query);
    assert!(options.top().is_ok_and(|top| top <= PAGE_RESULTS_MAX) || options.top().is_err());
    if let Ok(timeout) = options.timeout() {
        assert!((1..=REQUEST_TIMEOUT_SECONDS_MAX).contains(&timeout.as_secs()));
    }
    let _ = options.check_supported();
    let twice = format!("{query}&comp=acl");
    let expected = options.comp.as_deref().unwrap_or("acl");
    assert_eq!(QueryOptions::parse(&twice).comp.as_deref(), Some(expected), "the signed option is the one that counts");
    for value in [&options.filter, &options.format, &options.next_partition_key].into_iter().flatten() {
        assert_eq!(form_decode(&encode_list(value)).as_deref(), Some(value.as_ref()));
    }
    if let Some(Ok(select)) = options.select.as_deref().map(Select::parse) {
        assert!(select.names().len() <= SELECT_PROPERTIES_MAX);
        for (position, name) in select.names().iter().enumerate() {
            assert_eq!(select.position(name.as_bytes()), Some(position), "each name occurs once, at its position");
        }
    }
}

/// A resource parsed from a path can be written as a URL path, and parses back from it. The first line is the host;
/// the rest is the path.
pub(crate) fn target(text: &str) {
    let (host, path) = text.split_once('\n').unwrap_or(("127.0.0.1", text));
    let target = Target::parse(host, path, &["tables.example.net".to_owned()]);
    let raw_path = if path.is_empty() { "/" } else { path };
    assert_eq!(target.raw_path, raw_path, "the path must be kept unchanged");
    assert!(raw_path.starts_with(target.base_path));
    assert_eq!(target.signed_paths().next().as_deref(), Some(raw_path));
    // The names of existing tables consist of letters and digits, and need no escapes in a URL.
    let is_plain = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric());
    let Ok(resource) = target.resource() else { return };
    let mut address = b"/acct/".to_vec();
    match &resource {
        Resource::Entity { table, partition, row } if is_plain(table) => {
            write_entity_address(&mut address, table, partition, row);
        }
        Resource::Table(table) if is_plain(table) => write_table_address(&mut address, table),
        _ => return,
    }
    let address = String::from_utf8(address).expect("addresses are ASCII");
    assert_eq!(Target::parse("127.0.0.1", &address, &[]).resource(), Ok(resource), "{address}");
}
