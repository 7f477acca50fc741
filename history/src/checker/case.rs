//! The operations of one partition in the form that the search uses: row keys and values are numbers, and what follows
//! from the answers alone has been derived.
//!
//! Some violations are visible here, without any search: an `ETag` that names two states, a state with two `ETag`s, a
//! value that no write wrote, a page with an entity outside its range.

use super::rules::StampOrder;
use crate::operation::{Action, Answer, Filter, Kind, Mutation, Operation, Page, Refusal, Stamp, Time, Value, Version};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};

/// The token of a property whose content no read shows, so that all such tokens are alike.
const UNSEEN: u64 = u64::MAX;

/// The value of a row without an entity.
pub(super) const ABSENT: u32 = 0;

/// The time of an operation that has no end.
pub(super) const NEVER: Time = Time::MAX;

/// The maximum number of states in which a part of a history may begin.
const INITIAL_STATES_MAX: usize = 512;

/// How much of an operation is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Its answer.
    Exact,
    /// Only its interval: a write that happened or not.
    Maybe,
}

/// An operation of the history that the case contains.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member<'h> {
    pub(super) operation: &'h Operation,
    pub(super) mode: Mode,
}

/// What of the operations a case contains.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'h> {
    pub(super) order: StampOrder,
    /// The row keys; `None` stands for all. What operations do or see elsewhere is ignored.
    pub(super) rows: Option<&'h BTreeSet<&'h str>>,
    /// Whether other operations may have happened before.
    pub(super) begins_anywhere: bool,
}

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
    /// The states in which each row may begin. Absent only, unless the case is a part of a history.
    pub(super) initial: Vec<Vec<RowState>>,
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
        value.properties().iter().map(|(property, token)| (*property, normal(*token))).collect()
    }
}

fn versions_of(operation: &Operation) -> Vec<(&String, Option<&Version>)> {
    match &operation.action {
        Action::Get { row, found } => vec![(row, found.as_ref())],
        Action::Page(page) => page.entities.iter().map(|(row, version)| (row, Some(version))).collect(),
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
pub(super) fn may_write(operation: &Operation) -> bool {
    matches!(&operation.action, Action::Write { answer: Answer::Done(_) | Answer::Unknown, .. })
}

/// Returns the row keys that an operation names. A page covers others as well.
pub(super) fn named_rows(operation: &Operation) -> Vec<&String> {
    let versions = versions_of(operation).into_iter().map(|(row, _)| row);
    versions.chain(mutations_of(operation).iter().map(|mutation| &mutation.row)).collect()
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
    pub(super) fn build(members: &[Member<'_>], scope: Scope<'_>) -> Result<Self, Finding> {
        const MALFORMED: &str = "an answer that does not fit its request: a page must contain, in order and once, \
            entities of its range that match its filter, an entity must have properties, and a write must be answered \
            mutation by mutation";
        let begins_anywhere = scope.begins_anywhere;
        if let Some(at) = members.iter().position(|member| is_malformed(member.operation)) {
            return Err(Finding { members: vec![at], rule: MALFORMED });
        }
        let mut rows: Vec<&str> =
            members.iter().flat_map(|member| named_rows(member.operation)).map(String::as_str).collect();
        rows.sort_unstable();
        rows.dedup();
        rows.retain(|row| scope.rows.is_none_or(|kept| kept.contains(row)));
        let mut tokens = Tokens { seen: HashSet::new(), all_are_seen: false };
        for member in members {
            if let Action::Page(Page { filter: Some(_), .. }) = member.operation.action {
                tokens.all_are_seen = true;
            }
            for version in versions_of(member.operation).into_iter().filter_map(|(_, version)| version) {
                tokens.seen.extend(version.value.properties().iter().map(|(_, token)| *token));
            }
        }
        let mut case = Self { row_count: rows.len(), ..Self::default() };
        case.intern(Value::default());
        for member in members {
            case.add(member, &rows, &tokens);
        }
        case.note_versions(members, &rows)?;
        case.note_answers()?;
        let written = Self::check_values(members, &rows, begins_anywhere)?;
        case.resolve(members, &rows, &written, begins_anywhere)?;
        case.order(scope.order == StampOrder::Partition, scope.order != StampOrder::Life);
        case.initial = vec![vec![RowState::default()]; rows.len()];
        if begins_anywhere {
            case.begin_anywhere(members, &rows);
        }
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

    /// Returns whether a page with the filter may lack an entity with the value. Nothing is known of unseen tokens,
    /// which only the state at the beginning of a part of a history has.
    pub(super) fn may_be_excluded(&self, filter: &Filter, value: u32) -> bool {
        self.is_partly_unseen(value) || !filter.matches(self.values.borrow().get(value))
    }

    /// Returns whether a read shows none, or not all, of the properties of a value.
    fn is_partly_unseen(&self, value: u32) -> bool {
        self.values.borrow().get(value).properties().iter().any(|(_, token)| *token == UNSEEN)
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

    fn add(&mut self, member: &Member<'_>, rows: &[&str], tokens: &Tokens) {
        let row_of = |row: &str| row_number(rows, row);
        let operation = member.operation;
        let seen = |case: &Self, version: Option<&Version>| match version {
            Some(version) => Seen { value: case.intern(version.value.clone()), etag: version.etag },
            None => Seen { value: ABSENT, etag: 0 },
        };
        let body = match &operation.action {
            Action::Get { row, found } => match row_of(row) {
                Some(row) => Body::Get { row, seen: seen(self, found.as_ref()) },
                None => Body::Page { rows: 0..0, entities: Vec::new(), filter: None },
            },
            Action::Page(page) => {
                let at = |key: &str| u32::try_from(rows.partition_point(|row| *row < key)).unwrap_or(u32::MAX);
                let end = page.until.as_deref().map_or_else(|| u32::try_from(rows.len()).unwrap_or(u32::MAX), at);
                let entities = page.entities.iter();
                let entities = entities.filter_map(|(row, version)| Some((row_of(row)?, seen(self, Some(version)))));
                let entities = entities.collect();
                Body::Page { rows: at(&page.from)..end, entities, filter: page.filter }
            }
            Action::Write { mutations, answer } => {
                let mut changes = Vec::with_capacity(mutations.len());
                for (index, mutation) in mutations.iter().enumerate() {
                    let etag = match answer {
                        Answer::Done(etags) if member.mode == Mode::Exact => etags.get(index).copied().flatten(),
                        _ => None,
                    };
                    let (kind, if_match) = (mutation.kind, mutation.if_match);
                    let refusal = match answer {
                        Answer::Refused { index: refused, .. } if index > *refused => break,
                        Answer::Refused { index: refused, reason } if index == *refused => Some(*reason),
                        _ => None,
                    };
                    if let Some(row) = row_of(&mutation.row) {
                        let value = self.intern(tokens.normal(&mutation.value));
                        changes.push(Change { row, kind, if_match, value, etag, previous: None, refusal });
                    }
                }
                match answer {
                    Answer::Refused { .. } => Body::Refused { changes },
                    Answer::Done(_) | Answer::Unknown => {
                        let is_optional = *answer == Answer::Unknown || member.mode == Mode::Maybe;
                        let mut written = mutations.iter().flat_map(|mutation| mutation.value.properties()).peekable();
                        let may_match = tokens.all_are_seen && written.peek().is_some();
                        let is_seen = written.any(|(_, token)| tokens.seen.contains(token));
                        let is_unseen = changes.len() == 1 && !is_seen && !may_match;
                        Body::Effect(Effect { changes, is_optional, previous: None, is_unseen, is_seen })
                    }
                }
            }
        };
        self.ops.push(Op { call: operation.call, end: operation.returned.unwrap_or(NEVER), body });
    }

    /// Notes the versions that reads and the answers to whole-entity writes show.
    fn note_versions(&mut self, members: &[Member<'_>], rows: &[&str]) -> Result<(), Finding> {
        const TWO_STATES: &str = "an ETag names two states of an entity";
        const TWO_ETAGS: &str = "one state of an entity has two ETags: a write took effect twice, or an ETag is wrong";
        let mut noted: HashMap<(u32, u32), usize> = HashMap::new();
        for (at, member) in members.iter().enumerate() {
            let mut shown = Vec::new();
            for (row, version) in versions_of(member.operation) {
                if let (Some(row), Some(version)) = (row_number(rows, row), version) {
                    shown.push((row, self.intern(version.value.clone()), version.etag));
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
    fn check_values(
        members: &[Member<'_>],
        rows: &[&str],
        begins_anywhere: bool,
    ) -> Result<HashMap<(u32, u64), u32>, Finding> {
        const UNWRITTEN: &str = "a value that no write of the entity wrote";
        let mut written = HashMap::new();
        for (at, member) in members.iter().enumerate().filter(|(_, member)| may_write(member.operation)) {
            for mutation in mutations_of(member.operation) {
                let Some(row) = row_number(rows, &mutation.row) else { continue };
                let number = u32::try_from(at).unwrap_or(u32::MAX);
                written.extend(mutation.value.properties().iter().map(|(_, token)| ((row, *token), number)));
            }
        }
        for (at, member) in members.iter().enumerate().filter(|_| !begins_anywhere) {
            for (row, version) in versions_of(member.operation) {
                let Some(row) = row_number(rows, row) else { continue };
                let mut tokens = version.into_iter().flat_map(|version| version.value.properties());
                if tokens.any(|(_, token)| !written.contains_key(&(row, *token))) {
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
        members: &[Member<'_>],
        rows: &[&str],
        written: &HashMap<(u32, u64), u32>,
        begins_anywhere: bool,
    ) -> Result<(), Finding> {
        const TWICE: &str = "a write of unknown outcome took effect twice: it created two versions";
        let mut found: HashMap<(u32, u32), (Stamp, usize)> = HashMap::new();
        let mut resolved = Vec::new();
        for (at, member) in members.iter().enumerate() {
            for (row, version) in versions_of(member.operation) {
                let (Some(row), Some(version)) = (row_number(rows, row), version) else { continue };
                if self.answered.contains_key(&(row, version.etag)) {
                    continue;
                }
                let tokens = version.value.properties().iter().map(|(_, token)| written.get(&(row, *token)).copied());
                let tokens: Option<Vec<u32>> = tokens.collect();
                let is_complete = tokens.is_some();
                if begins_anywhere && !is_complete {
                    continue;
                }
                let mut creators = tokens.unwrap_or_default();
                creators.sort_unstable();
                creators.dedup();
                creators.retain(|op| self.may_create(*op, row, &version.value, members, rows));
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

    fn may_create(&self, op: u32, row: u32, version: &Value, members: &[Member<'_>], rows: &[&str]) -> bool {
        let at = usize::try_from(op).unwrap_or(usize::MAX);
        let (Some(Op { body: Body::Effect(effect), .. }), Some(member)) = (self.ops.get(at), members.get(at)) else {
            return false;
        };
        let mut mutations = mutations_of(member.operation).iter();
        let Some(mutation) = mutations.find(|mutation| row_number(rows, &mutation.row) == Some(row)) else {
            return false;
        };
        let written = mutation.value.properties();
        effect.is_optional
            && written.iter().all(|(property, token)| version.get(*property) == Some(*token))
            && (mutation.kind.merges() || written.len() == version.properties().len())
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

    /// Allows every state at the beginning that earlier operations could have left, as far as the case can distinguish
    /// them: absent, a version that an operation mentions, or one with which it shares properties.
    fn begin_anywhere(&mut self, members: &[Member<'_>], rows: &[&str]) {
        let unseen: Value = crate::operation::Property::USUAL.iter().map(|property| (*property, UNSEEN)).collect();
        let mut choices: Vec<Vec<(Value, Stamp)>> = vec![vec![(unseen.clone(), 0)]; rows.len()];
        let mut choose = |row: u32, value: Value, etag: Stamp| {
            if let Some(choices) = choices.get_mut(usize::try_from(row).unwrap_or(usize::MAX)) {
                choices.push((value, etag));
            }
        };
        for member in members {
            for (row, version) in versions_of(member.operation) {
                let (Some(row), Some(version)) = (row_number(rows, row), version) else { continue };
                if self.answered.contains_key(&(row, version.etag)) {
                    // A kept write created it. What it merged into may still remain from the beginning.
                    add_parts(&version.value, &mut |value| choose(row, value, 0));
                    continue;
                }
                choose(row, version.value.clone(), version.etag);
                add_parts(&version.value, &mut |value| choose(row, value, 0));
            }
            for mutation in mutations_of(member.operation) {
                let Some(row) = row_number(rows, &mutation.row) else { continue };
                if let Some(etag) = mutation.if_match
                    && !self.answered.contains_key(&(row, etag))
                    && !self.versions.contains_key(&(row, etag))
                {
                    choose(row, unseen.clone(), etag);
                }
            }
        }
        let initial = choices.into_iter().map(|choices| {
            let states =
                choices.into_iter().map(|(value, etag)| RowState { value: self.intern(value), etag, last: etag });
            let mut states: Vec<RowState> = [RowState::default()].into_iter().chain(states).collect();
            states.sort_unstable_by_key(|state| (state.value, state.etag));
            states.dedup();
            states
        });
        self.initial = initial.collect();
    }

    /// Returns whether the case has more initial states than are worth trying.
    pub(super) fn begins_in_too_many_states(&self) -> bool {
        self.initial
            .iter()
            .try_fold(1_usize, |product, states| product.checked_mul(states.len()))
            .is_none_or(|product| product > INITIAL_STATES_MAX)
    }
}

/// Passes every value that differs from this one in properties of which nothing is known.
fn add_parts(value: &Value, add: &mut impl FnMut(Value)) {
    let properties = value.properties();
    for unknown in 1_u32..1 << properties.len().min(8) {
        let property = |(index, (property, token)): (usize, &(crate::operation::Property, u64))| {
            (*property, if unknown >> index & 1 == 1 { UNSEEN } else { *token })
        };
        add(properties.iter().enumerate().map(property).collect());
    }
}

/// Returns the number of a row key, or `None` if the case does not contain it.
fn row_number(rows: &[&str], row: &str) -> Option<u32> {
    rows.binary_search(&row).ok().and_then(|at| u32::try_from(at).ok())
}
