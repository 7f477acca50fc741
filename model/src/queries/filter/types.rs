//! What a filter matches only because of types: a value whose type differs from the type of the literal counts as less
//! than the literal (04 §3.2), so `Doors lt 3` matches the string `4`.

use super::{Call, Comparison, Filter, Literal, Operator, PropertyName};
use crate::DateTime;
use crate::edm::Guid;

/// The part of a filter's matches that depends on the types of properties.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeDependence {
    /// Matches the entities that the filter matches only because a value has another type than the literal. If each
    /// comparison with such a value could be true or false, the filter could be false for these entities.
    ///
    /// Negative infinity in a Double property counts as another type, because whether the service can read such a
    /// literal is unknown (04 §2.1).
    pub filter: Filter,
    /// The custom properties in the comparisons that can be true for values of other types.
    pub properties: Vec<Box<str>>,
}

impl Filter {
    /// Returns `None` if no comparison can contribute to a match because of types.
    pub fn type_dependence(&self) -> Option<TypeDependence> {
        let mut properties = Vec::new();
        let certain = certain(self, true, &mut properties);
        if properties.is_empty() {
            return None;
        }
        let filter = Self::And(vec![self.clone(), not(certain)]);
        Some(TypeDependence { filter, properties })
    }
}

/// Returns a filter that is true (`is_wanted`) or false only where this holds whatever the comparisons with values of
/// other types result in. Below `not`, the filter must be false.
fn certain(filter: &Filter, is_wanted: bool, properties: &mut Vec<Box<str>>) -> Filter {
    let mut all =
        |operands: &[Filter]| operands.iter().map(|operand| certain(operand, is_wanted, properties)).collect();
    let (property, mismatch) = match filter {
        Filter::And(operands) => return Filter::And(all(operands)),
        Filter::Or(operands) => return Filter::Or(all(operands)),
        Filter::Not(operand) => return not(certain(operand, !is_wanted, properties)),
        Filter::Constant(_) => return filter.clone(),
        Filter::Compare(Comparison { property, operator, literal }) if is_wanted == holds_for_others(*operator) => {
            (property, is_of_other_type(property, literal))
        }
        Filter::Compare(_) => return filter.clone(),
        // Both are false for other types.
        Filter::IsTrue(_) | Filter::Call(_) if is_wanted => return filter.clone(),
        Filter::IsTrue(property) => (property, is_of_other_type(property, &Literal::Boolean(false))),
        Filter::Call(Call { property, .. }) => (property, is_of_other_type(property, &Literal::String("".into()))),
    };
    // The service refuses to compare a system property with another type (04 §3.6).
    let PropertyName::Custom(name) = property else { return filter.clone() };
    if !properties.contains(name) {
        properties.push(name.clone());
    }
    if is_wanted {
        Filter::And(vec![filter.clone(), not(mismatch)])
    } else {
        Filter::Or(vec![filter.clone(), mismatch])
    }
}

fn holds_for_others(operator: Operator) -> bool {
    matches!(operator, Operator::NotEqual | Operator::LessThan | Operator::LessThanOrEqual)
}

/// Returns a filter that is true if the property exists and cannot be compared with the literal: then it is less than
/// even the least value of the literal's type. An Int64 or Double property can be less than the least Int32, but then
/// it can be compared with the least Int64 or Double (04 §3.3).
fn is_of_other_type(property: &PropertyName, literal: &Literal) -> Filter {
    let compare = |operator, literal| {
        let property = property.clone();
        Filter::Compare(Comparison { property, operator, literal })
    };
    let is_less = |least| compare(Operator::LessThan, least);
    let is_not_of_type = |least| not(compare(Operator::GreaterThanOrEqual, least));
    match literal {
        Literal::String(_) => is_less(Literal::String("".into())),
        Literal::Binary(_) => is_less(Literal::Binary(Box::default())),
        Literal::Boolean(_) => is_less(Literal::Boolean(false)),
        Literal::DateTime(_) => is_less(Literal::DateTime(DateTime::MIN)),
        Literal::Guid(_) => is_less(Literal::Guid(Guid::from_bytes([0; 16]))),
        Literal::Double(_) => is_less(Literal::Double(f64::MIN)),
        Literal::Int64(_) => {
            Filter::And(vec![is_less(Literal::Int64(i64::MIN)), is_not_of_type(Literal::Double(f64::MIN))])
        }
        Literal::Int32(_) => Filter::And(vec![
            is_less(Literal::Int32(i32::MIN)),
            is_not_of_type(Literal::Int64(i64::MIN)),
            is_not_of_type(Literal::Double(f64::MIN)),
        ]),
    }
}

fn not(filter: Filter) -> Filter {
    Filter::Not(Box::new(filter))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

    use super::super::tests::{OPERATORS, STRING_FUNCTIONS, any_entity, call, compare, entity, filter, matches, text};
    use super::*;
    use crate::edm::{EdmType, EdmValue};
    use crate::{Entity, EntityView};
    use proptest::prelude::*;

    fn can_be_compared(value: EdmType, literal: EdmType) -> bool {
        let numbers = [EdmType::Int32, EdmType::Int64, EdmType::Double];
        let width = |edm_type| numbers.iter().position(|number| *number == edm_type);
        match (width(value), width(literal)) {
            (Some(value), Some(literal)) => literal <= value,
            _ => value == literal,
        }
    }

    /// Evaluates the filter in three-valued logic: `None` where a value has another type than its literal.
    fn outcome(filter: &Filter, entity: &Entity) -> Option<bool> {
        let all = |operands: &[Filter]| operands.iter().map(|operand| outcome(operand, entity)).collect::<Vec<_>>();
        let (property, literal) = match filter {
            Filter::And(operands) => {
                let all = all(operands);
                return if all.contains(&Some(false)) {
                    Some(false)
                } else {
                    all.into_iter().collect::<Option<_>>().map(|_: Vec<_>| true)
                };
            }
            Filter::Or(operands) => {
                let all = all(operands);
                return if all.contains(&Some(true)) {
                    Some(true)
                } else {
                    all.into_iter().collect::<Option<_>>().map(|_: Vec<_>| false)
                };
            }
            Filter::Not(operand) => return outcome(operand, entity).map(|outcome| !outcome),
            Filter::Constant(value) => return Some(*value),
            Filter::Compare(Comparison { property, literal, .. }) => (property, literal.edm_type()),
            Filter::IsTrue(property) => (property, EdmType::Boolean),
            Filter::Call(Call { property, .. }) => (property, EdmType::String),
        };
        let view = EntityView::from_parts(&entity.key, &entity.record).unwrap();
        let PropertyName::Custom(name) = property else { return Some(matches(filter, entity)) };
        let mut properties = view.record.properties().map(Result::unwrap);
        let value = properties.find(|property| property.name().unwrap() == &**name);
        let is_certain = value.is_none_or(|value| can_be_compared(value.edm_type(), literal));
        is_certain.then(|| matches(filter, entity))
    }

    fn check(filter: &Filter, entity: &Entity) {
        let found = filter.type_dependence().is_some_and(|dependence| matches(&dependence.filter, entity));
        assert_eq!(found, matches(filter, entity) && outcome(filter, entity) != Some(true), "{filter:?} {entity:?}");
    }

    #[test]
    fn every_pair_of_types() {
        let values = [
            EdmValue::String(""),
            EdmValue::String("4"),
            EdmValue::Binary(&[]),
            EdmValue::Binary(&[4]),
            EdmValue::Boolean(false),
            EdmValue::DateTime(DateTime::MIN),
            EdmValue::Guid(Guid::from_bytes([0; 16])),
            EdmValue::Guid(Guid::from_bytes([255; 16])),
            EdmValue::Int32(i32::MIN),
            EdmValue::Int32(4),
            EdmValue::Int64(i64::MIN),
            EdmValue::Int64(i64::from(i32::MIN) - 1),
            EdmValue::Double(f64::MIN),
            EdmValue::Double(f64::NAN),
            EdmValue::Double(4.5),
        ];
        let literals = [
            text("3"),
            Literal::Binary(Box::from([3])),
            Literal::Boolean(true),
            Literal::DateTime(DateTime::MAX),
            Literal::Guid(Guid::from_bytes([3; 16])),
            Literal::Int32(3),
            Literal::Int64(3),
            Literal::Double(3.0),
        ];
        let comparisons = literals
            .iter()
            .flat_map(|literal| OPERATORS.into_iter().map(|operator| compare("P", operator, literal.clone())));
        let calls = STRING_FUNCTIONS.into_iter().map(|function| call(function, "P", "3"));
        let leaves: Vec<_> = comparisons.chain(calls).chain([Filter::IsTrue(PropertyName::new("P"))]).collect();
        let entities = values.map(|value| entity("p", "r", &[("P", value)]));
        for entity in entities.iter().chain([&entity("p", "r", &[])]) {
            for leaf in &leaves {
                check(leaf, entity);
                check(&not(leaf.clone()), entity);
            }
        }
    }

    #[test]
    fn keys_and_equal_types_never_depend_on_types() {
        for filter in [
            compare("PartitionKey", Operator::LessThan, text("a")),
            not(compare("RowKey", Operator::Equal, text("a"))),
            compare("Doors", Operator::GreaterThan, Literal::Int32(3)),
            Filter::Constant(true),
        ] {
            assert_eq!(filter.type_dependence(), None, "{filter:?}");
        }
        let less = |name| compare(name, Operator::LessThan, Literal::Int32(3));
        let dependence = Filter::Or(vec![less("Doors"), less("Seats"), less("Doors")]).type_dependence().unwrap();
        assert_eq!(dependence.properties, [Box::from("Doors"), Box::from("Seats")]);
    }

    proptest! {
        #[test]
        fn any_filter_and_any_entity(filter in filter(), entity in any_entity()) {
            check(&filter, &entity);
        }
    }
}
