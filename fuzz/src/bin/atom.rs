//! Atom bodies: a parsed entity is written in Atom and in JSON, and reads back unchanged from both.

#![no_main]

use libfuzzer_sys::fuzz_target;
use model::limits::CUSTOM_PROPERTIES_MAX;
use model::{AccountName, DateTime, EdmValue, EntityKey, EntityView, KeyText, Record};
use wire::entity_body::{EntityBody, KeyLocation};
use wire::payload::{EntityContext, ResponseContext, read_entity, read_table, write_single_entity, write_single_table};
use wire::{Format, MetadataLevel, Version};

fuzz_target!(|body: &[u8]| {
    if let Ok(Some(table)) = read_table(Format::Atom, body) {
        check_table(&table);
    }
    let in_body = read_entity(Format::Atom, body, KeyLocation::Body);
    let in_target = read_entity(Format::Atom, body, KeyLocation::Address);
    if let Ok(entity) = &in_body {
        let other = in_target.as_ref().map(|other| &other.properties);
        assert_eq!(Ok(&entity.properties), other, "the keys must not affect other properties");
    }
    if let Ok(entity) = in_target
        && entity.properties.len() <= CUSTOM_PROPERTIES_MAX
    {
        check_entity(&entity);
    }
});

fn check_table(name: &str) {
    if model::TableName::new(name).is_ok() {
        let account = AccountName::new("acct").expect("the name is valid");
        let mut out = Vec::new();
        write_single_table(&mut out, response(&account, Format::Atom), name);
        assert_eq!(read_table(Format::Atom, &out).expect("a written table is valid").as_deref(), Some(name));
    }
}

fn check_entity(entity: &EntityBody) {
    let record = entity.properties.clone().finish(DateTime::MIN);
    for format in [Format::Atom, Format::Json(MetadataLevel::Minimal)] {
        let again = read_entity(format, &written(entity, &record, format), KeyLocation::Body)
            .expect("a written entity is valid");
        // JSON omits the sign of zero.
        if format == Format::Atom || !has_negative_zero(&record) {
            assert_eq!(again.properties, entity.properties, "{format:?}");
        }
    }
}

fn has_negative_zero(record: &Record) -> bool {
    let view = record.view().expect("a new record is intact");
    let mut values =
        view.properties().map(|property| property.and_then(|p| p.value()).expect("a new record is intact"));
    values.any(|value| matches!(value, EdmValue::Double(double) if double == 0.0 && double.is_sign_negative()))
}

fn written(entity: &EntityBody, record: &Record, format: Format) -> Vec<u8> {
    let or_empty = |key: &Option<KeyText>| key.clone().unwrap_or_else(|| KeyText::new("").expect("keys may be empty"));
    let key = EntityKey { partition: or_empty(&entity.partition), row: or_empty(&entity.row) };
    let account = AccountName::new("acct").expect("the name is valid");
    let context = EntityContext { response: response(&account, format), table: "tab", select: None };
    let mut out = Vec::new();
    write_single_entity(&mut out, &context, &EntityView::from_parts(&key, record).expect("a new record is intact"))
        .expect("a new record is intact");
    out
}

fn response(account: &AccountName, format: Format) -> ResponseContext<'_> {
    let version = Version::parse("2014-02-14").expect("the version is known");
    ResponseContext { base: "http://127.0.0.1:1/acct", account, format, version, now: DateTime::MIN }
}
