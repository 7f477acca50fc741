//! The checker: decides for each partition whether its operations are strictly serializable.

mod case;
mod explain;
mod rules;
mod search;
mod timeline;

use crate::operation::Operation;
use case::{Case, Finding, Member, Mode, Scope};
use search::{Outcome, search};
use std::collections::BTreeMap;
use std::fmt;

pub use rules::{Rules, StampOrder};

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

    pub(crate) fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.partitions += other.partitions;
        self.unknown += other.unknown;
        self.violations.extend(other.violations);
        self.undecided.extend(other.undecided);
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
    /// The operations. Without any one of them, the rest would be possible.
    pub operations: Vec<Operation>,
    /// Writes at the same time that do not explain the answers either, whatever their outcome.
    pub others: Vec<Operation>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        timeline::write(self, f)
    }
}

/// Checks a history.
pub fn check(history: &[Operation], rules: Rules) -> Report {
    let mut partitions: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in history {
        partitions.entry(&operation.partition).or_default().push(operation);
    }
    let mut report = Report::default();
    for (partition, operations) in partitions {
        report.add(check_partition(partition, &operations, rules));
    }
    report
}

fn check_partition(partition: &str, operations: &[&Operation], rules: Rules) -> Report {
    let members: Vec<Member<'_>> = operations.iter().map(|operation| Member { operation, mode: Mode::Exact }).collect();
    let unknown = operations.iter().filter(|operation| operation.is_unknown()).count() as u64;
    let mut report = Report { operations: operations.len() as u64, partitions: 1, unknown, ..Report::default() };
    let scope = Scope { order: rules.order, rows: None, begins_anywhere: false };
    match judge(&members, scope, rules) {
        Verdict::Serializable => {}
        Verdict::Undecided => report.undecided.push(partition.to_owned()),
        Verdict::Violated(finding) => {
            report.violations.push(explain::explain(partition, operations, &finding, rules));
        }
    }
    report
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Serializable,
    Violated(Finding),
    Undecided,
}

/// Judges operations of one partition.
fn judge(members: &[Member<'_>], scope: Scope<'_>, rules: Rules) -> Verdict {
    let case = match Case::build(members, scope) {
        Ok(case) => case,
        Err(finding) => return Verdict::Violated(finding),
    };
    match search(&case, rules) {
        Outcome::Serializable => Verdict::Serializable,
        Outcome::Undecided => Verdict::Undecided,
        Outcome::Impossible(at) => {
            let rule = members.get(at).map_or("", |member| explain::rule(member.operation));
            Verdict::Violated(Finding { members: vec![at], rule })
        }
    }
}
