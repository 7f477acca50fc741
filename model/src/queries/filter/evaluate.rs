//! Evaluation of filters (04 §3).
//!
//! Logic is two-valued: a comparison with a missing property is false for every operator, and so its negation is true
//! (04 §3.1).

use super::{Call, Comparison, Filter, Literal, Operator, PropertyName, StringFunction, TABLE_NAME};
use crate::EntityView;
use crate::edm::{EdmType, EdmValue, compare_ordinal};
use crate::record::{DamagedRecord, Property};
use std::cmp::Ordering;

/// The number of properties cached while one entity is evaluated. Long filters compare a few properties with many
/// literals, so a small cache avoids nearly every search through the record.
const RECENT_PROPERTIES: usize = 4;

impl Filter {
    /// Returns whether an entity matches. Only the properties that affect the result are read from the record.
    pub fn matches(&self, entity: &EntityView<'_>) -> Result<bool, DamagedRecord> {
        self.holds(&mut Lookup { entity, recent: [None; RECENT_PROPERTIES], oldest: 0 })
    }

    /// Returns whether the table with the given lower-case name matches, for Query Tables.
    ///
    /// The only property of a table is `TableName`. Letter case does not matter on either side of a comparison with it
    /// (UNVERIFIED, 04 §7). All other properties are missing; [`Self::uses_only_table_name`] detects filters that use
    /// them.
    pub fn matches_table(&self, folded_name: &str) -> bool {
        match self {
            Self::And(operands) => operands.iter().all(|operand| operand.matches_table(folded_name)),
            Self::Or(operands) => operands.iter().any(|operand| operand.matches_table(folded_name)),
            Self::Not(operand) => !operand.matches_table(folded_name),
            Self::Compare(comparison) => table_comparison_holds(comparison, folded_name),
            Self::IsTrue(_) => false,
            Self::Constant(value) => *value,
            Self::Call(call) => table_call_holds(call, folded_name),
        }
    }

    /// Returns whether the filter can be applied to tables: it refers to no property other than `TableName` (04 §7).
    pub fn uses_only_table_name(&self) -> bool {
        match self {
            Self::And(operands) | Self::Or(operands) => operands.iter().all(Self::uses_only_table_name),
            Self::Not(operand) => operand.uses_only_table_name(),
            Self::Compare(Comparison { property, .. }) | Self::IsTrue(property) | Self::Call(Call { property, .. }) => {
                property.as_str() == TABLE_NAME
            }
            Self::Constant(_) => true,
        }
    }

    fn holds<'f>(&'f self, lookup: &mut Lookup<'f, '_>) -> Result<bool, DamagedRecord> {
        match self {
            Self::And(operands) => {
                for operand in operands {
                    if !operand.holds(lookup)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Or(operands) => {
                for operand in operands {
                    if operand.holds(lookup)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Not(operand) => Ok(!operand.holds(lookup)?),
            Self::Compare(comparison) => comparison.holds(lookup),
            Self::IsTrue(property) => lookup.is_true(property),
            Self::Constant(value) => Ok(*value),
            Self::Call(call) => call.holds(lookup),
        }
    }
}

impl Comparison {
    fn holds<'f>(&'f self, lookup: &mut Lookup<'f, '_>) -> Result<bool, DamagedRecord> {
        let entity = lookup.entity;
        let value = match &self.property {
            PropertyName::PartitionKey => EdmValue::String(&entity.key.partition),
            PropertyName::RowKey => EdmValue::String(&entity.key.row),
            PropertyName::Timestamp => EdmValue::DateTime(entity.record.timestamp()),
            PropertyName::Custom(name) => match lookup.custom(name)? {
                None => return Ok(false),
                Some(property) if property.edm_type() == EdmType::String => return self.holds_for_string(&property),
                Some(property) => property.value()?,
            },
        };
        Ok(self.holds_for(value))
    }

    /// Returns whether the comparison holds for a stored string. Strings can be long, so only ordering operators
    /// validate UTF-8.
    fn holds_for_string(&self, property: &Property<'_>) -> Result<bool, DamagedRecord> {
        Ok(match (&self.literal, self.operator) {
            (Literal::String(text), Operator::Equal) => property.value_bytes() == text.as_bytes(),
            (Literal::String(text), Operator::NotEqual) => property.value_bytes() != text.as_bytes(),
            (Literal::String(_), _) => self.holds_for(property.value()?),
            _ => type_mismatch_holds(self.operator),
        })
    }

    fn holds_for(&self, value: EdmValue<'_>) -> bool {
        match relation(value, &self.literal) {
            Relation::Ordered(ordering) => ordering_holds(self.operator, ordering),
            Relation::NotANumber => not_a_number_holds(self.operator),
            Relation::TypeMismatch => type_mismatch_holds(self.operator),
        }
    }
}

impl Call {
    fn holds<'f>(&'f self, lookup: &mut Lookup<'f, '_>) -> Result<bool, DamagedRecord> {
        let entity = lookup.entity;
        let value = match &self.property {
            PropertyName::PartitionKey => entity.key.partition.as_bytes(),
            PropertyName::RowKey => entity.key.row.as_bytes(),
            PropertyName::Timestamp => return Ok(false),
            PropertyName::Custom(name) => match lookup.custom(name)? {
                Some(property) if property.edm_type() == EdmType::String => property.value_bytes(),
                _ => return Ok(false),
            },
        };
        Ok(match self.function {
            StringFunction::StartsWith => value.starts_with(self.text.as_bytes()),
            StringFunction::EndsWith => value.ends_with(self.text.as_bytes()),
            // The search in a `str` takes linear time, whatever the strings are.
            StringFunction::Contains => str::from_utf8(value).map_err(|_| DamagedRecord)?.contains(&*self.text),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    /// The types match, and the value is less than, equal to or greater than the literal.
    Ordered(Ordering),
    /// The types match, and one of the two numbers is `NaN`.
    NotANumber,
    TypeMismatch,
}

/// Compares a value with a literal (04 §3.3, §3.4). Only the literal is promoted, and only to a wider number type.
/// Guids are ordered by their text form (UNVERIFIED), binaries byte by byte, and strings by UTF-16 code unit.
#[expect(clippy::cast_precision_loss, reason = "a 64-bit literal is rounded to the property's type, as .NET does")]
fn relation(value: EdmValue<'_>, literal: &Literal) -> Relation {
    Relation::Ordered(match (value, literal) {
        (EdmValue::String(value), Literal::String(literal)) => compare_ordinal(value, literal),
        (EdmValue::Binary(value), Literal::Binary(literal)) => value.cmp(literal),
        (EdmValue::Boolean(value), Literal::Boolean(literal)) => value.cmp(literal),
        (EdmValue::DateTime(value), Literal::DateTime(literal)) => value.cmp(literal),
        (EdmValue::Guid(value), Literal::Guid(literal)) => value.cmp(literal),
        (EdmValue::Int32(value), Literal::Int32(literal)) => value.cmp(literal),
        (EdmValue::Int64(value), Literal::Int32(literal)) => value.cmp(&i64::from(*literal)),
        (EdmValue::Int64(value), Literal::Int64(literal)) => value.cmp(literal),
        (EdmValue::Double(value), Literal::Int32(literal)) => return double_relation(value, f64::from(*literal)),
        (EdmValue::Double(value), Literal::Int64(literal)) => return double_relation(value, *literal as f64),
        (EdmValue::Double(value), Literal::Double(literal)) => return double_relation(value, *literal),
        _ => return Relation::TypeMismatch,
    })
}

fn double_relation(value: f64, literal: f64) -> Relation {
    value.partial_cmp(&literal).map_or(Relation::NotANumber, Relation::Ordered)
}

fn ordering_holds(operator: Operator, ordering: Ordering) -> bool {
    match operator {
        Operator::Equal => ordering.is_eq(),
        Operator::NotEqual => ordering.is_ne(),
        Operator::LessThan => ordering.is_lt(),
        Operator::LessThanOrEqual => ordering.is_le(),
        Operator::GreaterThan => ordering.is_gt(),
        Operator::GreaterThanOrEqual => ordering.is_ge(),
    }
}

/// Returns the result of a comparison if the literal's type does not match the property's type (04 §3.2). The value
/// behaves as if it were smaller than the literal. Of all filter rules, this one is the least certain.
fn type_mismatch_holds(operator: Operator) -> bool {
    ordering_holds(operator, Ordering::Less)
}

/// Returns the result of a comparison with `NaN` on either side, following IEEE 754 (UNVERIFIED, 04 §3.3).
fn not_a_number_holds(operator: Operator) -> bool {
    operator == Operator::NotEqual
}

fn table_comparison_holds(comparison: &Comparison, folded_name: &str) -> bool {
    if comparison.property.as_str() != TABLE_NAME {
        return false;
    }
    match &comparison.literal {
        Literal::String(literal) => {
            // Table names are ASCII, so ASCII folding determines equality, and byte order is ordinal order.
            let ordering = folded_name.bytes().cmp(literal.bytes().map(|byte| byte.to_ascii_lowercase()));
            ordering_holds(comparison.operator, ordering)
        }
        _ => type_mismatch_holds(comparison.operator),
    }
}

fn table_call_holds(call: &Call, folded_name: &str) -> bool {
    let (name, text) = (folded_name.as_bytes(), call.text.as_bytes());
    let contains_at =
        |start: usize| name.get(start..start + text.len()).is_some_and(|part| part.eq_ignore_ascii_case(text));
    call.property.as_str() == TABLE_NAME
        && match call.function {
            StringFunction::StartsWith => contains_at(0),
            StringFunction::EndsWith => name.len().checked_sub(text.len()).is_some_and(contains_at),
            StringFunction::Contains => (0..=name.len()).any(contains_at),
        }
}

struct Lookup<'f, 'e> {
    entity: &'e EntityView<'e>,
    recent: [Option<(&'f str, Option<Property<'e>>)>; RECENT_PROPERTIES],
    oldest: usize,
}

impl<'f, 'e> Lookup<'f, 'e> {
    fn custom(&mut self, name: &'f str) -> Result<Option<Property<'e>>, DamagedRecord> {
        if let Some((_, found)) = self.recent.iter().flatten().find(|(recent, _)| *recent == name) {
            return Ok(*found);
        }
        let found = self.walk(name)?;
        if let Some(slot) = self.recent.get_mut(self.oldest) {
            *slot = Some((name, found));
        }
        self.oldest = (self.oldest + 1) % RECENT_PROPERTIES;
        Ok(found)
    }

    fn walk(&self, name: &str) -> Result<Option<Property<'e>>, DamagedRecord> {
        for property in self.entity.record.properties() {
            let property = property?;
            if property.name_bytes() == name.as_bytes() {
                return Ok(Some(property));
            }
        }
        Ok(None)
    }

    /// Evaluates a property without a comparison. The result is true only if the property exists, is Boolean and is
    /// true (04 §3.5). No system property is Boolean.
    fn is_true(&mut self, property: &'f PropertyName) -> Result<bool, DamagedRecord> {
        let PropertyName::Custom(name) = property else {
            return Ok(false);
        };
        match self.custom(name)? {
            Some(property) if property.edm_type() == EdmType::Boolean => {
                Ok(property.value()? == EdmValue::Boolean(true))
            }
            _ => Ok(false),
        }
    }
}
