//! The operations of one partition in the form that the search uses: row keys and values are numbers, and what follows
//! from the answers alone has been derived.
//!
//! Some violations are visible here, without any search: an `ETag` that names two states, a state with two `ETag`s, a
//! value that no write wrote, a page with an entity outside its range.

use super::StampOrder;
use crate::operation::{Action, Answer, Filter, Kind, Mutation, Operation, Page, Refusal, Stamp, Time, Value, Version};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// The token of a property whose content no read shows, so that all such tokens are alike.
const UNSEEN: u64 = u64::MAX;

/// The value of a row without an entity.
pub(super) const ABSENT: u32 = 0;

/// The time of an operation that has no end.
pub(super) const NEVER: Time = Time::MAX;

/// A violation that the operations with these indexes show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) members: Vec<usize>,
    pub(super) rule: &'static str,
}

#[derive(Debug)]
pub(super) struct Op {
    pub(super) call: Time,
    pub(super) end: Time,
    pub(super) body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    Get {
        row: u32,
        seen: Seen,
    },
    Page {
        rows: std::ops::Range<u32>,
        entities: Vec<(u32, Seen)>,
        filter: Option<Filter>,
    },
    /// The changes up to the refused one.
    Refused {
        changes: Vec<Change>,
    },
    Effect(Effect),
}

/// A write that happened or may have happened.
#[derive(Debug)]
pub(super) struct Effect {
    pub(super) changes: Vec<Change>,
    /// Whether it may never have happened.
    pub(super) is_optional: bool,
    /// The write before which it must not be applied, in the order of Timestamps of the partition.
    pub(super) previous: Option<u32>,
    /// Whether only its kind distinguishes it from others: a single change whose properties no read shows.
    pub(super) is_unseen: bool,
    /// Whether a read shows something that it wrote.
    pub(super) is_seen: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Change {
    pub(super) row: u32,
    pub(super) kind: Kind,
    pub(super) if_match: Option<Stamp>,
    pub(super) value: u32,
    /// The `ETag` of the new version, if a client knows it.
    pub(super) etag: Option<Stamp>,
    /// The write with the next lower Timestamp of the entity, and that Timestamp.
    pub(super) previous: Option<(u32, Stamp)>,
    /// The reason for which the change was refused.
    pub(super) refusal: Option<Refusal>,
}

/// A version as read, or [`ABSENT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) value: u32,
    pub(super) etag: Stamp,
}

/// The state of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct RowState {
    pub(super) value: u32,
    /// Zero if no client knows it, or if there is no entity.
    pub(super) etag: Stamp,
    /// The greatest `ETag` so far.
    pub(super) last: Stamp,
}

impl RowState {
    pub(super) fn existing(self) -> Option<Stamp> {
        (self.value != ABSENT).then_some(self.etag)
    }
}

#[derive(Debug, Default)]
pub(super) struct Case {
    pub(super) ops: Vec<Op>,
    pub(super) row_count: usize,
    /// The search adds values while it shares the rest.
    values: RefCell<Values>,
    /// The `ETag` with which a value of a row was seen.
    etags: HashMap<(u32, u32), Stamp>,
    /// The value that a row had under an `ETag`, and the operation that shows it.
    versions: HashMap<(u32, Stamp), (u32, usize)>,
    /// The write that answered with an `ETag`.
    answered: HashMap<(u32, Stamp), u32>,
}

#[derive(Debug, Default)]
struct Values {
    list: Vec<Value>,
    ids: HashMap<Value, u32>,
    merges: HashMap<(u32, u32), u32>,
}

impl Values {
    fn get(&self, id: u32) -> &Value {
        self.list.get(usize::try_from(id).unwrap_or(usize::MAX)).expect("every value is interned")
    }

    fn intern(&mut self, value: Value) -> u32 {
        if let Some(id) = self.ids.get(&value) {
            return *id;
        }
        let id = u32::try_from(self.list.len()).expect("a partition has fewer than 2^32 values");
        self.ids.insert(value.clone(), id);
        self.list.push(value);
        id
    }
}

/// What [`Case::build`] knows of the tokens.
struct Tokens {
    seen: HashSet<u64>,
    /// A filter compares tokens that no read shows.
    all_are_seen: bool,
}

impl Tokens {
    fn normal(&self, value: &Value) -> Value {
        let normal = |token| if self.all_are_seen || self.seen.contains(&token) { token } else { UNSEEN };
        value.properties().map(|(property, token)| (property, normal(token))).collect()
    }
}

fn versions_of(operation: &Operation) -> Vec<(&str, Option<&Version>)> {
    match &operation.action {
        Action::Get { row, found } => vec![(row, found.as_ref())],
        Action::Page(page) => page.entities.iter().map(|(row, version)| (row.as_str(), Some(version))).collect(),
        Action::Write { .. } => Vec::new(),
    }
}

fn mutations_of(operation: &Operation) -> &[Mutation] {
    match &operation.action {
        Action::Write { mutations, .. } => mutations,
        Action::Get { .. } | Action::Page(_) => &[],
    }
}

/// Returns whether the operation may have changed something.
fn may_write(operation: &Operation) -> bool {
    matches!(&operation.action, Action::Write { answer: Answer::Done(_) | Answer::Unknown, .. })
}

/// Returns the row keys that an operation names. A page covers others as well.
pub(super) fn named_rows(operation: &Operation) -> Vec<&str> {
    let versions = versions_of(operation).into_iter().map(|(row, _)| row);
    versions.chain(mutations_of(operation).iter().map(|mutation| mutation.row.as_str())).collect()
}

/// Returns whether the operation reads or writes the row.
pub(super) fn concerns(operation: &Operation, row: &str) -> bool {
    match &operation.action {
        Action::Page(page) => covers(page, row) || page.entities.iter().any(|(known, _)| known == row),
        Action::Get { .. } | Action::Write { .. } => named_rows(operation).into_iter().any(|known| known == row),
    }
}

fn covers(page: &Page, row: &str) -> bool {
    *page.from <= *row && page.until.as_deref().is_none_or(|until| row < until)
}

fn is_malformed(operation: &Operation) -> bool {
    // Every write writes at least one property.
    let is_empty = |version: &Version| version.value.is_empty();
    if versions_of(operation).into_iter().filter_map(|(_, version)| version).any(is_empty) {
        return true;
    }
    match &operation.action {
        Action::Write { mutations, answer: Answer::Done(etags) } => {
            let fits =
                |(mutation, etag): (&Mutation, &Option<Stamp>)| (mutation.kind == Kind::Delete) == etag.is_none();
            etags.len() != mutations.len() || !mutations.iter().zip(etags).all(fits)
        }
        Action::Write { mutations, answer: Answer::Refused { index, .. } } => *index >= mutations.len(),
        Action::Write { .. } | Action::Get { .. } => false,
        Action::Page(page) => {
            !page.entities.is_sorted_by(|(one, _), (next, _)| one < next)
                || page.entities.iter().any(|(row, version)| {
                    !covers(page, row) || page.filter.is_some_and(|filter| !filter.matches(&version.value))
                })
        }
    }
}

impl Case {
    /// Derives a case from the operations of one partition.
    pub(super) fn build(operations: &[&Operation], order: StampOrder) -> Result<Self, Finding> {
        const MALFORMED: &str = "an answer that does not fit its request: a page must contain, in order and once, \
            entities of its range that match its filter, an entity must have properties, and a write must be answered \
            mutation by mutation";
        if let Some(at) = operations.iter().position(|operation| is_malformed(operation)) {
            return Err(Finding { members: vec![at], rule: MALFORMED });
        }
        let mut rows: Vec<&str> = operations.iter().flat_map(|operation| named_rows(operation)).collect();
        rows.sort_unstable();
        rows.dedup();
        let mut tokens = Tokens { seen: HashSet::new(), all_are_seen: false };
        for operation in operations {
            if let Action::Page(Page { filter: Some(_), .. }) = operation.action {
                tokens.all_are_seen = true;
            }
            for version in versions_of(operation).into_iter().filter_map(|(_, version)| version) {
                tokens.seen.extend(version.value.properties().map(|(_, token)| token));
            }
        }
        let mut case = Self { row_count: rows.len(), ..Self::default() };
        case.intern(Value::default());
        for operation in operations {
            case.add(operation, &rows, &tokens);
        }
        case.note_versions(operations, &rows)?;
        case.note_answers()?;
        let written = Self::check_values(operations, &rows)?;
        case.resolve(operations, &rows, &written)?;
        case.order(order == StampOrder::Partition, order != StampOrder::Life);
        Ok(case)
    }

    fn intern(&self, value: Value) -> u32 {
        self.values.borrow_mut().intern(value)
    }

    /// Returns the result of merging the second value into the first.
    pub(super) fn merged(&self, before: u32, set: u32) -> u32 {
        let values = &mut *self.values.borrow_mut();
        if let Some(merged) = values.merges.get(&(before, set)) {
            return *merged;
        }
        let merged = values.get(before).merged(values.get(set));
        let merged = values.intern(merged);
        values.merges.insert((before, set), merged);
        merged
    }

    /// Returns whether a page with the filter lacks an entity with the value.
    pub(super) fn is_excluded(&self, filter: &Filter, value: u32) -> bool {
        !filter.matches(self.values.borrow().get(value))
    }

    /// Returns whether a read shows none, or not all, of the properties of a value.
    fn is_partly_unseen(&self, value: u32) -> bool {
        self.values.borrow().get(value).properties().any(|(_, token)| token == UNSEEN)
    }

    /// Returns the `ETag` with which clients saw a value of a row.
    pub(super) fn seen_etag(&self, row: u32, value: u32) -> Option<Stamp> {
        self.etags.get(&(row, value)).copied()
    }

    /// Returns the value that clients saw under an `ETag`.
    pub(super) fn seen_value(&self, row: u32, etag: Stamp) -> Option<u32> {
        self.versions.get(&(row, etag)).map(|(value, _)| *value)
    }

    /// Returns whether a write other than this one was answered with the `ETag`.
    pub(super) fn is_of_other(&self, row: u32, etag: Stamp, op: u32) -> bool {
        self.answered.get(&(row, etag)).is_some_and(|known| *known != op)
    }

    fn add(&mut self, operation: &Operation, rows: &[&str], tokens: &Tokens) {
        let row_of = |row: &str| row_number(rows, row);
        let seen = |case: &Self, version: Option<&Version>| match version {
            Some(version) => Seen { value: case.intern(version.value.clone()), etag: version.etag },
            None => Seen { value: ABSENT, etag: 0 },
        };
        let body = match &operation.action {
            Action::Get { row, found } => Body::Get { row: row_of(row), seen: seen(self, found.as_ref()) },
            Action::Page(page) => {
                let at = |key: &str| u32::try_from(rows.partition_point(|row| *row < key)).unwrap_or(u32::MAX);
                let end = page.until.as_deref().map_or_else(|| u32::try_from(rows.len()).unwrap_or(u32::MAX), at);
                let entities = page.entities.iter().map(|(row, version)| (row_of(row), seen(self, Some(version))));
                Body::Page { rows: at(&page.from)..end, entities: entities.collect(), filter: page.filter }
            }
            Action::Write { mutations, answer } => {
                let mut changes = Vec::with_capacity(mutations.len());
                for (index, mutation) in mutations.iter().enumerate() {
                    let etag = match answer {
                        Answer::Done(etags) => etags.get(index).copied().flatten(),
                        Answer::Refused { .. } | Answer::Unknown => None,
                    };
                    let refusal = match answer {
                        Answer::Refused { index: refused, .. } if index > *refused => break,
                        Answer::Refused { index: refused, reason } if index == *refused => Some(*reason),
                        _ => None,
                    };
                    let (row, kind, if_match) = (row_of(&mutation.row), mutation.kind, mutation.if_match);
                    let value = self.intern(tokens.normal(&mutation.value));
                    changes.push(Change { row, kind, if_match, value, etag, previous: None, refusal });
                }
                match answer {
                    Answer::Refused { .. } => Body::Refused { changes },
                    Answer::Done(_) | Answer::Unknown => {
                        let mut written = mutations.iter().flat_map(|mutation| mutation.value.properties()).peekable();
                        let may_match = tokens.all_are_seen && written.peek().is_some();
                        let is_seen = written.any(|(_, token)| tokens.seen.contains(&token));
                        let is_unseen = changes.len() == 1 && !is_seen && !may_match;
                        let is_optional = *answer == Answer::Unknown;
                        Body::Effect(Effect { changes, is_optional, previous: None, is_unseen, is_seen })
                    }
                }
            }
        };
        self.ops.push(Op { call: operation.call, end: operation.returned.unwrap_or(NEVER), body });
    }

    /// Notes the versions that reads and the answers to whole-entity writes show.
    fn note_versions(&mut self, operations: &[&Operation], rows: &[&str]) -> Result<(), Finding> {
        const TWO_STATES: &str = "an ETag names two states of an entity";
        const TWO_ETAGS: &str = "one state of an entity has two ETags: a write took effect twice, or an ETag is wrong";
        let mut noted: HashMap<(u32, u32), usize> = HashMap::new();
        for (at, operation) in operations.iter().enumerate() {
            let mut shown = Vec::new();
            for (row, version) in versions_of(operation) {
                if let Some(version) = version {
                    shown.push((row_number(rows, row), self.intern(version.value.clone()), version.etag));
                }
            }
            if let Some(Op { body: Body::Effect(effect), .. }) = self.ops.get(at) {
                let whole = effect.changes.iter().filter(|change| !change.kind.merges());
                shown.extend(whole.filter_map(|change| Some((change.row, change.value, change.etag?))));
            }
            for (row, value, etag) in shown {
                let (known, other) = *self.versions.entry((row, etag)).or_insert((value, at));
                if known != value {
                    return Err(Finding { members: vec![other, at], rule: TWO_STATES });
                }
                if self.is_partly_unseen(value) {
                    continue;
                }
                let known = *self.etags.entry((row, value)).or_insert(etag);
                let other = *noted.entry((row, value)).or_insert(at);
                if known != etag {
                    return Err(Finding { members: vec![other, at], rule: TWO_ETAGS });
                }
            }
        }
        Ok(())
    }

    fn note_answers(&mut self) -> Result<(), Finding> {
        const TWICE: &str = "two writes of an entity were answered with the same ETag";
        for (at, op) in self.ops.iter().enumerate() {
            let Body::Effect(effect) = &op.body else { continue };
            let number = u32::try_from(at).unwrap_or(u32::MAX);
            for (row, etag) in effect.changes.iter().filter_map(|change| Some((change.row, change.etag?))) {
                if let Some(other) = self.answered.insert((row, etag), number) {
                    let other = usize::try_from(other).unwrap_or(usize::MAX);
                    return Err(Finding { members: vec![other, at], rule: TWICE });
                }
            }
        }
        Ok(())
    }

    /// Returns the writes by the entity and the tokens that they write.
    fn check_values(operations: &[&Operation], rows: &[&str]) -> Result<HashMap<(u32, u64), u32>, Finding> {
        const UNWRITTEN: &str = "a value that no write of the entity wrote";
        let mut written = HashMap::new();
        for (at, operation) in operations.iter().enumerate().filter(|(_, operation)| may_write(operation)) {
            for mutation in mutations_of(operation) {
                let row = row_number(rows, &mutation.row);
                let number = u32::try_from(at).unwrap_or(u32::MAX);
                written.extend(mutation.value.properties().map(|(_, token)| ((row, token), number)));
            }
        }
        for (at, operation) in operations.iter().enumerate() {
            for (row, version) in versions_of(operation) {
                let row = row_number(rows, row);
                let mut tokens = version.into_iter().flat_map(|version| version.value.properties());
                if tokens.any(|(_, token)| !written.contains_key(&(row, token))) {
                    return Err(Finding { members: vec![at], rule: UNWRITTEN });
                }
            }
        }
        Ok(written)
    }

    /// Determines which writes of unknown outcome happened, because a read shows a version that no other write can have
    /// created: the write that created a version wrote a part of it.
    fn resolve(
        &mut self,
        operations: &[&Operation],
        rows: &[&str],
        written: &HashMap<(u32, u64), u32>,
    ) -> Result<(), Finding> {
        const TWICE: &str = "a write of unknown outcome took effect twice: it created two versions";
        let mut found: HashMap<(u32, u32), (Stamp, usize)> = HashMap::new();
        let mut resolved = Vec::new();
        for (at, operation) in operations.iter().enumerate() {
            for (row, version) in versions_of(operation) {
                let (row, Some(version)) = (row_number(rows, row), version) else { continue };
                if self.answered.contains_key(&(row, version.etag)) {
                    continue;
                }
                let creators = version.value.properties().filter_map(|(_, token)| written.get(&(row, token)).copied());
                let mut creators: Vec<u32> = creators.collect();
                creators.sort_unstable();
                creators.dedup();
                creators.retain(|op| self.may_create(*op, row, &version.value, operations, rows));
                let [creator] = creators[..] else { continue };
                let (etag, other) = *found.entry((creator, row)).or_insert((version.etag, at));
                if etag != version.etag {
                    return Err(Finding { members: vec![other, at], rule: TWICE });
                }
                resolved.push((creator, row, etag));
            }
        }
        for (op, row, etag) in resolved {
            let op = self.ops.get_mut(usize::try_from(op).unwrap_or(usize::MAX));
            let Some(Op { body: Body::Effect(effect), .. }) = op else { continue };
            effect.is_optional = false;
            for change in effect.changes.iter_mut().filter(|change| change.row == row) {
                change.etag = Some(etag);
            }
        }
        Ok(())
    }

    fn may_create(&self, op: u32, row: u32, version: &Value, operations: &[&Operation], rows: &[&str]) -> bool {
        let at = usize::try_from(op).unwrap_or(usize::MAX);
        let (Some(Op { body: Body::Effect(effect), .. }), Some(operation)) = (self.ops.get(at), operations.get(at))
        else {
            return false;
        };
        let mut mutations = mutations_of(operation).iter();
        let Some(mutation) = mutations.find(|mutation| row_number(rows, &mutation.row) == row) else {
            return false;
        };
        effect.is_optional
            && mutation.value.properties().all(|(property, token)| version.get(property) == Some(token))
            && (mutation.kind.merges() || mutation.value.properties().count() == version.properties().count())
    }

    /// Links the writes that certainly happened in the order of their Timestamps.
    fn order(&mut self, of_partition: bool, of_entity: bool) {
        let mut by_row: HashMap<u32, Vec<(Stamp, usize, usize)>> = HashMap::new();
        let mut all = Vec::new();
        for (at, op) in self.ops.iter().enumerate() {
            let Body::Effect(effect) = &op.body else { continue };
            if effect.is_optional {
                continue;
            }
            for (index, change) in effect.changes.iter().enumerate() {
                if let Some(etag) = change.etag {
                    by_row.entry(change.row).or_default().push((etag, at, index));
                }
            }
            all.extend(effect.changes.iter().filter_map(|change| change.etag).max().map(|etag| (etag, at)));
        }
        if of_partition {
            all.sort_unstable();
            for pair in all.windows(2) {
                let [(_, previous), (_, at)] = pair else { continue };
                if let Some(Op { body: Body::Effect(effect), .. }) = self.ops.get_mut(*at) {
                    effect.previous = u32::try_from(*previous).ok();
                }
            }
        }
        if of_entity {
            for mut writes in by_row.into_values() {
                writes.sort_unstable();
                for pair in writes.windows(2) {
                    let [(etag, previous, _), (_, at, index)] = pair else { continue };
                    if let Some(Op { body: Body::Effect(effect), .. }) = self.ops.get_mut(*at)
                        && let Some(change) = effect.changes.get_mut(*index)
                    {
                        change.previous = u32::try_from(*previous).ok().map(|previous| (previous, *etag));
                    }
                }
            }
        }
    }
}

/// Returns the number of a row key that an operation names.
fn row_number(rows: &[&str], row: &str) -> u32 {
    let at = rows.binary_search(&row).expect("all named row keys are in the list");
    u32::try_from(at).expect("a partition has fewer than 2^32 entities")
}
