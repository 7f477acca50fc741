use client::PropertyBag;
use model::EdmValue;
use model::record::Property;

/// Returns the difference between two entities with the same keys, or `None` if they are equal.
///
/// Ignores the order of properties, and the sign of zero, which JSON does not preserve. The message contains no values,
/// because they are user data.
pub(crate) fn difference(from: &PropertyBag, to: &PropertyBag) -> Option<String> {
    if from.properties == to.properties {
        return None;
    }
    let (from, to) = (
        from.properties.clone().into_record_builder().ordered(),
        to.properties.clone().into_record_builder().ordered(),
    );
    let mut left = from.properties().filter_map(Result::ok).peekable();
    let mut right = to.properties().filter_map(Result::ok).peekable();
    loop {
        let (one, other) = match (left.peek(), right.peek()) {
            (None, None) => return None,
            (Some(one), Some(other)) if one.name_bytes() == other.name_bytes() => (one, other),
            (Some(one), other) if other.is_none_or(|other| one.name_bytes() < other.name_bytes()) => {
                return Some(format!("the target has no property '{}'", name(one)));
            }
            (_, Some(other)) => return Some(format!("the source has no property '{}'", name(other))),
            (Some(one), None) => return Some(format!("the target has no property '{}'", name(one))),
        };
        if one.edm_type() != other.edm_type() {
            let types = (one.edm_type().name(), other.edm_type().name());
            return Some(format!(
                "the property '{}' is {} in the source and {} in the target",
                name(one),
                types.0,
                types.1
            ));
        }
        if !is_same_value(one, other) {
            return Some(format!("the property '{}' has a different value", name(one)));
        }
        left.next();
        right.next();
    }
}

fn is_same_value(one: &Property<'_>, other: &Property<'_>) -> bool {
    if let (Ok(EdmValue::Double(one)), Ok(EdmValue::Double(other))) = (one.value(), other.value()) {
        // Adding zero removes the sign of zero. The service has only one NaN.
        let bits = |double: f64| if double.is_nan() { f64::NAN.to_bits() } else { (double + 0.0).to_bits() };
        return bits(one) == bits(other);
    }
    one.value_bytes() == other.value_bytes()
}

fn name<'a>(property: &Property<'a>) -> &'a str {
    property.name().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{EntityKey, KeyText, RecordBuilder};

    fn entity(properties: &[(&str, EdmValue<'_>)]) -> PropertyBag {
        let text = |text| KeyText::new(text).unwrap();
        let mut builder = RecordBuilder::default();
        for (name, value) in properties {
            builder.push(name, *value);
        }
        PropertyBag::of_properties(EntityKey { partition: text("p"), row: text("r") }, builder)
    }

    #[test]
    fn order_and_the_sign_of_zero_do_not_count() {
        use EdmValue::{Double, Int32, String};
        for (one, other) in [
            (vec![], vec![]),
            (vec![("a", Int32(1)), ("b", String("x"))], vec![("b", String("x")), ("a", Int32(1))]),
            (vec![("a", Double(0.0))], vec![("a", Double(-0.0))]),
            (vec![("a", Double(f64::NAN))], vec![("a", Double(-f64::NAN))]),
        ] {
            assert_eq!(difference(&entity(&one), &entity(&other)), None, "{one:?}");
        }
    }

    #[test]
    fn every_other_difference_is_described_without_values() {
        use EdmValue::{Double, Int32, Int64, String};
        for (one, other, expected) in [
            (vec![("a", Int32(1))], vec![], "the target has no property 'a'"),
            (vec![], vec![("a", Int32(1))], "the source has no property 'a'"),
            (
                vec![("a", Int32(1)), ("c", Int32(1))],
                vec![("b", Int32(1)), ("c", Int32(1))],
                "target has no property 'a'",
            ),
            (vec![("c", Int32(1))], vec![("b", Int32(1)), ("c", Int32(1))], "source has no property 'b'"),
            (vec![("a", Int32(1))], vec![("a", Int64(1))], "is Edm.Int32 in the source and Edm.Int64 in the target"),
            (vec![("a", String("secret"))], vec![("a", String("other"))], "the property 'a' has a different value"),
            (vec![("a", Double(1.0))], vec![("a", Double(f64::NAN))], "the property 'a' has a different value"),
        ] {
            let difference = difference(&entity(&one), &entity(&other)).unwrap();
            assert!(difference.contains(expected) && !difference.contains("secret"), "{difference}");
        }
    }
}
