//! Bodies of requests and of responses. What was read, and is written, reads back unchanged.

use model::limits::{CUSTOM_PROPERTIES_MAX, TRANSACTION_OPERATIONS_MAX};
use model::{
    AccountName, DateTime, Dialect, EdmValue, EntityKey, EntityLimits, EntityView, KeyText, Record, ServiceProperties,
    TableName,
};
use wire::batch::{Batch, PartRequest, PartTarget, end, read_responses, start_changeset, start_part};
use wire::entity_body::{EntityBody, KeyLocation};
use wire::error_response::ErrorResponse;
use wire::json::{read_entity_set, read_table_set};
use wire::payload::{EntityContext, ResponseContext, read_entity, read_table, write_single_entity, write_single_table};
use wire::{Format, MetadataLevel, Version};
use wire::{acl, service_properties, table_indexes, table_retention};

const BATCH: &str = "batch_made_by_the_fuzz_target";
const CHANGESET: &str = "changeset_made_by_the_fuzz_target";
const MINIMAL: Format = Format::Json(MetadataLevel::Minimal);

pub(crate) fn acl(body: &[u8]) {
    let Ok(policies) = acl::read(body) else { return };
    assert!(policies.as_slice().len() <= 5);
    assert_eq!(acl::read(&acl::write(&policies)), Ok(policies));
}

pub(crate) fn table_indexes(body: &[u8]) {
    let Ok(indexes) = table_indexes::read(body) else { return };
    assert!(indexes.len() <= 8);
    assert_eq!(table_indexes::read(&table_indexes::write(&indexes)), Ok(indexes));
}

pub(crate) fn table_retention(body: &[u8]) {
    let Ok(retention) = table_retention::read(body) else { return };
    assert_eq!(table_retention::read(&table_retention::write(retention.as_ref())), Ok(retention));
}

pub(crate) fn service_properties(body: &[u8]) {
    for text in ["2012-02-12", "2019-02-02"] {
        let version = Version::parse(text).expect("the version is known");
        let Ok(update) = service_properties::read(body, version) else { continue };
        let properties = ServiceProperties::default().updated(update);
        let written = service_properties::write(&properties, version);
        let again = service_properties::read(&written, version).expect("the service must accept its own output");
        assert_eq!(ServiceProperties::default().updated(again), properties);
    }
}

pub(crate) fn json(body: &[u8]) {
    check(MINIMAL, body, &[Format::Json(MetadataLevel::Full), MINIMAL, Format::Json(MetadataLevel::None)]);
}

pub(crate) fn atom(body: &[u8]) {
    check(Format::Atom, body, &[Format::Atom, MINIMAL]);
}

fn check(format: Format, body: &[u8], written: &[Format]) {
    if let Ok(Some(table)) = read_table(format, body)
        && (format != Format::Atom || TableName::new(&table).is_ok())
    {
        let mut out = Vec::new();
        write_single_table(&mut out, response(&account(), format), &table);
        assert_eq!(read_table(format, &out).expect("a written table is valid"), Some(table));
    }
    let in_body = read_entity(format, body, KeyLocation::Body, Version::JSON, &EntityLimits::STORAGE);
    let in_target = read_entity(format, body, KeyLocation::Address, Version::JSON, &EntityLimits::STORAGE);
    if let Ok(entity) = &in_body {
        let other = in_target.as_ref().map(|other| &other.properties);
        assert_eq!(Ok(&entity.properties), other, "the keys must not affect other properties");
    }
    if let Ok(entity) = in_body.or(in_target)
        && entity.properties.len() <= CUSTOM_PROPERTIES_MAX
    {
        written.iter().for_each(|format| check_written(&entity, *format));
    }
}

fn check_written(entity: &EntityBody, format: Format) {
    let record = entity.properties.clone().finish(DateTime::MIN);
    let or_empty = |key: &Option<KeyText>| key.clone().unwrap_or_else(|| KeyText::new("").expect("keys may be empty"));
    let key = EntityKey { partition: or_empty(&entity.partition), row: or_empty(&entity.row) };
    let view = EntityView::from_parts(&key, &record).expect("a new record is intact");
    let account = account();
    let context = EntityContext { response: response(&account, format), table: "tab", select: None };
    let mut out = Vec::new();
    write_single_entity(&mut out, &context, &view).expect("a new record is intact");
    let again = read_entity(format, &out, KeyLocation::Body, Version::JSON, &EntityLimits::STORAGE)
        .expect("a written entity is valid");
    assert_eq!(again.properties.len(), entity.properties.len());
    // JSON omits the sign of zero, and without metadata some types become strings.
    if format == Format::Atom || format != Format::Json(MetadataLevel::None) && !has_negative_zero(&record) {
        assert_eq!(again.properties, entity.properties, "{format:?}");
    }
}

fn has_negative_zero(record: &Record) -> bool {
    let view = record.view().expect("a new record is intact");
    let mut values =
        view.properties().map(|property| property.and_then(|p| p.value()).expect("a new record is intact"));
    values.any(|value| matches!(value, EdmValue::Double(double) if double == 0.0 && double.is_sign_negative()))
}

fn account() -> AccountName {
    AccountName::new("acct").expect("the name is valid")
}

fn response(account: &AccountName, format: Format) -> ResponseContext<'_> {
    let version = Version::ETAG_IN_MINIMAL;
    ResponseContext {
        base: "http://127.0.0.1:1/acct",
        account,
        dialect: Dialect::Storage,
        format,
        version,
        now: DateTime::MIN,
    }
}

/// Separates the `Content-Type`, which is the first line, from the body.
fn split_type(input: &[u8]) -> (Option<&str>, &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (first, body) = input.split_at(end);
    (std::str::from_utf8(first).ok(), body.strip_prefix(b"\n").unwrap_or(body))
}

/// Responses as parsed by a client, from a possibly hostile server: pages, tables, batches and errors.
pub(crate) fn responses(input: &[u8]) {
    let (content_type, body) = split_type(input);
    let _ = (read_table_set(body), read_entity_set(body));
    if let Some(error) = ErrorResponse::read(body) {
        assert!(!error.message.contains('\n'), "the message must be a single line");
    }
    let parts = content_type.and_then(|content_type| read_responses(content_type, body).ok()).unwrap_or_default();
    assert!(parts.len() <= TRANSACTION_OPERATIONS_MAX);
    for part in parts {
        let _ = ErrorResponse::read(part.body);
    }
}

/// A parsed batch is written in its simplest form, and the targets of its operations belong to the account.
pub(crate) fn batch(input: &[u8]) {
    let (Some(content_type), body) = split_type(input) else { return };
    let Ok(batch) = wire::batch::read(content_type, body, TRANSACTION_OPERATIONS_MAX) else { return };
    let (operations, is_changeset) = match &batch {
        Batch::Changeset(changeset) => (changeset.operations.as_slice(), true),
        Batch::Single(operation) => (std::slice::from_ref(operation), false),
        Batch::Mixed => return,
    };
    assert!(operations.len() <= TRANSACTION_OPERATIONS_MAX);
    for target in operations.iter().map(|operation| operation.target) {
        if let Ok(inner) = PartTarget::parse(target, &account(), &["tables.example.net".to_owned()]) {
            assert!(target.contains(inner.path) && target.contains(inner.query));
            assert!(!inner.path.contains('?'));
        }
    }
    // If the input contained the boundaries of the new batch, that batch would end early.
    let contains = |part: &str| input.windows(part.len()).any(|window| window == part.as_bytes());
    if operations.is_empty() || contains(BATCH) || contains(CHANGESET) {
        return;
    }
    let written = written(operations, is_changeset);
    match wire::batch::read(&format!("multipart/mixed; boundary={BATCH}"), &written, TRANSACTION_OPERATIONS_MAX) {
        Ok(Batch::Changeset(again)) if is_changeset => assert_eq!(again.operations, operations),
        Ok(Batch::Single(again)) if !is_changeset => assert_eq!(&[again], operations),
        other => panic!("{:?} is parsed as {other:?}", String::from_utf8_lossy(&written)),
    }
}

fn written(operations: &[PartRequest<'_>], is_changeset: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let boundary = if is_changeset { CHANGESET } else { BATCH };
    if is_changeset {
        start_changeset(&mut out, BATCH, CHANGESET);
    }
    for operation in operations {
        start_part(&mut out, boundary);
        write_operation(&mut out, operation);
    }
    if is_changeset {
        end(&mut out, CHANGESET);
    }
    end(&mut out, BATCH);
    out
}

fn write_operation(out: &mut Vec<u8>, operation: &PartRequest<'_>) {
    let PartRequest { method, target, headers, content_id, body, .. } = operation;
    let headers = [
        ("Accept", headers.accept),
        ("Content-Type", headers.content_type),
        ("If-Match", headers.if_match),
        ("If-None-Match", headers.if_none_match),
        ("Prefer", headers.prefer),
        ("DataServiceVersion", headers.data_service_version),
        ("MaxDataServiceVersion", headers.max_data_service_version),
        ("Content-ID", *content_id),
    ];
    let overrides = operation.method_overrides.iter().map(|method| ("X-HTTP-Method", Some(*method)));
    let length = body.len();
    let lines =
        headers.into_iter().chain(overrides).filter_map(|(name, value)| Some(format!("{name}: {}\r\n", value?)));
    let head = format!("{method} {target} HTTP/1.1\r\n{}Content-Length: {length}\r\n\r\n", lines.collect::<String>());
    out.extend([head.as_bytes(), body, b"\r\n"].concat());
}
