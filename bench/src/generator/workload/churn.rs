//! Tasks that leave old versions and tombstones, and reads that measure their cost.

use super::{Client, Failure, Outcome, one, write_entity};
use crate::dataset::Dataset;
use crate::generator::request::{Request, continuation, filter_query};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use wire::uri::write_entity_address;

const CREATION_TIME_MAX: Duration = Duration::from_mins(2);
const CREATION_PAUSE: Duration = Duration::from_millis(10);
/// A prime that is greater than any number of entities. Its multiples, modulo the number of entities, visit each entity
/// once.
const STRIDE: u64 = 2_654_435_761;

/// An operation is a single request, except that `Partition` reads all pages of the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Churn {
    /// Replaces every entity once, in scattered order.
    Overwrite,
    /// Inserts as many entities as the dataset has, scattered among the table's entities. Deletes each entity after its
    /// insertion.
    InsertAndDelete,
    /// Inserts the entities of the dataset in order, up to the number `until`. Deletes the first entities, so that
    /// every connection keeps `kept` entities.
    Queue { until: u64, kept: usize },
    /// Reads the first entity of the first partition.
    First,
    /// Reads the first partition, which has at least one entity.
    Partition,
}

impl Client {
    /// Returns the number of entities read or written, or `None` if no work is left.
    pub(super) async fn churn(&mut self, churn: Churn) -> Result<Option<u64>, Failure> {
        match churn {
            Churn::Overwrite => match self.next(self.plan.dataset.entities) {
                Some(sequence) => self.upsert(scattered(sequence, self.plan.dataset.entities)).await.map(Some),
                None => Ok(None),
            },
            Churn::InsertAndDelete if !self.inserted.is_empty() => self.delete_first().await.map(Some),
            Churn::InsertAndDelete => match self.next(self.plan.dataset.entities) {
                Some(sequence) => {
                    let number = scattered(sequence, self.plan.dataset.entities);
                    self.insert_as(number, format!("{}-{sequence:x}", Dataset::row(number))).await.map(Some)
                }
                None => Ok(None),
            },
            Churn::Queue { kept, .. } if self.inserted.len() > kept => self.delete_first().await.map(Some),
            Churn::Queue { until, .. } => match self.next(until) {
                Some(number) => self.insert_as(number, Dataset::row(number)).await.map(Some),
                None => Ok(None),
            },
            Churn::First => one(self.partition_page("&$top=1").await?.entities).map(Some),
            Churn::Partition => self.partition().await.map(Some),
        }
    }

    pub(crate) async fn delete_table(&mut self) -> Result<(), Failure> {
        let path = format!("/Tables('{}')", self.plan.table);
        let request = Request { method: "DELETE", ..Request::get(path.as_bytes(), "") };
        self.exchange(&request, 204, b"").await.map(drop)
    }

    /// Recreates a table that was just deleted. Returns the time until the table was created, including all rejected
    /// attempts.
    pub(crate) async fn create_table_again(&mut self) -> Result<Duration, Failure> {
        let began = Instant::now();
        loop {
            match self.create_new_table().await {
                Err(Failure::Status(409, _)) if began.elapsed() < CREATION_TIME_MAX => {
                    tokio::time::sleep(CREATION_PAUSE).await;
                }
                other => return other.map(|()| began.elapsed()),
            }
        }
    }

    fn next(&self, end: u64) -> Option<u64> {
        let sequence = self.plan.sequence.fetch_add(1, Ordering::Relaxed);
        (sequence < end).then_some(sequence)
    }

    /// The number determines the values and the partition of the entity.
    async fn insert_as(&mut self, number: u64, row: String) -> Result<u64, Failure> {
        let plan = Arc::clone(&self.plan);
        let partition = plan.dataset.partition(number);
        self.body.clear();
        write_entity(&mut self.body, &plan.dataset, &partition, &row, number, 0);
        self.post_entity().await?;
        let mut path = vec![b'/'];
        write_entity_address(&mut path, &plan.table, &partition, &row);
        self.inserted.push_back(path);
        Ok(1)
    }

    /// Deletes the oldest entity that this connection inserted and has not deleted yet.
    async fn delete_first(&mut self) -> Result<u64, Failure> {
        let Some(path) = self.inserted.pop_front() else { return Ok(0) };
        let request = Request { method: "DELETE", headers: "If-Match: *\r\n", ..Request::get(&path, "") };
        self.exchange(&request, 204, b"").await.map(|_| 1)
    }

    async fn partition(&mut self) -> Result<u64, Failure> {
        let (mut all, mut page) = (0, String::new());
        loop {
            let outcome = self.partition_page(&page).await?;
            all += outcome.entities;
            match outcome.next {
                Some(next) => page = format!("&{}", continuation(&next)),
                None if all == 0 => return Err(Failure::Content("an empty partition".to_owned())),
                None => return Ok(all),
            }
        }
    }

    async fn partition_page(&mut self, options: &str) -> Result<Outcome, Failure> {
        let filter = format!("PartitionKey eq '{}'", self.plan.dataset.partition(0));
        self.query(&format!("{}{options}", filter_query(&filter))).await
    }
}

/// Maps 0, 1, 2 … to every entity once, so that successive numbers are far apart.
fn scattered(sequence: u64, entities: u64) -> u64 {
    sequence.wrapping_mul(STRIDE) % entities.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_entity_is_visited_once_in_scattered_order() {
        for entities in [100, 1000, 10_000, 100_000, 123_400] {
            let visited: BTreeSet<u64> = (0..entities).map(|sequence| scattered(sequence, entities)).collect();
            assert_eq!((visited.len() as u64, visited.last().copied()), (entities, Some(entities - 1)));
            let near = (1..entities)
                .filter(|sequence| {
                    scattered(*sequence, entities).abs_diff(scattered(sequence - 1, entities)) < entities / 100
                })
                .count();
            assert_eq!(near, 0, "of {entities}");
        }
    }
}
