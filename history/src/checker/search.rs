//! The search for a serial order of one partition's operations.
//!
//! The search passes through the calls and answers in the order of time. It maintains all *configurations*: states in
//! which the partition can be, each with the operations in flight that have already taken their place. A write takes
//! its place as late as possible: only when an answer requires it, its own or another's. A read takes its place as soon
//! as the state agrees with it, because it changes nothing. If no configuration is left after an answer, there is no
//! serial order.
//!
//! Invariants:
//!
//! 1. Configurations are dropped only if another one allows everything that they allow. If there are too many, some are
//!    dropped nevertheless, and the search then never claims a violation. The first attempts drop almost all: a single
//!    order is enough, and only a violation needs all configurations.
//! 2. To reach a goal, only writes are tried that the goal requires, or whose order relative to such a write matters
//!    (a persistent set: [`Search::branches`]). The number of configurations therefore depends on ambiguous writes of
//!    the same entities, and not on the number of clients.

use super::case::{ABSENT, Body, Case, Change, Effect, NEVER, Op, RowState, Seen};
use super::{Rules, StampOrder};
use crate::operation::{Kind, Stamp};
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};

/// The result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Serializable,
    /// No serial order contains the operation with this index and all that were answered before it.
    Impossible(usize),
    Undecided,
}

#[derive(Debug, Clone)]
struct Configuration {
    rows: Vec<RowState>,
    /// The greatest `ETag` of the partition.
    last: Stamp,
    /// The writes in flight that have been applied. Sorted.
    applied: Vec<u32>,
    /// The writes of unknown outcome that have been applied. Sorted.
    used: Vec<u32>,
    /// The reads in flight that have taken their place. Sorted.
    satisfied: Vec<u32>,
}

/// The configurations that were visited on the way to a goal, by their keys.
type Visited = HashMap<Key, Vec<Configuration>>;

/// The part of a configuration that determines what is possible next, apart from unused writes and satisfied reads.
type Key = (Vec<RowState>, Stamp, Vec<u32>);

impl Configuration {
    fn key(&self) -> Key {
        (self.rows.clone(), self.last, self.applied.clone())
    }

    fn row(&self, row: u32) -> RowState {
        self.rows.get(index(row)).copied().unwrap_or_default()
    }

    /// Fewer uncertain writes come first, because they leave more possibilities.
    fn order_of(&self, other: &Self) -> Ordering {
        let key = |configuration: &Self| (configuration.used.len(), configuration.last, configuration.applied.len());
        let rows = || {
            self.rows.iter().map(|row| (row.value, row.etag)).cmp(other.rows.iter().map(|row| (row.value, row.etag)))
        };
        key(self)
            .cmp(&key(other))
            .then_with(rows)
            .then_with(|| self.used.cmp(&other.used))
            .then_with(|| self.satisfied.cmp(&other.satisfied))
    }

    fn is_done(&self, op: u32) -> bool {
        [&self.applied, &self.used, &self.satisfied].into_iter().any(|list| contains(list, op))
    }

    fn forget(&mut self, op: u32) {
        for list in [&mut self.applied, &mut self.used, &mut self.satisfied] {
            if let Ok(at) = list.binary_search(&op) {
                list.remove(at);
            }
        }
    }
}

/// What must happen before a write can be applied.
enum Block {
    /// Some write must change this row first.
    Row(u32),
    /// This write must be applied first.
    Write(u32),
    /// This read must take its place first, because the write removes the version that it saw.
    Read(u32),
    /// It can never be applied: a write with a later Timestamp was applied before.
    Forever,
}

pub(super) struct Search<'c> {
    case: &'c Case,
    rules: Rules,
    frontier: Vec<Configuration>,
    /// Reads in flight.
    reads: Vec<u32>,
    /// Writes in flight that certainly happen.
    writes: Vec<u32>,
    /// Writes that may have happened, and have not been applied in all configurations, by row.
    optional: Vec<Vec<u32>>,
    is_truncated: bool,
    /// How much has been tried.
    work: Cell<u64>,
}

/// The number of configurations of the first attempt.
const FIRST_WIDTH: usize = 8;

/// By how much each further attempt has more configurations.
const WIDTH_GROWTH: usize = 4;

/// The maximum work of one attempt for all answers of a partition, about half a second. If it is exceeded, the
/// partition remains undecided.
const WORK_MAX: u64 = 1_000_000;

/// The work of a step, compared with that of comparing two configurations.
const STEP_WORK: u64 = 16;

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn contains(sorted: &[u32], op: u32) -> bool {
    sorted.binary_search(&op).is_ok()
}

fn add(sorted: &mut Vec<u32>, op: u32) {
    if let Err(at) = sorted.binary_search(&op) {
        sorted.insert(at, op);
    }
}

fn includes(sorted: &[u32], other: &[u32]) -> bool {
    sorted.len() >= other.len() && other.iter().all(|op| contains(sorted, *op))
}

/// Searches for a serial order: first with few configurations, because one order is enough, and with more only if none
/// is found and some were dropped.
pub(super) fn search(case: &Case, rules: Rules) -> Outcome {
    let mut width = FIRST_WIDTH.min(rules.configurations_max);
    loop {
        let outcome = search_with(case, Rules { configurations_max: width, ..rules });
        if outcome != Outcome::Undecided || width >= rules.configurations_max {
            return outcome;
        }
        width = width.saturating_mul(WIDTH_GROWTH).min(rules.configurations_max);
    }
}

fn search_with(case: &Case, rules: Rules) -> Outcome {
    let mut events = Vec::with_capacity(case.ops.len() * 2);
    for (at, op) in case.ops.iter().enumerate() {
        // A call at the time of an answer may have come before it, so it sorts before it.
        events.push((op.call, false, at));
        if op.end != NEVER {
            events.push((op.end, true, at));
        }
    }
    events.sort_unstable();
    let rows = vec![RowState::default(); case.row_count];
    let frontier = vec![Configuration { rows, last: 0, applied: Vec::new(), used: Vec::new(), satisfied: Vec::new() }];
    let optional = vec![Vec::new(); case.row_count];
    let (reads, writes) = (Vec::new(), Vec::new());
    let work = Cell::new(0);
    let mut search = Search { case, rules, frontier, reads, writes, optional, is_truncated: false, work };
    for (_, is_end, at) in events {
        let op = u32::try_from(at).expect("a partition has fewer than 2^32 operations");
        if is_end {
            search.end(op);
        } else {
            search.call(op);
        }
        if search.is_exhausted() {
            return Outcome::Undecided;
        }
        if search.frontier.is_empty() {
            return if search.is_truncated { Outcome::Undecided } else { Outcome::Impossible(at) };
        }
    }
    Outcome::Serializable
}

impl Search<'_> {
    fn op(&self, op: u32) -> &Op {
        self.case.ops.get(index(op)).expect("operations are numbered by their position")
    }

    fn effect(&self, op: u32) -> Option<&Effect> {
        match &self.op(op).body {
            Body::Effect(effect) => Some(effect),
            Body::Get { .. } | Body::Page { .. } | Body::Refused { .. } => None,
        }
    }

    fn changes(&self, op: u32) -> &[Change] {
        self.effect(op).map_or(&[], |effect| &effect.changes)
    }

    fn count(&self, work: u64) {
        self.work.set(self.work.get().saturating_add(work));
    }

    /// Returns whether so much has been tried that the search must give up.
    fn is_exhausted(&self) -> bool {
        self.work.get() > WORK_MAX
    }

    fn call(&mut self, op: u32) {
        match self.effect(op) {
            Some(effect) if effect.is_optional => {
                let rows: Vec<u32> = effect.changes.iter().map(|change| change.row).collect();
                for row in rows {
                    if let Some(optional) = self.optional.get_mut(index(row)) {
                        optional.push(op);
                    }
                }
            }
            Some(_) => self.writes.push(op),
            None => {
                self.reads.push(op);
                let mut frontier = std::mem::take(&mut self.frontier);
                for configuration in frontier.iter_mut().filter(|configuration| self.agrees(configuration, op)) {
                    add(&mut configuration.satisfied, op);
                }
                self.frontier = frontier;
            }
        }
    }

    fn end(&mut self, op: u32) {
        let is_optional = self.effect(op).is_some_and(|effect| effect.is_optional);
        let row = self.changes(op).first().map_or(0, |change| index(change.row));
        if is_optional && !self.optional.get(row).is_some_and(|list| list.contains(&op)) {
            // It was applied in all configurations, and forgotten.
            return;
        }
        let frontier = std::mem::take(&mut self.frontier);
        let (mut next, mut open) = (Vec::with_capacity(frontier.len()), VecDeque::new());
        for configuration in frontier {
            if configuration.is_done(op) {
                next.push(configuration);
                continue;
            }
            if is_optional {
                next.push(configuration.clone());
            }
            open.push_back(configuration);
        }
        self.reach(open, op, &mut next);
        self.reads.retain(|known| *known != op);
        self.writes.retain(|known| *known != op);
        self.forget_optional(op);
        for configuration in &mut next {
            configuration.forget(op);
        }
        if next.len() > 1 {
            next = self.without_dominated(next);
        }
        if next.len() > self.rules.configurations_max {
            next.truncate(self.rules.configurations_max);
            self.is_truncated = true;
        }
        self.frontier = next;
        self.forget_applied();
    }

    fn forget_optional(&mut self, op: u32) {
        let rows: Vec<u32> = self.changes(op).iter().map(|change| change.row).collect();
        for row in rows {
            if let Some(optional) = self.optional.get_mut(index(row)) {
                optional.retain(|known| *known != op);
            }
        }
    }

    /// Forgets writes without an end that have been applied in all configurations.
    fn forget_applied(&mut self) {
        let Some(first) = self.frontier.first() else { return };
        let everywhere = |op: &u32| self.frontier.iter().all(|configuration| configuration.is_done(*op));
        let used = first.used.iter().copied().filter(|op| everywhere(op));
        let endless = first.applied.iter().copied().filter(|op| self.op(*op).end == NEVER && everywhere(op));
        let forgotten: Vec<u32> = used.chain(endless).collect();
        for op in forgotten {
            self.forget_optional(op);
            self.writes.retain(|known| *known != op);
            for configuration in &mut self.frontier {
                configuration.forget(op);
            }
        }
    }

    /// Returns whether the first write of unknown outcome can replace the second one wherever that is used.
    fn can_replace(&self, one: u32, other: u32) -> bool {
        let (Some(first), Some(second)) = (self.effect(one), self.effect(other)) else { return false };
        let ([own], [replaced]) = (&first.changes[..], &second.changes[..]) else { return false };
        let is_as_free = own.kind == replaced.kind && own.if_match.is_none_or(|etag| replaced.if_match == Some(etag))
            || matches!(own.kind, Kind::InsertOrReplace) && matches!(replaced.kind, Kind::Insert | Kind::Replace)
            || matches!(own.kind, Kind::InsertOrMerge) && matches!(replaced.kind, Kind::Insert | Kind::Merge);
        first.is_unseen
            && second.is_unseen
            && own.row == replaced.row
            && own.value == replaced.value
            && is_as_free
            && self.op(one).end >= self.op(other).end
    }

    /// Returns whether the write can never be applied, because the version that its condition names has been replaced.
    fn is_useless(&self, configuration: &Configuration, op: u32) -> bool {
        let is_gone = |change: &Change| {
            let state = configuration.row(change.row);
            change.if_match.is_some_and(|etag| etag != state.etag && etag <= state.last)
        };
        self.rules.order != StampOrder::Life && self.changes(op).iter().any(is_gone)
    }

    /// Returns whether everything that is possible after the second configuration is possible after the first, which
    /// has the same state: the writes that the first has not used can replace the unused writes of the second.
    fn dominates(&self, one: &Configuration, other: &Configuration) -> bool {
        self.count(1);
        if !includes(&one.satisfied, &other.satisfied) {
            return false;
        }
        let mut spare: Vec<u32> = other.used.iter().copied().filter(|op| !contains(&one.used, *op)).collect();
        let missing = one.used.iter().copied().filter(|op| !contains(&other.used, *op));
        missing.filter(|op| !self.is_useless(one, *op)).all(|missing| {
            let found = spare.iter().position(|spare| self.can_replace(*spare, missing));
            found.map(|at| spare.swap_remove(at)).is_some()
        })
    }

    /// Adds every configuration in which the operation has just taken its place, with as few other writes as possible.
    fn reach(&mut self, mut open: VecDeque<Configuration>, goal: u32, reached: &mut Vec<Configuration>) {
        let (mut visited, mut found) = (Visited::new(), Visited::new());
        let (mut steps, before) = (0, reached.len());
        while let Some(mut configuration) = open.pop_front() {
            let branches = self.branches(&configuration, goal);
            let Some((last, others)) = branches.split_last() else { continue };
            for op in others {
                let mut next = configuration.clone();
                self.apply(&mut next, *op);
                if next.is_done(goal) {
                    if self.is_new(&mut found, &next) {
                        reached.push(next);
                    }
                } else if self.is_new(&mut visited, &next) {
                    open.push_back(next);
                }
            }
            self.apply(&mut configuration, *last);
            if configuration.is_done(goal) {
                if self.is_new(&mut found, &configuration) {
                    reached.push(configuration);
                }
            } else if others.is_empty() && open.is_empty() || self.is_new(&mut visited, &configuration) {
                open.push_back(configuration);
            }
            steps += 1;
            self.count(STEP_WORK);
            let is_enough = !open.is_empty() && reached.len() - before >= self.rules.reached_max();
            if is_enough || steps > self.rules.steps_max() || self.is_exhausted() {
                self.is_truncated = true;
                return;
            }
        }
    }

    /// Returns whether no configuration was visited that allows everything that this one allows.
    fn is_new(&self, visited: &mut Visited, configuration: &Configuration) -> bool {
        let known = visited.entry(configuration.key()).or_default();
        let is_new = !known.iter().any(|known| self.dominates(known, configuration));
        if is_new {
            known.push(configuration.clone());
        }
        is_new
    }

    /// Removes configurations that allow nothing that another one does not allow.
    fn without_dominated(&self, configurations: Vec<Configuration>) -> Vec<Configuration> {
        let mut kept = Visited::new();
        for configuration in configurations {
            let group = kept.entry(configuration.key()).or_default();
            if !group.iter().any(|known| self.dominates(known, &configuration)) {
                group.retain(|known| !self.dominates(&configuration, known));
                group.push(configuration);
            }
        }
        let mut kept: Vec<Configuration> = kept.into_values().flatten().collect();
        // The order of the map is random.
        kept.sort_unstable_by(Configuration::order_of);
        kept
    }

    /// Returns the writes of which one must be applied next to reach the goal. They form a persistent set: no sequence
    /// of other writes affects whether or how they can be applied, so every way to the goal can be reordered such that
    /// one of them comes first.
    fn branches(&self, configuration: &Configuration, goal: u32) -> Vec<u32> {
        let (mut set, mut enabled, mut at) = (vec![goal], Vec::new(), 0);
        let include = |set: &mut Vec<u32>, op: u32| {
            if !set.contains(&op) {
                set.push(op);
            }
        };
        while let Some(op) = set.get(at).copied() {
            at += 1;
            if self.effect(op).is_none() {
                if let Some(row) = self.first_difference(configuration, op) {
                    self.writes_of_row(configuration, row).for_each(|op| include(&mut set, op));
                }
                continue;
            }
            match self.states_after(configuration, op) {
                Err(Block::Row(row)) => {
                    self.writes_of_row(configuration, row).for_each(|op| include(&mut set, op));
                }
                Err(Block::Write(previous)) => {
                    if self.writes.contains(&previous) {
                        include(&mut set, previous);
                    }
                }
                Err(Block::Read(read)) => include(&mut set, read),
                Err(Block::Forever) => {}
                Ok(states) => {
                    enabled.push(op);
                    if self.rules.order == StampOrder::Partition
                        && let Some(etag) = states.iter().map(|(_, state)| state.etag).max().filter(|etag| *etag > 0)
                    {
                        self.writes_before(configuration, etag).for_each(|op| include(&mut set, op));
                    }
                    for (row, state) in states {
                        for other in self.writes_of_row(configuration, row) {
                            if !self.follows(other, op, row) {
                                include(&mut set, other);
                            }
                        }
                        let before = configuration.row(row);
                        for read in self.reads.iter().filter(|read| !contains(&configuration.satisfied, **read)) {
                            if self.agrees_on(*read, row, before) && !self.agrees_on(*read, row, state) {
                                include(&mut set, *read);
                            }
                        }
                    }
                }
            }
        }
        enabled
    }

    /// Returns the writes of the partition that can no longer be applied after a write with this Timestamp: those whose
    /// Timestamp is lower, and those whose Timestamp depends on what they change.
    fn writes_before(&self, configuration: &Configuration, etag: Stamp) -> impl Iterator<Item = u32> {
        let stamp = |op: &u32| self.changes(*op).iter().filter_map(|change| change.etag).max();
        let certain = self.writes.iter().copied().filter(move |op| stamp(op).is_some_and(|known| known < etag));
        let certain = certain.filter(|op| !contains(&configuration.applied, *op));
        let is_seen = |op: &u32| self.effect(*op).is_some_and(|effect| effect.is_seen);
        let optional = self.optional.iter().flatten().copied().filter(is_seen);
        certain.chain(optional.filter(|op| !contains(&configuration.used, *op)))
    }

    /// Returns whether the order of Timestamps requires `op` before `other`.
    fn follows(&self, other: u32, op: u32, row: u32) -> bool {
        let etag = |op| self.changes(op).iter().find(|change| change.row == row).and_then(|change| change.etag);
        let is_certain = |op| self.effect(op).is_some_and(|effect| !effect.is_optional);
        self.rules.order != StampOrder::Life
            && is_certain(other)
            && is_certain(op)
            && etag(op).zip(etag(other)).is_some_and(|(etag, other)| etag < other)
    }

    /// Returns the writes of a row that have been called and not applied. Of those that differ in nothing but their
    /// end, returns only the one that ends first.
    fn writes_of_row(&self, configuration: &Configuration, row: u32) -> impl Iterator<Item = u32> + use<> {
        let changes_row = |op: &u32| self.changes(*op).iter().any(|change| change.row == row);
        let mut found: Vec<u32> = self.writes.iter().copied().filter(changes_row).collect();
        found.retain(|op| !contains(&configuration.applied, *op));
        let mut alike: HashMap<&Change, usize> = HashMap::new();
        let optional = self.optional.get(index(row)).into_iter().flatten().copied();
        for op in optional.filter(|op| !contains(&configuration.used, *op)) {
            let Some(change) = self.changes(op).first().filter(|_| self.effect(op).is_some_and(|op| op.is_unseen))
            else {
                found.push(op);
                continue;
            };
            let place = *alike.entry(change).or_insert(found.len());
            match found.get_mut(place) {
                Some(known) if self.op(op).end < self.op(*known).end => *known = op,
                Some(_) => {}
                None => found.push(op),
            }
        }
        found.into_iter()
    }

    /// Returns the new states of the rows that a write changes, or what prevents it.
    fn states_after(&self, configuration: &Configuration, op: u32) -> Result<Vec<(u32, RowState)>, Block> {
        let Some(effect) = self.effect(op) else { return Ok(Vec::new()) };
        if let Some(previous) = effect.previous
            && self.writes.contains(&previous)
            && !contains(&configuration.applied, previous)
        {
            return Err(Block::Write(previous));
        }
        let mut states = Vec::with_capacity(effect.changes.len());
        for change in &effect.changes {
            states.push((change.row, self.state_after(configuration, op, change)?));
        }
        for (row, _) in &states {
            let before = configuration.row(*row);
            let sees = |read: &&u32| {
                !contains(&configuration.satisfied, **read)
                    && self.seen(**read, *row).is_some_and(|seen| seen.value == before.value && seen.value != ABSENT)
            };
            if let Some(read) = self.reads.iter().find(sees) {
                return Err(Block::Read(*read));
            }
        }
        Ok(states)
    }

    fn state_after(&self, configuration: &Configuration, op: u32, change: &Change) -> Result<RowState, Block> {
        let before = configuration.row(change.row);
        if let Some((previous, etag)) = change.previous
            && before.last < etag
            && self.writes.contains(&previous)
        {
            return Err(Block::Write(previous));
        }
        if change.kind.refusal(change.if_match, before.existing()).is_some() {
            return Err(Block::Row(change.row));
        }
        if change.kind == Kind::Delete {
            return Ok(RowState { value: ABSENT, etag: 0, last: before.last });
        }
        let is_merged = change.kind.merges() && before.value != ABSENT;
        let value = if is_merged { self.case.merged(before.value, change.value) } else { change.value };
        let seen = self.case.seen_etag(change.row, value);
        let etag = change.etag.or(seen).unwrap_or(0);
        if etag == 0 {
            return Ok(RowState { value, etag, last: before.last });
        }
        let is_too_late = match self.rules.order {
            StampOrder::Life => before.value != ABSENT && etag <= before.etag,
            StampOrder::Entity => etag <= before.last,
            StampOrder::Partition => etag <= before.last || etag <= configuration.last,
        };
        if is_too_late {
            let is_final = change.etag.is_some() && self.rules.order != StampOrder::Life;
            return Err(if is_final { Block::Forever } else { Block::Row(change.row) });
        }
        let is_wrong = seen.is_some_and(|seen| seen != etag)
            || self.case.seen_value(change.row, etag).is_some_and(|seen| seen != value)
            || self.case.is_of_other(change.row, etag, op);
        if is_wrong {
            return Err(Block::Row(change.row));
        }
        Ok(RowState { value, etag, last: before.last.max(etag) })
    }

    fn apply(&self, configuration: &mut Configuration, op: u32) {
        let Ok(states) = self.states_after(configuration, op) else { return };
        for (row, state) in &states {
            if let Some(known) = configuration.rows.get_mut(index(*row)) {
                *known = *state;
            }
            configuration.last = configuration.last.max(state.etag);
        }
        let is_optional = self.effect(op).is_some_and(|effect| effect.is_optional);
        add(if is_optional { &mut configuration.used } else { &mut configuration.applied }, op);
        for read in self.reads.iter().copied() {
            if contains(&configuration.satisfied, read) {
                continue;
            }
            let is_concerned = |(row, state): &(u32, RowState)| self.agrees_on(read, *row, *state);
            if states.iter().all(is_concerned) && self.agrees(configuration, read) {
                add(&mut configuration.satisfied, read);
            }
        }
    }

    /// Returns the version of a row that a read saw, if it saw one.
    fn seen(&self, read: u32, row: u32) -> Option<Seen> {
        match &self.op(read).body {
            Body::Get { row: known, seen } => (*known == row).then_some(*seen),
            Body::Page { entities, .. } => {
                let at = entities.binary_search_by_key(&row, |(row, _)| *row).ok()?;
                entities.get(at).map(|(_, seen)| *seen)
            }
            Body::Refused { .. } | Body::Effect(_) => None,
        }
    }

    /// Returns whether a read agrees with the state of a row.
    fn agrees_on(&self, read: u32, row: u32, state: RowState) -> bool {
        match &self.op(read).body {
            Body::Get { row: known, seen } => *known != row || *seen == Seen { value: state.value, etag: state.etag },
            Body::Page { rows, filter, .. } => {
                if !rows.contains(&row) {
                    return true;
                }
                if let Some(seen) = self.seen(read, row) {
                    return seen == Seen { value: state.value, etag: state.etag };
                }
                state.value == ABSENT || filter.is_some_and(|filter| self.case.is_excluded(&filter, state.value))
            }
            Body::Refused { changes } => changes.iter().all(|change| {
                change.row != row || change.kind.refusal(change.if_match, state.existing()) == change.refusal
            }),
            Body::Effect(_) => true,
        }
    }

    fn agrees(&self, configuration: &Configuration, read: u32) -> bool {
        self.first_difference(configuration, read).is_none()
    }

    /// Returns a row whose state differs from what the read saw.
    fn first_difference(&self, configuration: &Configuration, read: u32) -> Option<u32> {
        let differs = |row: &u32| !self.agrees_on(read, *row, configuration.row(*row));
        match &self.op(read).body {
            Body::Get { row, .. } => Some(*row).filter(differs),
            Body::Page { rows, .. } => rows.clone().find(differs),
            Body::Refused { changes } => changes.iter().map(|change| change.row).find(differs),
            Body::Effect(_) => None,
        }
    }
}
