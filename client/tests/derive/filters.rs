use proptest::prelude::*;
use rowhouse_client::entity::{DateTime, Entity, EntityError, Guid, PropertyBag, PropertyField};
use rowhouse_client::filter::{Filter, Projection, Property};
use std::time::{Duration, SystemTime};
use wire::filter::{Grammar, parse};

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(rename_all = "PascalCase")]
struct Customer {
    #[entity(partition_key)]
    city: String,
    #[entity(row_key, padded = 6)]
    number: u32,
    name: String,
    visits: i64,
    level: Option<i32>,
    score: f64,
    is_active: bool,
    hash: Vec<u8>,
    id: Guid,
    born: SystemTime,
}

#[derive(Debug, Clone, PartialEq, Entity)]
struct Event {
    #[entity(partition_key)]
    source: String,
    #[entity(row_key, inverted)]
    at: DateTime,
}

#[test]
fn every_literal() {
    let p = Customer::PROPERTIES;
    let id = Guid::from_bytes([0xAB; 16]);
    let born = SystemTime::UNIX_EPOCH + Duration::from_millis(1);
    let name = String::from("O'Hara");
    for (filter, expected) in [
        (p.name.eq("O'Hara"), "Name eq 'O''Hara'"),
        (p.name.ne(&name), "Name ne 'O''Hara'"),
        (p.name.lt(name), "Name lt 'O''Hara'"),
        (p.visits.gt(5), "Visits gt 5L"),
        (p.visits.le(-5_i64), "Visits le -5L"),
        (p.level.ge(5), "Level ge 5"),
        (p.score.lt(5), "Score lt 5.0"),
        (p.score.lt(5.0), "Score lt 5.0"),
        (p.score.eq(1e300), "Score eq 1E+300"),
        (p.score.eq(0.1), "Score eq 0.1"),
        (p.score.lt(f64::INFINITY), "Score lt INF"),
        (p.score.gt(f64::NEG_INFINITY), "Score gt -INF"),
        (p.is_active.eq(false), "IsActive eq false"),
        (p.is_active.is_true(), "IsActive eq true"),
        (p.hash.eq(&[0, 0xFF]), "Hash eq X'00ff'"),
        (p.hash.ne(vec![]), "Hash ne X''"),
        (p.id.eq(id), "Id eq guid'abababab-abab-abab-abab-abababababab'"),
        (p.born.gt(born), "Born gt datetime'1970-01-01T00:00:00.001Z'"),
        (p.timestamp.gt(born), "Timestamp gt datetime'1970-01-01T00:00:00.001Z'"),
        (p.born.lt(DateTime::MIN), "Born lt datetime'1601-01-01T00:00:00Z'"),
        (p.timestamp.lt(time::OffsetDateTime::UNIX_EPOCH), "Timestamp lt datetime'1970-01-01T00:00:00Z'"),
        (p.timestamp.lt(chrono::DateTime::UNIX_EPOCH), "Timestamp lt datetime'1970-01-01T00:00:00Z'"),
        (p.timestamp.lt(jiff::Timestamp::UNIX_EPOCH), "Timestamp lt datetime'1970-01-01T00:00:00Z'"),
        (p.id.eq(uuid::Uuid::nil()), "Id eq guid'00000000-0000-0000-0000-000000000000'"),
        (p.timestamp.gt(DateTime::MIN), "Timestamp gt datetime'1601-01-01T00:00:00Z'"),
    ] {
        assert_eq!(filter.to_string(), expected);
        let text = filter.text().unwrap();
        assert_eq!(parse(&text, Grammar::Service).unwrap(), filter.into_model().unwrap(), "{text} must mean the same");
    }
}

#[test]
fn filters_are_combined() {
    let p = Customer::PROPERTIES;
    let filter = |p: <Customer as Entity>::Properties| p.visits.gt(5) & !p.name.eq("x");
    assert_eq!(filter(p).to_string(), "Visits gt 5L and not (Name eq 'x')");
    let (a, b, c) = (p.visits.eq(1), p.visits.eq(2), p.visits.eq(3));
    let both = a.clone() & b.clone();
    assert_eq!((both.clone() | c.clone()).to_string(), "Visits eq 1L and Visits eq 2L or Visits eq 3L");
    assert_eq!((c.clone() & (a.clone() | b)).to_string(), "Visits eq 3L and (Visits eq 1L or Visits eq 2L)");
    assert_eq!((!both).to_string(), "not (Visits eq 1L and Visits eq 2L)");
    assert_eq!(!!a.clone(), a);
    assert_eq!((c | p.number.eq(5)).to_string(), "Visits eq 3L or RowKey eq '000005'");
}

#[test]
fn ranges_and_prefixes() {
    let p = Customer::PROPERTIES;
    assert_eq!(p.name.in_range("a".."c").to_string(), "Name ge 'a' and Name lt 'c'");
    assert_eq!(p.visits.in_range(1..=5).to_string(), "Visits ge 1L and Visits le 5L");
    assert_eq!(p.score.in_range(..2.5).to_string(), "Score lt 2.5");
    assert_eq!(p.visits.in_range::<i64>(..).to_string(), "true");
    assert_eq!(p.name.starts_with("D'").to_string(), "Name ge 'D''' and Name lt 'D('");
    assert_eq!(p.city.starts_with("Ber").to_string(), "PartitionKey ge 'Ber' and PartitionKey lt 'Bes'");
    assert_eq!(p.name.starts_with("").to_string(), "Name ge ''");
    assert_eq!(p.row_key.starts_with("0000").to_string(), "RowKey ge '0000' and RowKey lt '0001'");
}

/// An extension: the service has no functions.
#[test]
fn string_functions() {
    let p = Customer::PROPERTIES;
    for (filter, expected) in [
        (p.name.ends_with("'Hara"), "endswith(Name,'''Hara')"),
        (p.name.contains(String::from("é😀")), "contains(Name,'é😀')"),
        (p.city.ends_with("in"), "endswith(PartitionKey,'in')"),
        (p.city.contains("") & !p.name.contains("x"), "contains(PartitionKey,'') and not contains(Name,'x')"),
        (p.row_key.ends_with("7") | p.visits.gt(5), "endswith(RowKey,'7') or Visits gt 5L"),
        (p.row_key.contains("42"), "contains(RowKey,'42')"),
    ] {
        let text = filter.text().unwrap();
        assert_eq!(text, expected);
        assert!(parse(&text, Grammar::Service).is_err(), "{text}");
        assert_eq!(parse(&text, Grammar::Extended).unwrap(), filter.into_model().unwrap(), "{text} must mean the same");
    }
}

#[test]
fn key_fields_are_compared_in_their_format() {
    let p = Customer::PROPERTIES;
    assert_eq!(p.number.gt(42).to_string(), "RowKey gt '000042'");
    assert_eq!(p.number.in_range(1..10).to_string(), "RowKey ge '000001' and RowKey lt '000010'");
    let at = Event::PROPERTIES.at;
    let (early, late) =
        (DateTime::parse("2026-01-01T00:00:00Z").unwrap(), DateTime::parse("2026-01-02T00:00:00Z").unwrap());
    let (early_text, late_text) = ("2516350751999999999", "2516349887999999999");
    for (filter, expected) in [
        (at.eq(early), format!("RowKey eq '{early_text}'")),
        (at.ne(early), format!("RowKey ne '{early_text}'")),
        (at.gt(early), format!("RowKey lt '{early_text}'")),
        (at.ge(early), format!("RowKey le '{early_text}'")),
        (at.lt(early), format!("RowKey gt '{early_text}'")),
        (at.le(early), format!("RowKey ge '{early_text}'")),
        (at.in_range(early..late), format!("RowKey gt '{late_text}' and RowKey le '{early_text}'")),
        (at.in_range(early..), format!("RowKey le '{early_text}'")),
    ] {
        assert_eq!(filter.to_string(), expected);
    }
}

#[test]
fn a_value_without_a_literal_is_an_error_of_the_whole_filter() {
    let p = Customer::PROPERTIES;
    let wide = p.visits.eq(1) & (p.number.eq(1_000_000) | p.visits.eq(2));
    let error = wide.text().unwrap_err();
    assert_eq!(error.to_string(), "property 'RowKey': 1000000 has more than 6 digits");
    assert!(parse(&wide.to_string(), Grammar::Extended).is_err(), "{wide}");
    let early = !p.born.in_range(SystemTime::UNIX_EPOCH - Duration::from_secs(20_000_000_000)..);
    assert!(matches!(early.into_model(), Err(EntityError::Value { .. })));
    let injected = PropertyBag::PROPERTIES.property::<i32>("A eq 1 or B").eq(1);
    assert!(matches!(injected.text(), Err(EntityError::PropertyName { .. })));
    let injected = PropertyBag::PROPERTIES.property::<String>("true or B");
    for filter in [injected.starts_with("x"), injected.ends_with("x"), injected.contains("x")] {
        assert!(matches!(filter.text(), Err(EntityError::PropertyName { .. })));
    }
}

fn greater_than_five<E, T: PropertyField<Value = i64>>(property: Property<E, T>) -> Filter<E> {
    property.gt(5)
}

#[test]
fn filters_in_generic_code() {
    assert_eq!(greater_than_five(Customer::PROPERTIES.visits).to_string(), "Visits gt 5L");
}

#[test]
fn projections_read_what_they_name() {
    let p = Customer::PROPERTIES;
    let bag = PropertyBag::new("Berlin", "000042").unwrap().with("Name", "Ada".to_owned()).unwrap();
    let projection = (p.name, p.level, p.number, (p.city, p.row_key));
    assert_eq!(projection.names(), ["Name", "Level", "RowKey", "PartitionKey", "RowKey"]);
    let expected = ("Ada".to_owned(), None, 42, ("Berlin".to_owned(), "000042".to_owned()));
    assert_eq!(projection.read(&bag).unwrap(), expected);
    assert!(matches!(p.visits.read(&bag), Err(EntityError::Missing { .. })));
    let eight = (p.name, p.name, p.name, p.name, p.name, p.name, p.name, p.name);
    assert_eq!(eight.read(&bag).unwrap().7, "Ada");
}

proptest! {
    /// The service's own evaluation of a filter must select exactly the matching values.
    #[test]
    fn filters_mean_what_their_methods_say(value in any::<u32>(), bound in any::<u32>(), text in ".{0,4}", prefix in ".{0,2}") {
        let (value, bound) = (value % 1_000_000, bound % 1_000_000);
        let at = |seconds: u32| DateTime::from_ticks(i64::from(seconds)).unwrap();
        let event = Event { source: "s".into(), at: at(value) }.to_bag().unwrap();
        let mut customer = PropertyBag::new("c", &format!("{value:06}")).unwrap();
        customer.set("Name", text.clone()).unwrap();
        let (c, e) = (Customer::PROPERTIES, Event::PROPERTIES);
        for (found, expected) in [
            (matches(&c.number.gt(bound), &customer), value > bound),
            (matches(&c.number.in_range(..=bound), &customer), value <= bound),
            (matches(&c.name.starts_with(&prefix), &customer), text.starts_with(&prefix)),
            (matches(&c.name.ends_with(&prefix), &customer), text.ends_with(&prefix)),
            (matches(&c.name.contains(&prefix), &customer), text.contains(&prefix)),
            (matches(&e.at.gt(at(bound)), &event), value > bound),
            (matches(&e.at.le(at(bound)), &event), value <= bound),
            (matches(&e.at.in_range(at(bound)..at(bound + 1000)), &event), (bound..bound + 1000).contains(&value)),
        ] {
            prop_assert_eq!(found, expected);
        }
    }
}

fn matches<E>(filter: &Filter<E>, bag: &PropertyBag) -> bool {
    let text = filter.text().unwrap();
    let record = bag.properties.clone().into_record_builder().finish(DateTime::MIN);
    let entity = model::EntityView::from_parts(&bag.key, &record).unwrap();
    parse(&text, Grammar::Extended).unwrap().matches(&entity).unwrap()
}
