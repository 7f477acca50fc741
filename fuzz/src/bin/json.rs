//! JSON bodies: a parsed entity is written at every metadata level, and reads back unchanged at the levels that
//! preserve types.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use model::limits::CUSTOM_PROPERTIES_MAX;
use model::{AccountName, DateTime, EdmValue, EntityKey, EntityView, KeyText, Record};
use wire::entity_body::{EntityBody, KeyLocation};
use wire::json::{read_entity, read_table, write_single_entity, write_single_table};
use wire::payload::{EntityContext, ResponseContext};
use wire::{Format, MetadataLevel, Version};

fuzz_target!(|body: &[u8]| -> Corpus {
    if let Ok(Some(table)) = read_table(body) {
        let again = read_table(&table_body(&table)).expect("a written table is valid");
        assert_eq!(again.as_deref(), Some(table.as_str()));
    }
    let in_body = read_entity(body, KeyLocation::Body);
    let in_target = read_entity(body, KeyLocation::Address);
    match (in_body, in_target) {
        (Ok(entity), other) => {
            assert_eq!(
                Ok(&entity.properties),
                other.as_ref().map(|other| &other.properties),
                "the keys must not affect other properties"
            );
            check_written(&entity);
            Corpus::Keep
        }
        (Err(_), Ok(entity)) => {
            check_written(&entity);
            Corpus::Keep
        }
        (Err(_), Err(_)) => Corpus::Keep,
    }
});

fn check_written(entity: &EntityBody) {
    if entity.properties.len() > CUSTOM_PROPERTIES_MAX {
        return;
    }
    let record = entity.properties.clone().finish(DateTime::MIN);
    for level in [MetadataLevel::Full, MetadataLevel::Minimal, MetadataLevel::None] {
        let again =
            read_entity(&entity_body(entity, &record, level), KeyLocation::Body).expect("a written entity is valid");
        assert_eq!(again.properties.len(), entity.properties.len());
        // JSON omits the sign of zero, and without metadata some types become strings.
        if level != MetadataLevel::None && !has_negative_zero(&record) {
            assert_eq!(again.properties, entity.properties, "{level:?}");
        }
    }
}

fn has_negative_zero(record: &Record) -> bool {
    let view = record.view().expect("a new record is intact");
    view.properties().any(|property| match property.and_then(|p| p.value()) {
        Ok(EdmValue::Double(value)) => value == 0.0 && value.is_sign_negative(),
        other => {
            other.expect("a new record is intact");
            false
        }
    })
}

fn entity_body(entity: &EntityBody, record: &Record, level: MetadataLevel) -> Vec<u8> {
    let or_empty = |key: &Option<KeyText>| key.clone().unwrap_or_else(|| KeyText::new("").expect("keys may be empty"));
    let key = EntityKey { partition: or_empty(&entity.partition), row: or_empty(&entity.row) };
    let account = AccountName::new("acct").expect("the name is valid");
    let context = EntityContext { response: context("http://127.0.0.1:1/acct", &account), table: "tab", select: None };
    let view = EntityView::from_parts(&key, record).expect("a new record is intact");
    let mut out = Vec::new();
    write_single_entity(&mut out, &context, level, &view).expect("a new record is intact");
    out
}

fn context<'a>(base: &'a str, account: &'a AccountName) -> ResponseContext<'a> {
    let format = Format::Json(MetadataLevel::Minimal);
    ResponseContext { base, account, format, version: Version::ETAG_IN_MINIMAL, now: DateTime::MIN }
}

fn table_body(name: &str) -> Vec<u8> {
    let account = AccountName::new("acct").expect("the name is valid");
    let mut out = Vec::new();
    write_single_table(&mut out, context("", &account), MetadataLevel::None, name);
    out
}
