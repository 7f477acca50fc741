use proptest::prelude::*;
use rowhouse_client::entity::{
    DateTime, EdmType, EdmValue, EntityError, Inverted, KeyFormat, Plain, PropertyBag, PropertyValue, ValueError,
};
use std::fmt::Debug;
use std::time::{Duration, SystemTime};

fn again<T: PropertyValue>(instant: DateTime) -> Result<DateTime, ValueError> {
    let value = T::from_value(EdmValue::DateTime(instant))?;
    let EdmValue::DateTime(again) = value.to_value()?.as_edm() else { panic!("it must be encoded as an instant") };
    Ok(again)
}

fn again_as_keys<T: PropertyValue, F: KeyFormat<T> + KeyFormat<DateTime>>(instant: DateTime) -> DateTime {
    let value = T::from_value(EdmValue::DateTime(instant)).unwrap();
    let mut text = String::new();
    <F as KeyFormat<T>>::write(&value, &mut text).unwrap();
    <F as KeyFormat<DateTime>>::read(&text).unwrap()
}

proptest! {
    #[test]
    fn every_instant_of_the_service_is_read_and_written(ticks in 0..=DateTime::MAX.ticks()) {
        let instant = DateTime::from_ticks(ticks).unwrap();
        prop_assert_eq!(again::<SystemTime>(instant), Ok(instant));
        prop_assert_eq!(again::<time::OffsetDateTime>(instant), Ok(instant));
        prop_assert_eq!(again::<chrono::DateTime<chrono::Utc>>(instant), Ok(instant));
        prop_assert_eq!(again_as_keys::<time::OffsetDateTime, Plain>(instant), instant);
        prop_assert_eq!(again_as_keys::<chrono::DateTime<chrono::Utc>, Inverted>(instant), instant);
        match again::<jiff::Timestamp>(instant) {
            Ok(same) => prop_assert_eq!(same, instant),
            // The last days of the year 9999 are outside the range of jiff's type.
            Err(error) => {
                prop_assert!(matches!(error, ValueError::Invalid(_)));
                prop_assert!(instant >= DateTime::parse("9999-12-30T00:00:00Z").unwrap());
            }
        }
    }
}

#[test]
fn narrow_numbers_are_written_without_loss_and_checked_when_read() {
    fn roundtrips<T: PropertyValue + PartialEq + Debug>(values: [T; 3], edm_type: EdmType) {
        for value in values {
            let encoded = value.to_value().unwrap();
            assert_eq!(encoded.as_edm().edm_type(), edm_type);
            assert_eq!(T::from_value(encoded.as_edm()), Ok(value));
        }
    }
    roundtrips([i8::MIN, 0, i8::MAX], EdmType::Int32);
    roundtrips([i16::MIN, 0, i16::MAX], EdmType::Int32);
    roundtrips([u8::MIN, 7, u8::MAX], EdmType::Int32);
    roundtrips([u16::MIN, 7, u16::MAX], EdmType::Int32);
    roundtrips([u32::MIN, 7, u32::MAX], EdmType::Int64);
    roundtrips([f32::MIN, f32::INFINITY, f32::MIN_POSITIVE], EdmType::Double);
    assert!(f32::from_value(EdmValue::Double(f64::NAN)).is_ok_and(f32::is_nan));
    assert_eq!(f32::from_value(EdmValue::Double(0.1)), Ok(0.1));
    assert_eq!((u32::from_value(EdmValue::Int32(7)), f32::from_value(EdmValue::Int32(7))), (Ok(7), Ok(7.0)));

    let mut bag = PropertyBag::new("p", "r").unwrap();
    bag.set("Small", 32_768).unwrap();
    bag.set("Large", -1_i64).unwrap();
    bag.set("Wide", 1e39).unwrap();
    let messages = [
        bag.get::<i16>("Small").unwrap_err().to_string(),
        bag.get::<Option<u32>>("Large").unwrap_err().to_string(),
        bag.get::<f32>("Wide").unwrap_err().to_string(),
        bag.get::<i16>("Large").unwrap_err().to_string(),
    ];
    let expected = [
        "property 'Small': the value 32768 is outside the range of i16",
        "property 'Large': the value -1 is outside the range of u32",
        &format!("property 'Wide': the value {} is outside the range of f32", 1e39),
        "property 'Large': expected Edm.Int32, found Edm.Int64",
    ];
    assert_eq!(messages, expected);
}

#[test]
fn the_ends_of_the_range() {
    for instant in [DateTime::MIN, DateTime::MAX] {
        assert_eq!(again::<SystemTime>(instant), Ok(instant));
        assert_eq!(again::<time::OffsetDateTime>(instant), Ok(instant));
        assert_eq!(again::<chrono::DateTime<chrono::Utc>>(instant), Ok(instant));
    }
    let early = chrono::DateTime::from_timestamp(-11_644_473_601, 0).unwrap();
    assert!(matches!(early.to_value(), Err(ValueError::Invalid(_))), "1600");
    let late = SystemTime::UNIX_EPOCH + Duration::from_hours(70_389_528);
    let error = PropertyBag::new("p", "r").unwrap().with("At", late).unwrap_err();
    assert!(matches!(error, EntityError::Value { .. }), "the year 10000");
}

#[test]
fn what_is_below_a_tick_is_cut_off_towards_the_earlier_one() {
    fn text<T: PropertyValue + Debug>(value: &T) -> String {
        let EdmValue::DateTime(instant) = value.to_value().unwrap().as_edm() else { panic!("an instant") };
        instant.to_string()
    }
    let (late, early) = ("1970-01-01T00:00:00.0000001Z", "1969-12-31T23:59:59.9999998Z");
    assert_eq!(text(&(SystemTime::UNIX_EPOCH + Duration::from_nanos(199))), late);
    assert_eq!(text(&(SystemTime::UNIX_EPOCH - Duration::from_nanos(101))), early);
    assert_eq!(text(&time::OffsetDateTime::from_unix_timestamp_nanos(199).unwrap()), late);
    assert_eq!(text(&time::OffsetDateTime::from_unix_timestamp_nanos(-101).unwrap()), early);
    assert_eq!(text(&chrono::DateTime::from_timestamp(0, 199).unwrap()), late);
    assert_eq!(text(&chrono::DateTime::from_timestamp(-1, 999_999_899).unwrap()), early);
    assert_eq!(text(&jiff::Timestamp::from_nanosecond(199).unwrap()), late);
    assert_eq!(text(&jiff::Timestamp::from_nanosecond(-101).unwrap()), early);
}

#[test]
fn identifiers_of_the_crate_uuid() {
    let id = uuid::Uuid::parse_str("0b0c0d0e-1111-4222-8333-444455556666").unwrap();
    let bag = PropertyBag::new("p", "r").unwrap().with("Id", id).unwrap();
    assert_eq!(bag.get::<uuid::Uuid>("Id").unwrap(), id);
    assert!(matches!(bag.properties.get("Id"), Some(EdmValue::Guid(guid)) if guid.to_string() == id.to_string()));
    let mut text = String::new();
    <Plain as KeyFormat<uuid::Uuid>>::write(&id, &mut text).unwrap();
    assert_eq!(text, id.to_string());
    assert_eq!(<Plain as KeyFormat<uuid::Uuid>>::read(&text), Ok(id));
}

#[test]
fn texts_and_bytes_of_every_type() {
    use std::sync::Arc;
    let bag = PropertyBag::new("p", "r").unwrap();
    let bag = bag.with("S", "x".to_owned()).unwrap().with("B", vec![1_u8]).unwrap();
    assert_eq!(&*bag.get::<Box<str>>("S").unwrap(), "x");
    assert_eq!(&*bag.get::<Arc<str>>("S").unwrap(), "x");
    assert_eq!(&*bag.get::<bytes::Bytes>("B").unwrap(), &[1]);
    assert_eq!(bag.clone().with("S", Arc::<str>::from("x")).unwrap(), bag);
    assert_eq!(bag.clone().with("B", bytes::Bytes::from_static(&[1])).unwrap(), bag);
}
