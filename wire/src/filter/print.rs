//! Prints a filter.
//!
//! Invariant: a printed filter parses to the same tree.
//!
//! This module must not depend on how a filter is parsed, evaluated or planned.

use super::lex::{INFINITY, NOT_A_NUMBER};
use crate::number::write_double;
use model::Filter;
use model::filter::{Call, Comparison, Literal, Operator, StringFunction};
use std::fmt::Write;

/// Returns a filter in the form that every implementation of the service accepts, unless the filter contains a call:
/// literals on the right, and parentheses around a comparison after `not`. Other parentheses are written only where the
/// tree needs them.
///
/// An `And` or `Or` with fewer than two operands has no textual form, so its value is printed instead.
pub fn print(filter: &Filter) -> String {
    let mut out = String::new();
    write_filter(&mut out, filter);
    out
}

fn write_filter(out: &mut String, filter: &Filter) {
    match filter {
        Filter::And(operands) => write_chain(out, operands, " and ", "true", write_operand),
        Filter::Or(operands) => write_chain(out, operands, " or ", "false", write_operand_of_or),
        Filter::Not(operand) => {
            out.push_str("not ");
            match operand.as_ref() {
                Filter::Compare(_) => write_parenthesised(out, operand),
                _ => write_operand(out, operand),
            }
        }
        Filter::Compare(comparison) => write_comparison(out, comparison),
        Filter::IsTrue(property) => out.push_str(property.as_str()),
        Filter::Constant(value) => out.push_str(if *value { "true" } else { "false" }),
        Filter::Call(call) => write_call(out, call),
    }
}

fn write_chain(
    out: &mut String,
    operands: &[Filter],
    operator: &str,
    none: &str,
    write_operand: fn(&mut String, &Filter),
) {
    match operands {
        [] => out.push_str(none),
        [only] => write_filter(out, only),
        [first, rest @ ..] => {
            write_operand(out, first);
            for operand in rest {
                out.push_str(operator);
                write_operand(out, operand);
            }
        }
    }
}

fn write_operand(out: &mut String, operand: &Filter) {
    match operand {
        Filter::And(_) | Filter::Or(_) => write_parenthesised(out, operand),
        _ => write_filter(out, operand),
    }
}

/// Writes an operand of `or`. An operand that binds more tightly than `or`, such as an `and`, gets no parentheses.
fn write_operand_of_or(out: &mut String, operand: &Filter) {
    match operand {
        Filter::And(_) => write_filter(out, operand),
        _ => write_operand(out, operand),
    }
}

fn write_parenthesised(out: &mut String, filter: &Filter) {
    out.push('(');
    write_filter(out, filter);
    out.push(')');
}

fn write_comparison(out: &mut String, comparison: &Comparison) {
    out.push_str(comparison.property.as_str());
    out.push_str(match comparison.operator {
        Operator::Equal => " eq ",
        Operator::NotEqual => " ne ",
        Operator::LessThan => " lt ",
        Operator::LessThanOrEqual => " le ",
        Operator::GreaterThan => " gt ",
        Operator::GreaterThanOrEqual => " ge ",
    });
    write_literal(out, &comparison.literal);
}

fn write_call(out: &mut String, call: &Call) {
    let name = match call.function {
        StringFunction::StartsWith => "startswith",
        StringFunction::EndsWith => "endswith",
        StringFunction::Contains => "contains",
    };
    for part in [name, "(", call.property.as_str(), ",", &quoted(&call.text), ")"] {
        out.push_str(part);
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn write_literal(out: &mut String, literal: &Literal) {
    let written = match literal {
        Literal::String(text) => write!(out, "{}", quoted(text)),
        Literal::Binary(bytes) => {
            out.push_str("X'");
            bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}")).and_then(|()| out.write_char('\''))
        }
        Literal::Boolean(value) => write!(out, "{value}"),
        Literal::DateTime(instant) => write!(out, "datetime'{instant}'"),
        Literal::Double(value) => {
            write_double_literal(out, *value);
            Ok(())
        }
        Literal::Guid(guid) => write!(out, "guid'{guid}'"),
        Literal::Int32(value) => write!(out, "{value}"),
        Literal::Int64(value) => write!(out, "{value}L"),
    };
    written.expect("writing to a String cannot fail");
}

fn write_double_literal(out: &mut String, value: f64) {
    if value.is_finite() {
        let mut text = Vec::new();
        write_double(&mut text, value);
        out.push_str(&String::from_utf8_lossy(&text));
    } else if value.is_nan() {
        out.push_str(NOT_A_NUMBER);
    } else {
        out.push_str(if value.is_sign_negative() { "-" } else { "" });
        out.push_str(INFINITY);
    }
}
