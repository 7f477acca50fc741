//! Prints a violation as a timeline.

use super::Violation;
use crate::operation::{Action, Answer, Kind, Mutation, Operation, Refusal, Stamp};
use std::fmt::{self, Write};

/// The width of the drawing of the intervals, in characters.
const WIDTH: usize = 32;

/// The maximum number of weakened writes that are printed.
const OTHERS_SHOWN_MAX: usize = 12;

pub(super) fn write(violation: &Violation, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "partition {}: {}", violation.partition, violation.rule)?;
    let all = || violation.operations.iter().chain(&violation.others);
    // Equal distances between the times, because operations may be far apart.
    let mut times: Vec<u64> =
        all().flat_map(|operation| [Some(operation.call), operation.returned]).flatten().collect();
    times.sort_unstable();
    times.dedup();
    let column = |time: u64| times.partition_point(|known| *known < time) * (WIDTH - 1) / times.len().max(1);
    let mut line = |operation: &Operation, is_known: bool| -> fmt::Result {
        let (begin, end) = (column(operation.call), operation.returned.map_or(WIDTH, &column));
        let mut bar = " ".repeat(begin);
        bar.push('[');
        bar.extend(std::iter::repeat_n('-', end.saturating_sub(begin + 1)));
        bar.push(if operation.returned.is_some() { ']' } else { '>' });
        let returned = operation.returned.map_or_else(|| "never".to_owned(), |time| time.to_string());
        write!(f, "  {bar:WIDTH$}  client {:<3} {:>12} to {returned:<12} ", operation.client, operation.call)?;
        writeln!(f, "#{} {}", operation.id, describe(operation, is_known)?)
    };
    violation.operations.iter().try_for_each(|operation| line(operation, true))?;
    violation.others.iter().take(OTHERS_SHOWN_MAX).try_for_each(|operation| line(operation, false))
}

fn describe(operation: &Operation, is_known: bool) -> Result<String, fmt::Error> {
    let mut text = String::new();
    match &operation.action {
        Action::Get { row, found } => {
            write!(text, "get {row}: ")?;
            match found {
                Some(version) => write!(text, "200 {} ({})", etag(version.etag), version.value)?,
                None => write!(text, "404")?,
            }
        }
        Action::Page(page) => {
            write!(text, "page from {:?} to ", page.from)?;
            match &page.until {
                Some(until) => write!(text, "before {until:?}: ")?,
                None => write!(text, "the end: ")?,
            }
            if let Some(filter) = page.filter {
                write!(text, "where {} >= {}: ", filter.property.name(), filter.at_least)?;
            }
            let entity = |(row, version): &(String, crate::operation::Version)| {
                format!("{row} {} ({})", etag(version.etag), version.value)
            };
            text.push_str(&page.entities.iter().map(entity).collect::<Vec<_>>().join(", "));
        }
        Action::Write { mutations, answer } => {
            text.push_str(&mutations.iter().map(describe_mutation).collect::<Vec<_>>().join(" + "));
            match answer {
                _ if !is_known => write!(text, ": its answer does not matter")?,
                Answer::Done(etags) => {
                    let etags = etags.iter().map(|new| new.map_or_else(|| "deleted".to_owned(), etag));
                    write!(text, ": {}", etags.collect::<Vec<_>>().join(" + "))?;
                }
                Answer::Refused { index, reason } => {
                    let status = match reason {
                        Refusal::Exists => 409,
                        Refusal::NotFound => 404,
                        Refusal::ConditionNotMet => 412,
                    };
                    write!(text, ": {status} for mutation {index}")?;
                }
                Answer::Unknown => write!(text, ": unknown")?,
            }
        }
    }
    Ok(text)
}

fn describe_mutation(mutation: &Mutation) -> String {
    let kind = match mutation.kind {
        Kind::Insert => "insert",
        Kind::Replace => "replace",
        Kind::Merge => "merge",
        Kind::InsertOrReplace => "insert-or-replace",
        Kind::InsertOrMerge => "insert-or-merge",
        Kind::Delete => "delete",
    };
    let condition = mutation.if_match.map_or_else(String::new, |required| format!(" if {}", etag(required)));
    let value = if mutation.value.is_empty() { String::new() } else { format!(" ({})", mutation.value) };
    format!("{kind} {}{condition}{value}", mutation.row)
}

fn etag(stamp: Stamp) -> String {
    format!("@{stamp}")
}
