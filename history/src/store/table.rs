//! The model of a partition: a map, its past states, and the Timestamps, with the planted bugs.

use crate::checker::StampOrder;
use crate::operation::{Answer, Kind, Mutation, Page, Refusal, Stamp, Value, Version};
use crate::planted::PlantedBug;
use crate::workload::Query;
use fastrand::Rng;
use std::collections::{BTreeMap, HashSet};

/// The number of past states that bugs may show.
const PAST_STATES: usize = 12;

pub(super) type State = BTreeMap<String, Version>;

#[derive(Debug)]
pub(super) struct Partition {
    pub(super) state: State,
    /// The states before the current one, latest last.
    past: Vec<State>,
    /// The state between two mutations of the last write, if it was a transaction.
    half: Option<State>,
    /// Versions that point reads wrongly return.
    stale: State,
    /// The entity of the last deletion.
    deleted: Option<(String, Version)>,
    last: Stamp,
    /// The next Timestamp of the server whose slot has expired.
    expired: Option<Stamp>,
    pub(super) commits: u64,
}

#[derive(Debug)]
pub(super) struct Store {
    pub(super) partitions: Vec<Partition>,
    order: StampOrder,
    bug: Option<PlantedBug>,
    next: Stamp,
    /// The Timestamps so far, for an order in which they do not increase.
    used: HashSet<Stamp>,
    random: Rng,
}

impl Store {
    pub(super) fn new(partitions: usize, order: StampOrder, bug: Option<PlantedBug>, seed: u64) -> Self {
        let partition = || Partition {
            state: State::new(),
            past: Vec::new(),
            half: None,
            stale: State::new(),
            deleted: None,
            last: 0,
            expired: None,
            commits: 0,
        };
        let partitions = std::iter::repeat_with(partition).take(partitions).collect();
        Self { partitions, order, bug, next: 1_000, used: HashSet::new(), random: Rng::with_seed(seed) }
    }

    /// Returns whether the bug is planted and shows itself now.
    pub(super) fn has(&mut self, bug: PlantedBug, one_in: u32) -> bool {
        self.bug == Some(bug) && self.random.u32(0..one_in) == 0
    }

    fn stamp(&mut self, at: usize, existing: Option<Stamp>) -> Stamp {
        if self.has(PlantedBug::StampGoesBackwards, 12)
            && let Some(existing) = existing
        {
            // Later writes have odd Timestamps, so this one is not used twice.
            return existing - 1;
        }
        let Some(partition) = self.partitions.get_mut(at) else { return 0 };
        if let Some(expired) = &mut partition.expired
            && self.random.bool()
        {
            *expired += 10;
            return *expired;
        }
        self.next += 10;
        match self.order {
            StampOrder::Partition => self.next,
            StampOrder::Entity => self.next + self.random.u64(0..4) * 2,
            // Another server's clock may be behind, but the Timestamps of an existing entity increase. Each server has
            // its own last digit.
            StampOrder::Life => {
                let behind = self.random.u64(0..8) * 10;
                let floor = existing.map_or(0, |existing| existing + 10 - existing % 10);
                let mut stamp = (self.next - behind).max(floor) / 10 * 10 + self.random.u64(0..4) * 2;
                while !self.used.insert(stamp) {
                    stamp += 10;
                }
                stamp
            }
        }
    }

    pub(super) fn get(&mut self, at: usize, row: &str) -> Option<Version> {
        let is_stale = self.has(PlantedBug::StaleRead, 4);
        let has_other_etag = self.has(PlantedBug::ETagOfOtherVersion, 6);
        let partition = self.partitions.get(at)?;
        if let Some(stale) = partition.stale.get(row) {
            return Some(stale.clone());
        }
        let found = partition.state.get(row).cloned();
        let mut earlier = partition.past.iter().rev().map(|state| state.get(row).cloned());
        let earlier = earlier.find(|earlier| *earlier != found);
        if is_stale && let Some(earlier) = earlier {
            return earlier;
        }
        let mut found = found?;
        if has_other_etag && let Some(Some(earlier)) = earlier {
            found.etag = earlier.etag;
        }
        Some(found)
    }

    pub(super) fn page(&mut self, at: usize, query: &Query) -> Page {
        let is_torn = self.has(PlantedBug::TornPage, 2);
        let is_half = self.has(PlantedBug::HalfTransactionInPage, 1);
        let omits = self.has(PlantedBug::PageOmitsEntity, 4);
        let skips = self.has(PlantedBug::TokenSkips, 2);
        let repeats = self.has(PlantedBug::TokenRepeats, 2);
        let mut page =
            Page { from: query.from.clone(), until: query.until.clone(), filter: query.filter, entities: Vec::new() };
        let Some(partition) = self.partitions.get(at) else { return page };
        let mut state = partition.state.clone();
        if is_torn && let Some(earlier) = partition.past.len().checked_sub(3).and_then(|at| partition.past.get(at)) {
            let middle = state.keys().nth(state.len() / 2).cloned().unwrap_or_default();
            let first = earlier.iter().filter(|(row, _)| **row < middle);
            let rest = state.iter().filter(|(row, _)| **row >= middle);
            state = first.chain(rest).map(|(row, version)| (row.clone(), version.clone())).collect();
        }
        if is_half && let Some(half) = &partition.half {
            state = half.clone();
        }
        let is_covered = |row: &str| row >= query.from.as_str() && query.until.as_deref().is_none_or(|end| row < end);
        let matches = |version: &Version| query.filter.is_none_or(|filter| filter.matches(&version.value));
        let mut rest = state.into_iter().filter(|(row, version)| is_covered(row) && matches(version));
        page.entities.extend(rest.by_ref().take(query.limit));
        if let Some((mut next, _)) = rest.next() {
            if skips && let Some((after, _)) = rest.next() {
                next = after;
            }
            page.until = Some(next);
            if repeats && let Some((last, _)) = page.entities.last() {
                page.until = Some(last.clone());
            }
        }
        if omits && !page.entities.is_empty() {
            page.entities.remove(self.random.usize(0..page.entities.len()));
        }
        page
    }

    /// Executes a write. `seen` is the state at the time of the call.
    pub(super) fn write(&mut self, at: usize, mutations: &[Mutation], seen: &State) -> Answer {
        let on_snapshot = self.has(PlantedBug::ConditionOnSnapshot, 1);
        let Some(state) = self.partitions.get(at).map(|partition| partition.state.clone()) else {
            return Answer::Unknown;
        };
        let mut refused = None;
        for (index, mutation) in mutations.iter().enumerate() {
            let checked = if on_snapshot { seen } else { &state };
            let existing = checked.get(&mutation.row).map(|version| version.etag);
            let reason = mutation.kind.refusal(mutation.if_match, existing);
            if let Some(reason) = self.with_wrong_checks(mutation, existing, reason) {
                refused = Some((index, reason));
                break;
            }
        }
        let Some((index, reason)) = refused else { return self.commit(at, mutations, seen, true) };
        if self.has(PlantedBug::RefusedButWritten, 2) {
            self.commit(at, mutations, seen, false);
        } else if index > 0 && self.has(PlantedBug::RefusedPartlyWritten, 1) {
            self.commit(at, mutations.get(..index).unwrap_or_default(), seen, false);
        } else if mutations.len() > 1 && self.has(PlantedBug::WrongIndex, 1) {
            return Answer::Refused { index: (index + 1) % mutations.len(), reason };
        }
        Answer::Refused { index, reason }
    }

    fn with_wrong_checks(
        &mut self,
        mutation: &Mutation,
        existing: Option<Stamp>,
        reason: Option<Refusal>,
    ) -> Option<Refusal> {
        let is_conditional = mutation.if_match.is_some();
        let has_condition = !matches!(mutation.kind, Kind::Insert | Kind::InsertOrReplace | Kind::InsertOrMerge);
        match reason {
            None if is_conditional && self.has(PlantedBug::WrongConditionNotMet, 3) => Some(Refusal::ConditionNotMet),
            None if mutation.kind == Kind::Insert && self.has(PlantedBug::WrongExists, 4) => Some(Refusal::Exists),
            None if has_condition && existing.is_some() && self.has(PlantedBug::WrongNotFound, 4) => {
                Some(Refusal::NotFound)
            }
            Some(Refusal::Exists) if self.has(PlantedBug::InsertSucceedsTwice, 3) => None,
            Some(Refusal::NotFound)
                if mutation.kind == Kind::Delete && is_conditional && self.has(PlantedBug::DeleteSucceedsTwice, 1) =>
            {
                None
            }
            other => other,
        }
    }

    fn commit(&mut self, at: usize, mutations: &[Mutation], seen: &State, is_acknowledged: bool) -> Answer {
        let loses_all = is_acknowledged && self.has(PlantedBug::LostGroupMember, 10);
        let loses_part = is_acknowledged && mutations.len() > 1 && self.has(PlantedBug::LostTransactionPart, 5);
        let lost = loses_part.then(|| self.random.usize(0..mutations.len()));
        let wrong_etag = self.has(PlantedBug::WrongETagInAnswer, 10);
        let Some(mut state) = self.partitions.get(at).map(|partition| partition.state.clone()) else {
            return Answer::Unknown;
        };
        let before = state.clone();
        let existing = mutations.iter().filter_map(|mutation| before.get(&mutation.row)).map(|version| version.etag);
        let stamp = self.stamp(at, existing.max());
        let (mut etags, mut half, mut deleted) = (Vec::new(), None, None);
        for (index, mutation) in mutations.iter().enumerate() {
            if index > 0 && index == mutations.len() / 2 {
                half = Some(state.clone());
            }
            let is_lost = loses_all || lost == Some(index);
            if mutation.kind == Kind::Delete {
                if !is_lost {
                    deleted = state.remove(&mutation.row).map(|version| (mutation.row.clone(), version)).or(deleted);
                }
                etags.push(None);
                continue;
            }
            let value = self.value_after(mutation, &state, seen);
            if !is_lost {
                state.insert(mutation.row.clone(), Version { etag: stamp, value });
            }
            etags.push(Some(if wrong_etag { stamp + 1 } else { stamp }));
        }
        if let Some(partition) = self.partitions.get_mut(at) {
            partition.past.push(before);
            if partition.past.len() > PAST_STATES {
                partition.past.remove(0);
            }
            partition.state = state;
            partition.half = half;
            partition.deleted = deleted.or(partition.deleted.take());
            partition.last = partition.last.max(stamp);
            partition.commits += 1;
            for mutation in mutations {
                partition.stale.remove(&mutation.row);
            }
        }
        Answer::Done(etags)
    }

    fn value_after(&mut self, mutation: &Mutation, state: &State, seen: &State) -> Value {
        let existing = state.get(&mutation.row);
        if !mutation.kind.merges() {
            return mutation.value.clone();
        }
        let Some(existing) = existing else { return mutation.value.clone() };
        let is_stale = self.has(PlantedBug::LostUpdate, 1);
        let base = if is_stale { seen.get(&mutation.row).unwrap_or(existing) } else { existing };
        let merged = base.value.merged(&mutation.value);
        if self.has(PlantedBug::MergeLosesProperty, 5) {
            let is_set = |(_, token): &(_, u64)| mutation.value.get_token() == Some(*token);
            return merged.properties().filter(is_set).collect();
        }
        merged
    }

    /// What may happen to a partition by itself. Only bugs have visible effects.
    pub(super) fn background(&mut self, at: usize) {
        let merges = self.has(PlantedBug::StaleLookupAfterMerge, 20);
        let undoes = self.has(PlantedBug::DeletionUndone, 20);
        let expires = self.has(PlantedBug::ExpiredSlotWrites, 40);
        let random = &mut self.random;
        let Some(partition) = self.partitions.get_mut(at) else { return };
        if merges && let Some(row) = partition.state.keys().nth(random.usize(0..partition.state.len().max(1))).cloned()
        {
            let mut earlier = partition.past.iter().rev().filter_map(|state| state.get(&row));
            if let Some(earlier) = earlier.find(|earlier| Some(*earlier) != partition.state.get(&row)) {
                partition.stale.insert(row, earlier.clone());
            }
        }
        if undoes
            && let Some((row, version)) = partition.deleted.take()
            && !partition.state.contains_key(&row)
        {
            partition.state.insert(row, version);
        }
        if expires {
            // The expired server has reserved some Timestamps, which are now in the past.
            partition.expired = Some(partition.last.saturating_sub(60).max(10));
        }
    }

    /// Restarts the server. `unacknowledged` are the partitions whose last write was not acknowledged.
    pub(super) fn crash(&mut self, unacknowledged: &[usize]) {
        for at in 0..self.partitions.len() {
            let is_unacknowledged = unacknowledged.contains(&at);
            let loses = if is_unacknowledged {
                self.has(PlantedBug::VisibleBeforeSynced, 1)
            } else {
                self.has(PlantedBug::LostAcknowledgedWrite, 2)
            };
            if let Some(partition) = self.partitions.get_mut(at).filter(|_| loses)
                && let Some(before) = partition.past.pop()
            {
                partition.state = before;
                partition.half = None;
            }
        }
        if self.has(PlantedBug::StampReusedAfterRestart, 1) {
            self.next = self.next.saturating_sub(200).max(1_000);
            self.used.clear();
        }
    }
}
