//! Compares both sides: reads each table on both sides in key order and merges the two streams.
//!
//! Everything is compared except Timestamps and `ETags`. An entity that exists only in the target is a difference, but
//! a table that exists only in the target is not.

use super::plan::{Plan, TableCopy};
use super::transfer::target_tables;
use crate::endpoints::{Pages, Query, Source, difference};
use crate::runtime::for_each_table;
use crate::terminal::Progress;
use anyhow::ensure;
use client::PropertyBag;
use engine::TableKey;
use model::EntityKey;
use parking_lot::Mutex;
use std::cmp::Ordering;
use std::sync::Arc;

/// Further differences are counted, but not listed.
const LISTED_MAX: usize = 10;

#[derive(Debug, Default)]
pub(super) struct Differences {
    count: u64,
    listed: Vec<String>,
}

impl Differences {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The last line contains the number of differences that are not listed.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let more = Some(self.count - self.listed.len() as u64).filter(|more| *more > 0);
        self.listed.iter().cloned().chain(more.map(|more| format!("and {more} more")))
    }

    fn add(&mut self, text: impl FnOnce() -> String) {
        self.count += 1;
        if self.listed.len() < LISTED_MAX {
            self.listed.push(text());
        }
    }
}

pub(super) struct Comparison {
    pub(super) from: Arc<dyn Source>,
    pub(super) to: Arc<dyn Source>,
    pub(super) progress: Arc<Progress>,
    pub(super) with_policies: bool,
    pub(super) with_properties: bool,
    pub(super) differences: Mutex<Differences>,
}

impl Comparison {
    pub(super) async fn run(self: &Arc<Self>, plan: &Plan) -> anyhow::Result<()> {
        if self.with_properties {
            for (source, target) in &plan.accounts {
                if self.from.properties(source).await? != self.to.properties(target).await? {
                    self.add(|| format!("the service properties of the account '{source}' differ"));
                }
            }
        }
        let existing = target_tables(&*self.to, plan).await?;
        let compare = |table: TableCopy| {
            let exists = existing.get(&table.to.account).is_some_and(|tables| tables.contains(table.to.name.folded()));
            let this = Arc::clone(self);
            async move {
                if exists {
                    this.compare_table(&table).await?;
                } else {
                    this.add(|| format!("the target has no table '{}'", table.from.name));
                }
                this.progress.add_table();
                Ok(())
            }
        };
        for_each_table(&plan.tables, |table| &table.from.name, compare).await
    }

    pub(super) fn take_differences(&self) -> Differences {
        std::mem::take(&mut *self.differences.lock())
    }

    fn add(&self, text: impl FnOnce() -> String) {
        self.differences.lock().add(text);
    }

    async fn compare_table(&self, table: &TableCopy) -> anyhow::Result<()> {
        let name = &table.from.name;
        if self.with_policies && self.from.policies(&table.from).await? != self.to.policies(&table.to).await? {
            self.add(|| format!("the stored access policies of the table '{name}' differ"));
        }
        let source = if self.with_policies { self.from.settings(&table.from).await? } else { None };
        if let Some(source) = source
            && source != self.to.settings(&table.to).await?.unwrap_or_default()
        {
            self.add(|| format!("the settings of the table '{name}' differ"));
        }
        let mut sources = Entities::read(&self.from, &table.from, "source");
        let mut targets = Entities::read(&self.to, &table.to, "target");
        let (mut source, mut target) = (sources.next().await?, targets.next().await?);
        loop {
            let order = match (&source, &target) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(_), Some(_)) => sources.key.cmp(&targets.key),
            };
            match (&source, &target) {
                (Some(one), _) if order.is_lt() => {
                    self.add(|| format!("table '{name}', {}: the target has no such entity", describe(&one.key)));
                }
                (_, Some(other)) if order.is_gt() => {
                    self.add(|| format!("table '{name}', {}: the source has no such entity", describe(&other.key)));
                }
                (Some(one), Some(other)) => {
                    if let Some(how) = difference(one, other) {
                        self.add(|| format!("table '{name}', {}: {how}", describe(&one.key)));
                    }
                }
                _ => {}
            }
            if order.is_le() {
                self.progress.add_entities(1);
                source = sources.next().await?;
            }
            if order.is_ge() {
                target = targets.next().await?;
            }
        }
    }
}

fn describe(key: &EntityKey) -> String {
    format!("partition {:?}, row {:?}", key.partition.as_str(), key.row.as_str())
}

/// The entities of a table on one side.
struct Entities {
    pages: Pages,
    current: std::vec::IntoIter<PropertyBag>,
    /// The key of the last entity, as bytes, which sort in entity order.
    key: Vec<u8>,
    previous_key: Vec<u8>,
    side: &'static str,
}

impl Entities {
    fn read(source: &Arc<dyn Source>, table: &TableKey, side: &'static str) -> Self {
        let pages = Pages::new(source, table, Query::default(), None);
        Self { pages, current: Vec::new().into_iter(), key: Vec::new(), previous_key: Vec::new(), side }
    }

    async fn next(&mut self) -> anyhow::Result<Option<PropertyBag>> {
        loop {
            if let Some(entity) = self.current.next() {
                std::mem::swap(&mut self.key, &mut self.previous_key);
                self.key.clear();
                entity.key.encode_to(&mut self.key);
                // Every encoded key contains a separator, so the empty key comes before the first one.
                ensure!(
                    self.previous_key < self.key,
                    "the {} does not return its entities in order, so they cannot be compared: {}",
                    self.side,
                    describe(&entity.key)
                );
                return Ok(Some(entity));
            }
            match self.pages.next().await? {
                Some(page) => self.current = page.entities.into_iter(),
                None => return Ok(None),
            }
        }
    }
}
