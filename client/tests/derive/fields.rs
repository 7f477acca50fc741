//! Every attribute of structs and fields: round trips and decoding errors.

use rowhouse_client::entity::{
    DateTime, ETag, EdmType, EdmValue, Entity, EntityError, EntityKey, Guid, KeyName, Properties, PropertyBag,
    PropertyField,
};
use rowhouse_client::filter::Projection;
use serde::{Deserialize, Serialize};

#[track_caller]
fn assert_round_trip<E: Entity + Clone + PartialEq + std::fmt::Debug>(entity: &E) -> PropertyBag {
    let bag = entity.to_bag().unwrap();
    assert_eq!(&E::from_bag(bag.clone()).unwrap(), entity);
    assert_eq!(bag.key, entity.key().unwrap());
    bag
}

fn bag() -> PropertyBag {
    PropertyBag::new("p", "r").unwrap()
}

fn with<T: PropertyField>(name: &str, value: T) -> PropertyBag {
    bag().with(name, value).unwrap()
}

#[derive(Debug, Clone, PartialEq, Entity)]
struct Every {
    #[entity(partition_key)]
    p: String,
    #[entity(row_key)]
    r: String,
    text: String,
    int: i32,
    long: i64,
    double: f64,
    flag: bool,
    guid: Guid,
    instant: DateTime,
    bytes: Vec<u8>,
    maybe: Option<i32>,
}

fn every() -> Every {
    Every {
        p: "p".into(),
        r: "r".into(),
        text: "é".into(),
        int: -1,
        long: i64::MAX,
        double: 0.1,
        flag: true,
        guid: Guid::from_bytes([7; 16]),
        instant: DateTime::MAX,
        bytes: vec![0, 255],
        maybe: None,
    }
}

#[test]
fn names_are_those_of_the_fields_and_types_those_of_rust() {
    let bag = assert_round_trip(&every());
    let types: Vec<_> = bag.properties.iter().map(|(name, value)| (name, value.edm_type())).collect();
    let expected = [
        ("text", EdmType::String),
        ("int", EdmType::Int32),
        ("long", EdmType::Int64),
        ("double", EdmType::Double),
        ("flag", EdmType::Boolean),
        ("guid", EdmType::Guid),
        ("instant", EdmType::DateTime),
        ("bytes", EdmType::Binary),
    ];
    assert_eq!(types, expected);
    let select = Every::SELECT.unwrap();
    assert_eq!(select, ["text", "int", "long", "double", "flag", "guid", "instant", "bytes", "maybe"]);
    assert!(Every::ENCRYPTED.is_empty());
    assert_round_trip(&Every { maybe: Some(5), ..every() });
}

#[test]
fn a_missing_property_and_one_of_another_type_are_errors_that_name_it() {
    let mut bag = every().to_bag().unwrap();
    bag.remove("long");
    let error = Every::from_bag(bag.clone()).unwrap_err();
    assert_eq!(error, EntityError::Missing { property: "long".into(), expected: EdmType::Int64 });
    bag.set("long", "text".to_owned()).unwrap();
    let error = Every::from_bag(bag.clone()).unwrap_err();
    let expected = EntityError::Type { property: "long".into(), expected: EdmType::Int64, found: EdmType::String };
    assert_eq!(error, expected);
    bag.set("long", 3).unwrap();
    bag.set("double", 4).unwrap();
    let read = Every::from_bag(bag.clone()).unwrap();
    assert_eq!((read.long, read.double), (3, 4.0), "Int32 is widened");
    bag.set("int", 3_i64).unwrap();
    assert!(Every::from_bag(bag).is_err(), "nothing is narrowed");
    let mut bag = every().to_bag().unwrap();
    bag.set("maybe", true).unwrap();
    assert!(Every::from_bag(bag).is_err(), "an Option does not allow other types");
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(rename_all = "PascalCase", partition_key = "p", row_key = "r")]
struct Renamed {
    first_name: String,
    r#type: i32,
    #[entity(rename = "etag_")]
    other: bool,
}

#[test]
fn properties_are_renamed() {
    let entity = Renamed { first_name: "Ada".into(), r#type: 1, other: true };
    assert_round_trip(&entity);
    assert_eq!(Renamed::SELECT, Some(["FirstName", "Type", "etag_"].as_slice()));
    let p = Renamed::PROPERTIES;
    assert_eq!((p.first_name.eq("A") & p.r#type.eq(1)).to_string(), "FirstName eq 'A' and Type eq 1");
}

fn seven() -> i32 {
    7
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition_key = "p", row_key = "r")]
struct Defaults {
    #[entity(default)]
    plain: i32,
    #[entity(default = seven)]
    path: i32,
    #[entity(lenient)]
    lenient: String,
    #[entity(lenient, default = seven)]
    both: i32,
    #[entity(default = fallback)]
    option: Option<i32>,
}

fn fallback() -> Option<i32> {
    "7".parse().ok()
}

#[test]
fn defaults_stand_for_what_is_missing_and_lenient_fields_for_what_does_not_fit() {
    let expected = Defaults { plain: 0, path: 7, lenient: String::new(), both: 7, option: Some(7) };
    assert_eq!(Defaults::from_bag(bag()).unwrap(), expected);
    assert_round_trip(&Defaults { plain: 1, path: 2, lenient: "x".into(), both: 3, option: Some(4) });
    for name in ["plain", "path", "option"] {
        assert!(matches!(Defaults::from_bag(with(name, true)), Err(EntityError::Type { .. })), "{name}");
    }
    let wrong = with("lenient", true).with("both", true).unwrap();
    assert_eq!(Defaults::from_bag(wrong.clone()).unwrap(), expected);
    assert_eq!((Defaults::PROPERTIES.both, Defaults::PROPERTIES.path).read(&wrong).unwrap(), (7, 7));
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition_key = "p", row_key = "r", mismatch = "ignore")]
struct Ignoring {
    level: i32,
    name: Option<String>,
    #[entity(default = seven)]
    strict: i32,
}

#[test]
fn a_type_that_ignores_mismatches_has_defaults_everywhere_but_where_a_field_says_otherwise() {
    let wrong = with("level", true).with("name", 1).unwrap();
    assert_eq!(Ignoring::from_bag(wrong).unwrap(), Ignoring { level: 0, name: None, strict: 7 });
    assert!(Ignoring::from_bag(with("strict", true)).is_err());
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition_key = "p", row_key = "r", mismatch = "error")]
struct Skipping {
    #[entity(skip)]
    cache: Vec<u64>,
    #[entity(skip, default = seven)]
    seven: i32,
    level: i32,
}

#[test]
fn skipped_fields_are_not_stored() {
    let entity = Skipping { cache: vec![1], seven: 1, level: 2 };
    let bag = entity.to_bag().unwrap();
    assert_eq!(bag.properties.len(), 1);
    assert_eq!(Skipping::from_bag(bag).unwrap(), Skipping { cache: vec![], seven: 7, level: 2 });
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
struct Address {
    city: String,
    lines: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition_key = "p", row_key = "r")]
struct Json {
    #[entity(json)]
    address: Address,
    #[entity(json)]
    maybe: Option<Address>,
    #[entity(json, default)]
    default: Address,
    #[entity(json, lenient, rename = "Lenient")]
    lenient: Address,
}

#[test]
fn json_fields_are_one_string() {
    let address = Address { city: "Köln".into(), lines: vec!["a\"b".into()] };
    let entity = Json {
        address: address.clone(),
        maybe: Some(address.clone()),
        default: address.clone(),
        lenient: Address::default(),
    };
    let bag = assert_round_trip(&entity);
    assert_eq!(bag.get::<String>("address").unwrap(), "{\"city\":\"Köln\",\"lines\":[\"a\\\"b\"]}");
    let none = Json { maybe: None, ..entity };
    assert_eq!(assert_round_trip(&none).properties.get("maybe"), None);
    assert_eq!(Json::PROPERTIES.address.read(&bag).unwrap(), address);
}

#[test]
fn what_is_not_the_json_of_a_field_is_an_error() {
    let good =
        Json { address: Address::default(), maybe: None, default: Address::default(), lenient: Address::default() };
    let bag = good.to_bag().unwrap();
    let mut missing = bag.clone();
    assert!(missing.remove("address") && missing.remove("default") && missing.remove("Lenient"));
    let expected = EntityError::Missing { property: "address".into(), expected: EdmType::String };
    assert_eq!(Json::from_bag(missing).unwrap_err(), expected);
    for (name, is_error) in [("address", true), ("maybe", true), ("default", true), ("Lenient", false)] {
        for wrong in [bag.clone().with(name, "{".to_owned()).unwrap(), bag.clone().with(name, 1).unwrap()] {
            assert_eq!(Json::from_bag(wrong).is_err(), is_error, "{name}");
        }
    }
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition_key = "p", row_key = "{r}")]
struct Rest {
    #[entity(stored)]
    r: String,
    level: i32,
    #[entity(rest)]
    others: Properties,
    #[entity(etag)]
    version: Option<ETag>,
    #[entity(timestamp)]
    changed: Option<DateTime>,
}

#[test]
fn the_rest_is_kept_and_the_system_properties_are_read() {
    let mut bag = with("level", 1).with("r", "r".to_owned()).unwrap().with("Other", 5_i64).unwrap();
    bag.set("More", vec![1_u8]).unwrap();
    bag.etag = Some(ETag::from("W/\"1\""));
    bag.timestamp = Some(DateTime::MAX);
    let mut read = Rest::from_bag(bag.clone()).unwrap();
    assert_eq!(read.others.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["Other", "More"]);
    assert_eq!((&read.version, read.changed), (&bag.etag, bag.timestamp));
    assert_eq!(assert_round_trip(&read), bag);
    assert_eq!(Rest::SELECT, None);
    assert_eq!(Rest::PROPERTIES.changed.read(&bag).unwrap(), Some(DateTime::MAX));
    assert_eq!(Rest::PROPERTIES.timestamp.read(&bag).unwrap(), DateTime::MAX);
    for known in ["level", "r"] {
        read.others = Properties::default();
        read.others.set(known, &2).unwrap();
        assert_eq!(read.to_bag().unwrap_err(), EntityError::Duplicate { property: known.into() });
    }
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition_key = "p", row_key = "r")]
struct Changed {
    #[entity(timestamp)]
    timestamp: std::time::SystemTime,
}

#[test]
fn a_timestamp_can_be_of_another_type_and_required() {
    let instant = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1);
    assert_round_trip(&Changed { timestamp: instant });
    let expected = EntityError::Missing { property: "Timestamp".into(), expected: EdmType::DateTime };
    assert_eq!(Changed::from_bag(bag()).unwrap_err(), expected);
    assert_eq!(Changed::PROPERTIES.timestamp.lt(instant).to_string(), "Timestamp lt datetime'1970-01-01T00:00:01Z'");
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition_key = "p", row_key = "r")]
struct Secret {
    #[entity(encrypt, rename = "Name")]
    name: String,
    #[entity(encrypt)]
    note: Option<String>,
    level: i32,
}

#[test]
fn marked_properties_are_to_be_encrypted() {
    assert_eq!(Secret::ENCRYPTED, ["Name", "note"]);
    let bag = assert_round_trip(&Secret { name: "x".into(), note: None, level: 1 });
    assert_eq!((Secret::PROPERTIES.name, Secret::PROPERTIES.note).read(&bag).unwrap(), ("x".to_owned(), None));
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition_key = "p", row_key = "r")]
struct Generic<T: PropertyField + 'static>
where
    T: Clone,
{
    value: T,
}

#[test]
fn types_can_be_generic() {
    assert_round_trip(&Generic { value: 1 });
    assert_round_trip(&Generic { value: Some("x".to_owned()) });
    assert_eq!(<Generic<Option<i64>>>::PROPERTIES.value.ge(1).to_string(), "value ge 1L");
}

mod renamed_dependency {
    //! The crate under a different name.

    pub(super) use rowhouse_client as tables;
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(crate = renamed_dependency::tables, partition_key = "p", row_key = "r")]
struct OtherCrate {
    level: i32,
}

#[test]
fn the_crate_may_have_another_name() {
    assert_round_trip(&OtherCrate { level: 1 });
}

#[test]
fn limits_are_checked_before_anything_is_sent() {
    let mut entity = every();
    entity.text = "x".repeat(32 * 1024 + 1);
    assert_eq!(entity.to_bag().unwrap_err(), EntityError::TooLarge { property: "text".into() });
    let mut bag = bag();
    for i in 0..252 {
        bag.set(&format!("P{i}"), i).unwrap();
    }
    assert_eq!(bag.set("More", 1).unwrap_err(), EntityError::TooManyProperties);
    bag.set("P0", 1).unwrap();
    assert_eq!(bag.properties.get("P0"), Some(EdmValue::Int32(1)));
    for name in ["", "1a", "a b", "PartitionKey", "RowKey", "Timestamp"] {
        assert_eq!(bag.set(name, 1).unwrap_err(), EntityError::PropertyName { property: name.into() });
    }
}

#[test]
fn bags_are_equal_in_any_order() {
    let one = with("A", 1).with("B", 2).unwrap();
    let other = with("B", 2).with("A", 1).unwrap();
    assert_eq!(one, other);
    assert_ne!(one, with("A", 1));
    assert_ne!(one, with("A", 1).with("B", 3).unwrap());
}

#[no_implicit_prelude]
mod hygiene {
    //! Types in a module without a prelude.

    #[derive(::rowhouse_client::entity::Entity)]
    #[entity(partition_key = "{text}", row_key = "{number:08}_{text}")]
    pub(super) struct Plain {
        pub(super) text: ::std::string::String,
        #[entity(stored)]
        pub(super) number: i32,
        #[entity(default)]
        pub(super) level: i32,
        #[entity(json)]
        pub(super) list: ::std::vec::Vec<i32>,
        #[entity(rest)]
        pub(super) rest: ::rowhouse_client::entity::Properties,
        #[entity(etag)]
        pub(super) etag: ::std::option::Option<::rowhouse_client::entity::ETag>,
    }

    #[derive(::rowhouse_client::entity::Entity)]
    #[entity(tag = "Kind")]
    pub(super) enum Kinds {
        Plain(Plain),
    }
}

#[test]
fn the_generated_code_needs_no_names_of_the_module() {
    let plain = hygiene::Plain {
        text: "a".into(),
        number: 7,
        level: 1,
        list: vec![1, 2],
        rest: Properties::default(),
        etag: None,
    };
    let bag = hygiene::Kinds::Plain(plain).to_bag().unwrap();
    assert_eq!((bag.key.partition.as_str(), bag.key.row.as_str()), ("a", "00000007_a"));
    let hygiene::Kinds::Plain(plain) = hygiene::Kinds::from_bag(bag.clone()).unwrap();
    assert_eq!((plain.text.as_str(), plain.number, plain.level, plain.list), ("a", 7, 1, vec![1, 2]));
    assert!(plain.rest.is_empty() && plain.etag.is_none());
    let mut other = bag;
    other.key = EntityKey::new("a", "00000007_b").unwrap();
    let error = hygiene::Kinds::from_bag(other).err().unwrap();
    assert!(matches!(error, EntityError::KeyForm { key: KeyName::Row, .. }), "the two keys disagree: {error}");
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition_key = "{department}", row_key = "e_{id}")]
struct Employee {
    department: String,
    id: u32,
    #[entity(encrypt)]
    salary: i64,
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition_key = "{name}", row_key = "department")]
struct Department {
    name: String,
    #[entity(encrypt)]
    budget: Option<i64>,
    employees: i32,
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(tag = "EntityType")]
enum Closed {
    #[entity(kind = "employee")]
    Employee(Employee),
    Department(Department),
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(tag = "EntityType")]
enum Open {
    Employee(Employee),
    #[entity(other)]
    Other(PropertyBag),
}

fn employee() -> Employee {
    Employee { department: "Sales".into(), id: 7, salary: 1 }
}

#[test]
fn the_tag_decides() {
    let department = Department { name: "Sales".into(), budget: None, employees: 2 };
    for (entity, kind, row_key) in [
        (Closed::Employee(employee()), "employee", "e_7"),
        (Closed::Department(department), "Department", "department"),
    ] {
        let bag = entity.to_bag().unwrap();
        assert_eq!(bag.get::<String>("EntityType").unwrap(), kind);
        assert_eq!(bag.key.row.as_str(), row_key);
        assert_eq!(entity.key().unwrap(), bag.key);
        assert_eq!(Closed::from_bag(bag).unwrap(), entity);
    }
    assert_eq!(Closed::SELECT, None);
    assert_eq!(Closed::ENCRYPTED, ["salary", "budget"]);
}

#[test]
fn an_unknown_kind_is_an_error_that_names_it() {
    let bag = employee().to_bag().unwrap();
    let unknown = bag.clone().with("EntityType", "Manager".to_owned()).unwrap();
    let error = Closed::from_bag(unknown).unwrap_err();
    assert_eq!(error, EntityError::UnknownKind { tag: "EntityType".into(), kind: Some("Manager".into()) });
    assert_eq!(error.to_string(), "property 'EntityType': the kind 'Manager' is unknown");
    for without in [bag.clone(), bag.with("EntityType", 1).unwrap()] {
        let error = Closed::from_bag(without).unwrap_err();
        assert_eq!(error, EntityError::UnknownKind { tag: "EntityType".into(), kind: None });
    }
}

#[test]
fn the_variant_for_others_keeps_everything() {
    let bag = PropertyBag::new("p", "r").unwrap().with("EntityType", "Manager".to_owned()).unwrap();
    let read = Open::from_bag(bag.clone()).unwrap();
    assert_eq!(read, Open::Other(bag.clone()));
    assert_eq!(read.to_bag().unwrap(), bag);
    let employee = Open::Employee(employee());
    assert_eq!(Open::from_bag(employee.to_bag().unwrap()).unwrap(), employee);
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition_key = "p", row_key = "r")]
struct Tagged {
    #[entity(rename = "EntityType")]
    tag: String,
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(tag = "EntityType")]
enum Clash {
    Tagged(Tagged),
}

#[test]
fn a_type_that_has_the_tag_as_its_own_property_is_an_error() {
    let error = Clash::Tagged(Tagged { tag: "x".into() }).to_bag().unwrap_err();
    assert_eq!(error, EntityError::Duplicate { property: "EntityType".into() });
}

#[test]
fn filters_of_enums() {
    let p = Closed::PROPERTIES;
    let rich = Employee::PROPERTIES.row_key.starts_with("e_").for_type();
    let filter = p.partition_key.eq("Sales") & p.kind.eq("employee") & rich;
    assert_eq!(
        filter.to_string(),
        "PartitionKey eq 'Sales' and EntityType eq 'employee' and RowKey ge 'e_' and RowKey lt 'e`'"
    );
}
