//! Ordered views for credentials with a key range.
//!
//! The entries of an index are those of all entities of the table. If a page followed them, its end, its cost and its
//! continuation token would depend on entities outside the key range. A page is therefore made from the entities in the
//! key range: they are read in the order of their keys, and those are kept that come first in the view, from the
//! position of the token on.
//!
//! Invariants:
//!
//! 1. Nothing outside the key range is read, except the settings of the table.
//! 2. Whatever the size of the key range, no more than a page is in memory.

use super::account_tables::AccountTables;
use crate::clock;
use crate::failure::Failure;
use crate::telemetry::traces::step;
use engine::{EntitySink, Order, ReadError, Scan, ScanEnd, SinkDecision, TableKey};
use model::index::{compare_entries, entry, key_of_entry};
use model::limits::PAGE_BODY_BYTES_MAX;
use model::record::DamagedRecord;
use model::{EntityView, IndexedProperty, Position, Record};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::pin::pin;
use wire::{ErrorCode, ServiceError};

const TOO_MANY: &str = "The key range of the credential has too many entities to be put in the order of a property \
    within the time of a query. Restrict PartitionKey or RowKey in $filter, or query the table in the order of its keys.";

impl AccountTables<'_> {
    /// Scans a view, whose order is the order of the scan. Fails if the entities in the key range cannot be read before
    /// the deadline.
    pub(super) async fn scan_confined_view<S: EntitySink>(
        &self,
        table: &TableKey,
        (property, is_descending): (IndexedProperty, bool),
        scan: Scan,
        mut sink: S,
    ) -> Result<(S, ScanEnd), Failure> {
        self.check_index(table, &property).await?;
        let place = |position: Position| Place { entry: position.as_bytes().to_vec(), is_descending };
        let mut first = FirstEntities {
            property,
            is_descending,
            from: scan.from.map(place),
            limit: scan.limit,
            kept: BTreeMap::new(),
            bytes: 0,
            next: None,
            damage: None,
        };
        let deadline = scan.deadline;
        let mut scan = Scan { order: Order::KEYS, from: None, limit: usize::MAX, bytes_expected: usize::MAX, ..scan };
        let mut examined = 0;
        let mut end = loop {
            let (read, end) = self.scan_keys(table, scan.clone(), first).await?;
            first = read;
            examined += end.examined;
            if let Some(damage) = first.damage {
                return Err(damage.into());
            }
            // A rehearsal makes pages end before the deadline.
            match end.next {
                Some(_) if clock::instant() >= deadline => {
                    return Err(Failure::service(ServiceError::new(ErrorCode::OperationTimedOut, TOO_MANY)));
                }
                Some(next) => scan.from = Some(next),
                None => break ScanEnd { examined, accepted: 0, ..end },
            }
        };
        let mut next = first.next;
        let mut kept = first.kept.into_iter();
        for (place, record) in kept.by_ref() {
            let key = key_of_entry(&place.entry).ok_or(DamagedRecord)?;
            let decision = sink.entity(&EntityView::new(key, record.as_bytes())?);
            if decision == SinkDecision::Refused {
                next = Some(place);
                break;
            }
            end.accepted += 1;
            if decision == SinkDecision::AcceptedLast {
                next = kept.next().map(|(place, _)| place).or(next);
                break;
            }
        }
        end.next = next.map(|place| Position::from_bytes(place.entry));
        self.count_read(0, end.accepted);
        Ok((sink, end))
    }

    /// Counts the entities of a view. In contrast to the entities of a page, they need no order, so the position at
    /// which the count ends is in the order of keys.
    pub(super) async fn count_confined_view(
        &self,
        table: &TableKey,
        property: IndexedProperty,
        scan: Scan,
    ) -> Result<ScanEnd, Failure> {
        self.check_index(table, &property).await?;
        let scan = Scan { order: Order::KEYS, ..scan };
        let sink = HavingProperty { property, count: 0, damage: None };
        let (HavingProperty { count, damage, .. }, end) = self.scan_keys(table, scan, sink).await?;
        if let Some(damage) = damage {
            return Err(damage.into());
        }
        self.count_read(0, count);
        Ok(ScanEnd { accepted: count, ..end })
    }

    async fn scan_keys<S: EntitySink>(&self, table: &TableKey, scan: Scan, sink: S) -> Result<(S, ScanEnd), Failure> {
        let (sink, end) = self.examine(table, scan, sink).await?;
        self.count_read(end.examined, 0);
        Ok((sink, end))
    }

    /// Checks that a table has an index of a property. It need not be ready, because nothing is read from it, and
    /// because the time that building it takes depends on all entities of the table.
    async fn check_index(&self, table: &TableKey, property: &IndexedProperty) -> Result<(), Failure> {
        let indexes = step("read indexes", pin!(self.engine.indexes(table))).await?;
        if indexes.iter().any(|index| index.property == *property) {
            return Ok(());
        }
        Err(ReadError::IndexNotFound.into())
    }
}

/// An entry of an index, in the order of a view.
#[derive(Debug)]
struct Place {
    entry: Vec<u8>,
    is_descending: bool,
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = compare_entries(&self.entry, &other.entry);
        if self.is_descending { order.reverse() } else { order }
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Place {}

/// Keeps the entities that come first in a view, from a position on.
struct FirstEntities {
    property: IndexedProperty,
    is_descending: bool,
    from: Option<Place>,
    limit: usize,
    kept: BTreeMap<Place, Record>,
    /// The size of what is kept.
    bytes: usize,
    /// The first place after those that are kept.
    next: Option<Place>,
    damage: Option<DamagedRecord>,
}

impl FirstEntities {
    fn keep(&mut self, entity: &EntityView<'_>) -> Result<(), DamagedRecord> {
        let key = Position::new(&entity.key.partition, &entity.key.row);
        let Some(entry) = entry(&self.property, key.as_bytes(), entity.record)? else { return Ok(()) };
        let place = Place { entry, is_descending: self.is_descending };
        if self.from.as_ref().is_some_and(|from| place < *from) || self.next.as_ref().is_some_and(|next| place > *next)
        {
            return Ok(());
        }
        self.bytes += size(&place, entity.record.record_bytes());
        self.kept.insert(place, entity.record.to_record()?);
        while (self.kept.len() > self.limit || (self.kept.len() > 1 && self.bytes > PAGE_BODY_BYTES_MAX))
            && let Some((place, record)) = self.kept.pop_last()
        {
            self.bytes -= size(&place, record.as_bytes().len());
            self.next = Some(place);
        }
        Ok(())
    }
}

impl EntitySink for FirstEntities {
    fn entity(&mut self, entity: &EntityView<'_>) -> SinkDecision {
        accepted(self.keep(entity), &mut self.damage)
    }
}

fn size(place: &Place, record_bytes: usize) -> usize {
    place.entry.len() + record_bytes
}

/// Counts the entities that have a property.
struct HavingProperty {
    property: IndexedProperty,
    count: u64,
    damage: Option<DamagedRecord>,
}

impl EntitySink for HavingProperty {
    fn entity(&mut self, entity: &EntityView<'_>) -> SinkDecision {
        let value = entity.record.get(self.property.as_str());
        accepted(value.map(|value| self.count += u64::from(value.is_some())), &mut self.damage)
    }
}

fn accepted(result: Result<(), DamagedRecord>, damage: &mut Option<DamagedRecord>) -> SinkDecision {
    *damage = result.err();
    if damage.is_some() { SinkDecision::AcceptedLast } else { SinkDecision::Accepted }
}
