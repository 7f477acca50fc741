//! The checker: decides for each partition whether its operations are strictly serializable.

mod case;
mod search;

use crate::operation::{Action, Answer, Operation, Refusal, Time};
use case::{Case, concerns, named_rows};
use search::{Outcome, search};
use std::collections::BTreeMap;
use std::fmt;

/// The number of operations of the same entities that are shown before a violation.
const SHOWN_BEFORE: usize = 24;

/// How Timestamps relate to the serial order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StampOrder {
    /// They increase with every write of a partition, as in the engines of a single server.
    Partition,
    /// They increase with every write of an entity, even if it was deleted in between.
    Entity,
    /// They increase as long as the entity exists, as on a database that several servers share.
    Life,
}

/// What the checker assumes, and how much it tries.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// How Timestamps relate to the serial order.
    pub order: StampOrder,
    /// The maximum number of states that a partition may be in at a time, according to the answers so far.
    pub configurations_max: usize,
}

impl Rules {
    /// Creates rules with the usual bounds.
    pub fn new(order: StampOrder) -> Self {
        Self { order, configurations_max: 256 }
    }

    /// Returns the maximum number of states that are tried to explain one answer.
    fn steps_max(&self) -> usize {
        self.configurations_max.saturating_mul(16)
    }

    /// Returns the number of explanations of one answer after which no more are sought.
    fn reached_max(&self) -> usize {
        self.configurations_max.saturating_mul(4)
    }
}

/// The result of checking a history.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The number of operations.
    pub operations: u64,
    /// The number of partitions.
    pub partitions: u64,
    /// The number of operations of unknown outcome.
    pub unknown: u64,
    /// At most one violation of each partition.
    pub violations: Vec<Violation>,
    /// The partitions for which the search exceeded its bounds without finding a serial order.
    pub undecided: Vec<String>,
}

impl Report {
    /// Returns whether every partition is strictly serializable.
    pub fn is_valid(&self) -> bool {
        self.violations.is_empty() && self.undecided.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operations, partitions, unknown, violations, undecided } = self;
        write!(f, "{operations} operations on {partitions} partitions, {unknown} of them of unknown outcome: ")?;
        writeln!(f, "{} violations, {} partitions undecided", violations.len(), undecided.len())?;
        for partition in undecided {
            writeln!(f, "undecided: {partition}")?;
        }
        violations.iter().try_for_each(|violation| write!(f, "\n{violation}"))
    }
}

/// Operations of one partition that no strictly serializable service can have answered like this.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The table and partition key.
    pub partition: String,
    /// What the operations contradict.
    pub rule: &'static str,
    /// The operations that contradict it.
    pub operations: Vec<Operation>,
    /// The last operations before them on the same entities.
    pub before: Vec<Operation>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partition, rule, operations, before } = self;
        writeln!(f, "partition {partition}: {rule}")?;
        let line = |operation: &Operation| serde_json::to_string(operation).unwrap_or_default();
        before.iter().try_for_each(|operation| writeln!(f, "  before: {}", line(operation)))?;
        operations.iter().try_for_each(|operation| writeln!(f, "  {}", line(operation)))
    }
}

/// Checks a history.
pub fn check(history: &[Operation], rules: Rules) -> Report {
    let mut partitions: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in history {
        partitions.entry(&operation.partition).or_default().push(operation);
    }
    let mut report = Report { partitions: partitions.len() as u64, ..Report::default() };
    for (partition, operations) in partitions {
        report.operations += operations.len() as u64;
        report.unknown += operations.iter().filter(|operation| operation.is_unknown()).count() as u64;
        let found = match Case::build(&operations, rules.order) {
            Ok(case) => match search(&case, rules) {
                Outcome::Serializable => continue,
                Outcome::Undecided => {
                    report.undecided.push(partition.to_owned());
                    continue;
                }
                Outcome::Impossible(at) => (vec![at], operations.get(at).map_or("", |operation| rule_of(operation))),
            },
            Err(finding) => (finding.members, finding.rule),
        };
        report.violations.push(violation(partition, &operations, found));
    }
    report
}

fn violation(partition: &str, all: &[&Operation], (members, rule): (Vec<usize>, &'static str)) -> Violation {
    let found: Vec<&Operation> = members.iter().filter_map(|at| all.get(*at).copied()).collect();
    let rows: Vec<&str> = found.iter().flat_map(|operation| named_rows(operation)).collect();
    let end = found.iter().map(|operation| operation.returned.unwrap_or(Time::MAX)).max().unwrap_or(Time::MAX);
    let is_before = |operation: &&&Operation| {
        operation.call <= end
            && !found.iter().any(|found| found.id == operation.id)
            && rows.iter().any(|row| concerns(operation, row))
    };
    let mut before: Vec<&Operation> = all.iter().filter(is_before).copied().collect();
    before.sort_by_key(|operation| (operation.call, operation.id));
    let before = before.split_off(before.len().saturating_sub(SHOWN_BEFORE));
    let owned = |list: Vec<&Operation>| list.into_iter().cloned().collect();
    Violation { partition: partition.to_owned(), rule, operations: owned(found), before: owned(before) }
}

/// Returns what an operation contradicts if no serial order contains it.
fn rule_of(operation: &Operation) -> &'static str {
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
