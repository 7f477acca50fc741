//! What engines with indexes share: the entries that a write changes, the hits of a query, and the merge of the entries
//! of several types.
//!
//! A query in key order first collects the keys of the entities in the ranges of an index, its hits, and then visits
//! the entities in key order. The page is therefore the one that a scan without an index would return.
//!
//! This module must not know where entries are stored.

use crate::contract::{Order, Scan};
use crate::parts::page::ranges_to_visit;
use model::filter::Filter;
use model::index::{IndexPlan, OrderedGroup, compare_entries, entry, ordered_groups, plan_index, value_ranges};
use model::{IndexedProperty, KeyRange, Position, RecordView};
use std::cmp::Ordering;
use std::vec;

pub use model::index::key_of_entry;

/// The maximum number of entries that a query in key order reads. If there are more, it reads the entities instead: at
/// such a number, most pages come from reading a part of the table only.
pub const HITS_MAX: usize = 10_000;
/// The maximum size of the keys of the hits of a query, in bytes.
pub const HIT_BYTES_MAX: usize = 1024 * 1024;

/// The change of an index by a write to one entity. If the entry stays the same, both are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryChange {
    /// The entry that is removed.
    pub removed: Option<Vec<u8>>,
    /// The entry that is added.
    pub added: Option<Vec<u8>>,
}

/// Returns the entry of an entity, or `None` if it does not have the property. A record that cannot be read has no
/// entry, so that an index is always a function of the stored records.
pub fn entry_of(property: &IndexedProperty, key: &[u8], record: &[u8]) -> Option<Vec<u8>> {
    RecordView::new(record).and_then(|record| entry(property, key, record)).ok().flatten()
}

/// Returns the change of an index if the record of an entity is replaced. `None` means that the entity does not exist.
pub fn change(property: &IndexedProperty, key: &[u8], old: Option<&[u8]>, new: Option<&[u8]>) -> EntryChange {
    let entry_of = |record| entry_of(property, key, record);
    let (removed, added) = (old.and_then(entry_of), new.and_then(entry_of));
    if removed == added { EntryChange::default() } else { EntryChange { removed, added } }
}

/// Chooses the index that a scan in key order reads first, if any. For a confined scan, the plan contains no entry of
/// an entity before the first or after the last key that the scan visits.
pub fn plan<'p>(scan: &Scan, indexes: impl IntoIterator<Item = &'p IndexedProperty>) -> Option<IndexPlan> {
    let (Order::Key { .. }, Some(filter)) = (&scan.order, &scan.filter) else { return None };
    let plan = plan_index(filter, &scan.ranges, indexes)?;
    let visited = ranges_to_visit(scan);
    let (first, last) = (visited.first(), visited.last());
    let hull = KeyRange {
        start: first.map(|range| range.start.clone()).unwrap_or_default(),
        end: last.map_or_else(|| Some(Vec::new()), |range| range.end.clone()),
    };
    (plan.is_of_values() || !scan.is_confined).then(|| plan.within(&hull))
}

/// Collects the keys of entries that lie in ranges of keys, in the order of the scan. Returns `None` if there are too
/// many entries.
pub fn hits<E: AsRef<[u8]>, F>(
    entries: impl Iterator<Item = Result<E, F>>,
    key_ranges: &[KeyRange],
    is_descending: bool,
) -> Result<Option<Vec<Vec<u8>>>, F> {
    let (mut hits, mut bytes) = (Vec::new(), 0);
    for (count, entry) in entries.enumerate() {
        let entry = entry?;
        // The entity of a damaged entry is missing, as if the entry were missing. A check reports both.
        let Some(key) = key_of_entry(entry.as_ref()) else { continue };
        if KeyRange::any_contains(key_ranges, key) {
            bytes += key.len();
            hits.push(key.to_vec());
        }
        if count >= HITS_MAX || bytes > HIT_BYTES_MAX {
            return Ok(None);
        }
    }
    hits.sort_unstable();
    if is_descending {
        hits.reverse();
    }
    Ok(Some(hits))
}

/// Returns the ranges of entries that a scan in the order of a property may need, from the scan's position on.
pub fn groups_to_read(scan: &Scan, property: &IndexedProperty, is_descending: bool) -> Vec<OrderedGroup> {
    let restrict = |filter: &Filter| value_ranges(filter, property);
    let ranges = scan.filter.as_ref().and_then(restrict).unwrap_or_else(|| vec![KeyRange::all()]);
    ordered_groups(&ranges, scan.from.as_ref().map(Position::as_bytes), is_descending)
}

/// The entries of an index in the order of values. It opens an iterator for each range when it needs the range; the
/// iterator must return the entries in the order of the scan.
pub struct OrderedEntries<I> {
    groups: vec::IntoIter<OrderedGroup>,
    streams: Vec<Stream<I>>,
    is_descending: bool,
}

/// The entries of one type.
struct Stream<I> {
    ranges: vec::IntoIter<KeyRange>,
    entries: Option<I>,
    next: Option<Vec<u8>>,
}

impl<I> OrderedEntries<I> {
    /// Returns the entries that a scan in the order of a property may need, from the scan's position on.
    pub fn new(scan: &Scan, property: &IndexedProperty, is_descending: bool) -> Self {
        let groups = groups_to_read(scan, property, is_descending).into_iter();
        Self { groups, streams: Vec::new(), is_descending }
    }

    /// Returns the next entry.
    pub fn next<E>(&mut self, open: &impl Fn(KeyRange) -> I) -> Result<Option<Vec<u8>>, E>
    where
        I: Iterator<Item = Result<Vec<u8>, E>>,
    {
        loop {
            let first = self.streams.iter_mut().filter(|stream| stream.next.is_some()).reduce(|a, b| {
                let order =
                    compare_entries(a.next.as_deref().unwrap_or_default(), b.next.as_deref().unwrap_or_default());
                let wanted = if self.is_descending { Ordering::Less } else { Ordering::Greater };
                if order == wanted { b } else { a }
            });
            if let Some(stream) = first {
                let entry = stream.next.take();
                stream.advance(open)?;
                return Ok(entry);
            }
            let Some(group) = self.groups.next() else { return Ok(None) };
            self.streams.clear();
            for ranges in group {
                let mut stream = Stream { ranges: ranges.into_iter(), entries: None, next: None };
                stream.advance(open)?;
                self.streams.push(stream);
            }
        }
    }
}

impl<I> Stream<I> {
    fn advance<E>(&mut self, open: &impl Fn(KeyRange) -> I) -> Result<(), E>
    where
        I: Iterator<Item = Result<Vec<u8>, E>>,
    {
        loop {
            if let Some(entry) = self.entries.as_mut().and_then(Iterator::next) {
                self.next = Some(entry?);
                return Ok(());
            }
            self.entries = None;
            let Some(range) = self.ranges.next() else { return Ok(()) };
            self.entries = Some(open(range));
        }
    }
}
