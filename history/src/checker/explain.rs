//! Reduces a violation to the operations that show it.
//!
//! Leaving out a read weakens a history. Leaving out a write does not: a later answer may depend on it. A write that is
//! left out is therefore replaced with a weaker statement: that it happened or not, at some time during its interval.
//! If it ended before all operations that are kept, it is represented by the state at the beginning, which may be any.
//! So whatever part of a history is found to be impossible, no serial order of the whole history exists either.

use super::case::{Finding, Member, Mode, Scope, concerns, may_write, named_rows};
use super::rules::Rules;
use super::{Verdict, Violation, judge};
use crate::operation::{Action, Answer, Operation, Refusal, Time};
use std::collections::BTreeSet;

/// The maximum number of operations in all attempts to find a smaller part.
const OPERATIONS_TRIED_MAX: usize = 1_000_000;

/// The number of operations after a violation that are first tried as its evidence.
const LATER_OPERATIONS: usize = 200;

/// Returns what an operation contradicts if no serial order contains it.
pub(super) fn rule(operation: &Operation) -> &'static str {
    match &operation.action {
        Action::Get { found: Some(_), .. } => {
            "a read returned a version that was current at no moment between call and answer"
        }
        Action::Get { found: None, .. } => "a read found no entity, but one existed at every moment until the answer",
        Action::Page(_) => "a page is not a cut of its partition: its entities and gaps were current at no one moment",
        Action::Write { answer: Answer::Done(_), .. } => {
            "a write was acknowledged that was possible at no moment between call and answer"
        }
        Action::Write { answer: Answer::Refused { reason, .. }, .. } => match reason {
            Refusal::Exists => "an insert was refused with 409 although no entity existed",
            Refusal::NotFound => "a write was refused with 404 although the entity existed",
            Refusal::ConditionNotMet => "a write was refused with 412 although its condition was met",
        },
        Action::Write { answer: Answer::Unknown, .. } => {
            "a write of unknown outcome took effect after the time by which it must have ended"
        }
    }
}

/// Returns the violation with as few operations as possible.
pub(super) fn explain(partition: &str, operations: &[&Operation], finding: &Finding, rules: Rules) -> Violation {
    let found: Vec<&Operation> = finding.members.iter().filter_map(|at| operations.get(*at).copied()).collect();
    let part = match found[..] {
        [last] if rules.explains => Part { operations, rules, rows: BTreeSet::new(), tried: 0 }.reduced(last),
        _ => None,
    };
    let (kept, others, rule) = part.unwrap_or_else(|| (found, Vec::new(), finding.rule));
    let owned = |mut list: Vec<&Operation>| {
        list.sort_by_key(|operation| (operation.call, operation.id));
        list.into_iter().cloned().collect()
    };
    Violation { partition: partition.to_owned(), rule, operations: owned(kept), others: owned(others) }
}

struct Part<'h> {
    operations: &'h [&'h Operation],
    rules: Rules,
    /// The rows to which the part is restricted.
    rows: BTreeSet<&'h str>,
    tried: usize,
}

/// The weakened writes, and the rule.
type Found<'h> = (Vec<&'h Operation>, &'static str);

type Reduced<'h> = (Vec<&'h Operation>, Vec<&'h Operation>, &'static str);

impl<'h> Part<'h> {
    /// Returns a minimal part of the history until the end of `last` that is impossible, or `None` if that takes too
    /// long.
    fn reduced(&mut self, last: &'h Operation) -> Option<Reduced<'h>> {
        let mut all: Vec<&Operation> = self.operations.to_vec();
        all.sort_by_key(|operation| (operation.call, operation.id));
        let end = last.returned.unwrap_or(Time::MAX);
        let count = all.partition_point(|operation| operation.call <= end);
        // Later reads may show what a write changed.
        for later in [0, LATER_OPERATIONS, all.len()] {
            let relevant = all.get(..(count + later).min(all.len())).unwrap_or_default();
            if let Some(reduced) = self.reduced_to_rows(relevant, count) {
                return Some(reduced);
            }
        }
        None
    }

    /// Only the operations before `count` were called before the violation.
    fn reduced_to_rows(&mut self, relevant: &[&'h Operation], count: usize) -> Option<Reduced<'h>> {
        self.rows = self.fewest_rows(relevant)?;
        let is_relevant = |operation: &&&Operation| self.rows.iter().any(|row| concerns(operation, row));
        let before: Vec<&Operation> = relevant.iter().take(count).filter(is_relevant).copied().collect();
        let after: Vec<&Operation> = relevant.iter().skip(count).filter(is_relevant).copied().collect();
        let (count, relevant) = (before.len(), [before, after].concat());
        let (mut kept, mut found) = self.latest(&relevant, count)?;
        let mut size = kept.len().div_ceil(2);
        while size > 0 && self.tried < OPERATIONS_TRIED_MAX {
            let (mut at, before) = (0, kept.len());
            while at < kept.len() && self.tried < OPERATIONS_TRIED_MAX {
                let end = (at + size).min(kept.len());
                let rest: Vec<&Operation> = kept.iter().take(at).chain(kept.iter().skip(end)).copied().collect();
                if let Some(smaller) = self.violation(&relevant, &rest) {
                    (kept, found) = (rest, smaller);
                } else {
                    at = end;
                }
            }
            // Leaving out one operation may make others dispensable.
            size = if size == 1 { usize::from(kept.len() < before) } else { size.div_ceil(2) };
        }
        let (others, rule) = found;
        Some((kept, others, rule))
    }

    /// Returns the rows that the violation needs: usually one.
    fn fewest_rows(&mut self, relevant: &[&'h Operation]) -> Option<BTreeSet<&'h str>> {
        let all = relevant.iter().flat_map(|operation| named_rows(operation)).map(String::as_str);
        let mut rows: BTreeSet<&str> = all.collect();
        for row in rows.clone() {
            self.rows = BTreeSet::from([row]);
            if self.violation(relevant, relevant).is_some() {
                return Some(self.rows.clone());
            }
        }
        for row in rows.clone() {
            self.rows.clone_from(&rows);
            self.rows.remove(row);
            if self.violation(relevant, relevant).is_some() {
                rows.remove(row);
            }
        }
        self.rows.clone_from(&rows);
        self.violation(relevant, relevant).map(|_| rows)
    }

    /// Returns the violation in the last operations before `end`, as few as powers of two allow, and those after it.
    fn latest(&mut self, relevant: &[&'h Operation], end: usize) -> Option<(Vec<&'h Operation>, Found<'h>)> {
        let mut count = 16;
        loop {
            let kept = relevant.get(end.saturating_sub(count)..)?.to_vec();
            if let Some(found) = self.violation(relevant, &kept) {
                return Some((kept, found));
            }
            if count >= end || self.tried >= OPERATIONS_TRIED_MAX {
                return None;
            }
            count *= 2;
        }
    }

    /// Returns the weakened writes and the rule if the kept operations are impossible.
    fn violation(&mut self, relevant: &[&'h Operation], kept: &[&'h Operation]) -> Option<Found<'h>> {
        let begin = kept.iter().map(|operation| operation.call).min()?;
        let begins_anywhere = kept.len() < relevant.len();
        let is_kept: BTreeSet<u64> = kept.iter().map(|operation| operation.id).collect();
        let named = kept.iter().flat_map(|operation| named_rows(operation)).map(String::as_str);
        let rows: BTreeSet<&str> = named.filter(|row| self.rows.contains(row)).collect();
        let other = |operation: &&&Operation| {
            may_write(operation)
                && !is_kept.contains(&operation.id)
                && operation.returned.is_none_or(|end| end >= begin)
                && rows.iter().any(|row| concerns(operation, row))
        };
        let others: Vec<&Operation> = relevant.iter().filter(other).copied().collect();
        let exact = kept.iter().map(|operation| Member { operation, mode: Mode::Exact });
        let maybe = others.iter().map(|operation| Member { operation, mode: Mode::Maybe });
        let members: Vec<Member<'_>> = exact.chain(maybe).collect();
        self.tried += members.len() + 16;
        let scope = Scope { order: self.rules.order, rows: Some(&rows), begins_anywhere };
        match judge(&members, scope, self.rules) {
            Verdict::Violated(finding) => Some((others, finding.rule)),
            Verdict::Serializable | Verdict::Undecided => None,
        }
    }
}
