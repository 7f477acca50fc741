//! The stages of a history, with their figures and budgets.

use super::{Churn, OnStage};
use crate::child::{REQUEST_THREADS, Server};
use crate::engine::filling::disk_space;
use crate::process::Process;
use crate::report::budget::Budget;
use crate::report::row::{Row, number};
use crate::report::{as_f64, mebibytes};
use anyhow::Context;
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;

/// The maximum processor time per examined entity of a newly filled table, in microseconds.
const FRESH_ENTITY_US_MAX: f64 = 0.5;
/// The maximum ratios to the figure for the newly filled table: right after overwriting, right after insertions and
/// deletions, and after a quiet period.
const OVERWRITTEN_RATIO_MAX: f64 = 1.7;
const DELETED_RATIO_MAX: f64 = 3.0;
const QUIET_RATIO_MAX: f64 = 1.2;
/// The maximum disk space per byte of live data after a quiet period.
const DISK_RATIO_MAX: f64 = 2.0;
/// The maximum memory in addition to the cache: 150 MB, in MiB.
const BEYOND_CACHE_MIB_MAX: f64 = 143.1;
/// The maximum duration of writes in milliseconds, for the 99.9th percentile and for all writes.
const WRITE_P999_MS_MAX: f64 = 100.0;
const WRITE_MS_MAX: f64 = 250.0;

/// Stages that are measured on the same data folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Group {
    History,
    Queue,
    DeletedTable,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Moment {
    #[serde(rename = "moment")]
    name: &'static str,
    /// True if the server had a quiet period before.
    #[serde(skip)]
    is_quiet: bool,
    /// The bound for the ratio of a read to the same read of the newly filled table.
    #[serde(skip)]
    budget: Budget,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Reading {
    /// Includes only the threads that serve requests.
    pub(crate) cpu_us_per_operation: f64,
    pub(crate) cpu_us_per_entity: f64,
    pub(crate) p50_us: f64,
    /// The processor time of the other threads during the reading.
    pub(crate) background_seconds: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Writes {
    pub(crate) count: u64,
    pub(crate) p50_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) max_ms: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Stage {
    pub(crate) group: Group,
    #[serde(flatten)]
    pub(crate) moment: Moment,
    pub(crate) readings: [Reading; 2],
    pub(crate) resident_mib: f64,
    pub(crate) peak_resident_mib: f64,
    pub(crate) disk_mib: f64,
    /// The size of the keys and records of all entities.
    pub(crate) live_mib: f64,
    /// The number of bytes written to the disk for each byte of keys and records that was stored since the last fresh
    /// stage or the last change.
    pub(crate) written_per_stored: Option<f64>,
    pub(crate) writes: Option<Writes>,
}

impl Group {
    pub(crate) const ALL: [Self; 3] = [Self::History, Self::Queue, Self::DeletedTable];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::History => "churn",
            Self::Queue => "churn queue",
            Self::DeletedTable => "churn deleted table",
        }
    }

    pub(crate) fn is_selected(self, only: Option<&str>) -> bool {
        only.is_none_or(|text| self.moments().iter().any(|moment| line_name(self, *moment).contains(text)))
    }

    fn moments(self) -> &'static [Moment] {
        match self {
            Self::History => &[
                Moment::FRESH,
                Moment::OVERWRITTEN,
                Moment::OVERWRITTEN_QUIET,
                Moment::INSERTED_AND_DELETED,
                Moment::INSERTED_AND_DELETED_QUIET,
                Moment::RESTARTED,
            ],
            Self::Queue => &[Moment::FRESH, Moment::PASSED, Moment::PASSED_QUIET],
            Self::DeletedTable => {
                &[Moment::FRESH, Moment::TABLE_DELETED, Moment::TABLE_DELETED_QUIET, Moment::CREATED_AGAIN]
            }
        }
    }

    fn figures(self) -> [&'static str; 2] {
        match self {
            Self::History | Self::DeletedTable => ["CPU µs per examined entity", "CPU µs per page of 1,000"],
            Self::Queue => ["CPU µs to read the first entity", "CPU µs per entity of the partition"],
        }
    }

    fn costs(self, readings: &[Reading; 2]) -> [f64; 2] {
        let [first, second] = readings;
        match self {
            Self::History | Self::DeletedTable => [first.cpu_us_per_entity, second.cpu_us_per_operation],
            Self::Queue => [first.cpu_us_per_operation, second.cpu_us_per_entity],
        }
    }
}

impl Moment {
    pub(super) const FRESH: Self = Self::new("fresh", true, Budget::None);
    pub(super) const OVERWRITTEN: Self = Self::new("overwritten", false, Budget::AtMost(OVERWRITTEN_RATIO_MAX));
    pub(super) const OVERWRITTEN_QUIET: Self = Self::quiet("overwritten, quiet");
    pub(super) const INSERTED_AND_DELETED: Self = Self::deleted("inserted and deleted");
    pub(super) const INSERTED_AND_DELETED_QUIET: Self = Self::quiet("inserted and deleted, quiet");
    pub(super) const RESTARTED: Self = Self::new("restarted", false, Budget::AtMost(QUIET_RATIO_MAX));
    /// There is no bound, because the entities that passed through the queue since the last memtable flush are still
    /// present.
    pub(super) const PASSED: Self = Self::new("passed through", false, Budget::None);
    pub(super) const PASSED_QUIET: Self = Self::quiet("passed through, quiet");
    pub(super) const TABLE_DELETED: Self = Self::deleted("deleted");
    pub(super) const TABLE_DELETED_QUIET: Self = Self::quiet("deleted, quiet");
    pub(super) const CREATED_AGAIN: Self = Self::quiet("created again, quiet");

    const fn new(name: &'static str, is_quiet: bool, budget: Budget) -> Self {
        Self { name, is_quiet, budget }
    }

    const fn quiet(name: &'static str) -> Self {
        Self::new(name, true, Budget::AtMost(QUIET_RATIO_MAX))
    }

    const fn deleted(name: &'static str) -> Self {
        Self::new(name, false, Budget::AtMost(DELETED_RATIO_MAX))
    }
}

fn line_name(group: Group, moment: Moment) -> String {
    format!("{}: {}", group.name(), moment.name)
}

impl Stage {
    fn costs(&self) -> [f64; 2] {
        self.group.costs(&self.readings)
    }

    pub(crate) fn heading(&self) -> String {
        let [first, second] = self.group.figures();
        format!(
            "\n| {} | {first} | ratio | {second} | ratio | p50 µs | p50 µs | background s | resident MiB | peak MiB | disk MiB | of live | written of stored | write p99.9 ms | max ms |\n|---|{}\n",
            self.group.name(),
            "---:|".repeat(14),
        )
    }

    /// The first of `stages` is the newly filled table.
    pub(crate) fn table_line(&self, stages: &[Self]) -> String {
        let mut line = format!("| {} |", self.moment.name);
        let mut cell =
            |value: Option<f64>| write!(line, " {} |", number(value)).expect("writing to a String cannot fail");
        let fresh = stages.first().unwrap_or(self).costs();
        for (cost, fresh) in self.costs().into_iter().zip(fresh) {
            cell(Some(cost));
            cell(Some(cost / fresh));
        }
        let [first, second] = self.readings;
        for value in [
            first.p50_us,
            second.p50_us,
            first.background_seconds + second.background_seconds,
            self.resident_mib,
            self.peak_resident_mib,
            self.disk_mib,
            self.disk_mib / self.live_mib,
        ] {
            cell(Some(value));
        }
        cell(self.written_per_stored);
        cell(self.writes.map(|writes| writes.p999_ms));
        cell(self.writes.map(|writes| writes.max_ms));
        line.push('\n');
        line
    }

    /// The first of `stages` is the newly filled table.
    pub(crate) fn rows(&self, stages: &[Self], cache_mib: u64) -> Vec<Row> {
        let line = line_name(self.group, self.moment);
        let mut rows = Vec::new();
        let mut add = |figure: &str, reference: &str, bound: f64, value: Option<f64>, budget| {
            rows.push(Row::new((&line, figure, reference), (Some(bound), value), budget));
        };
        let within = Budget::AtMost(1.0);
        let fresh = stages.first().unwrap_or(self).costs();
        for ((figure, cost), fresh) in self.group.figures().into_iter().zip(self.costs()).zip(fresh) {
            if self.moment != Moment::FRESH {
                add(figure, "fresh", fresh, Some(cost), self.moment.budget);
            }
        }
        if (self.group, self.moment) == (Group::History, Moment::FRESH) {
            let [examined, _] = self.costs();
            add("CPU µs per examined entity", "design", FRESH_ENTITY_US_MAX, Some(examined), within);
        }
        let memory = as_f64(cache_mib) + BEYOND_CACHE_MIB_MAX;
        add("resident MiB", "cache + 150 MB", memory, Some(self.resident_mib), within);
        // A queue is so small that most of the disk space is taken by files that every data folder has.
        let is_bounded = self.moment.is_quiet && self.group != Group::Queue;
        if is_bounded {
            add("disk MiB", "live data", self.live_mib, Some(self.disk_mib), Budget::AtMost(DISK_RATIO_MAX));
        }
        if self.written_per_stored.is_some() {
            add("bytes written", "bytes stored", 1.0, self.written_per_stored, Budget::None);
        }
        if let Some(writes) = self.writes {
            add("write p99.9 ms", "design", WRITE_P999_MS_MAX, Some(writes.p999_ms), within);
            add("longest write ms", "design", WRITE_MS_MAX, Some(writes.max_ms), within);
        }
        rows
    }
}

pub(super) struct Observer<'a> {
    folder: PathBuf,
    group: Group,
    on_stage: OnStage<'a>,
    stages: Vec<Stage>,
    /// The bytes that the server had written when the current history began.
    written_before: u64,
}

impl<'a> Observer<'a> {
    pub(super) fn new(churn: &Churn, group: Group, on_stage: OnStage<'a>) -> Self {
        Self { folder: churn.data(group), group, on_stage, stages: Vec::new(), written_before: 0 }
    }

    /// Counts written bytes from here on.
    pub(super) fn begin(&mut self, server: &Server) -> anyhow::Result<()> {
        self.written_before = process(server)?.written_by_other_threads(REQUEST_THREADS)?;
        Ok(())
    }

    /// `live` is the size of the server's entities in bytes. `stored` is the size of the entities that were written
    /// since the history began.
    pub(super) fn stage(
        &mut self,
        server: &Server,
        moment: Moment,
        (live, stored): (u64, u64),
        writes: Option<Writes>,
        read: impl FnOnce() -> anyhow::Result<[Reading; 2]>,
    ) -> anyhow::Result<()> {
        let process = process(server)?;
        let disk = disk_space(&self.folder)?;
        let written = process.written_by_other_threads(REQUEST_THREADS)?.saturating_sub(self.written_before);
        let readings = read().with_context(|| moment.name)?;
        let resident = process.resident()?;
        self.stages.push(Stage {
            group: self.group,
            moment,
            readings,
            resident_mib: mebibytes(resident.now),
            peak_resident_mib: mebibytes(resident.peak),
            disk_mib: mebibytes(disk),
            live_mib: mebibytes(live),
            written_per_stored: (stored > 0).then(|| as_f64(written) / as_f64(stored)),
            writes,
        });
        (self.on_stage)(&self.stages)
    }
}

fn process(server: &Server) -> anyhow::Result<Process> {
    server.target.process.context("a child must have a process")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(moment: Moment, first: f64, second: f64) -> Stage {
        let reading = |cost| Reading {
            cpu_us_per_operation: cost * 1000.0,
            cpu_us_per_entity: cost,
            p50_us: 7.0,
            background_seconds: 0.5,
        };
        Stage {
            group: Group::History,
            moment,
            readings: [reading(first), reading(second)],
            resident_mib: 300.0,
            peak_resident_mib: 500.0,
            disk_mib: 210.0,
            live_mib: 100.0,
            written_per_stored: Some(4.5),
            writes: None,
        }
    }

    fn row(rows: &[Row], figure: &str) -> (Option<f64>, Option<bool>) {
        let row = rows.iter().find(|row| row.figure == figure).expect(figure);
        (row.ratio, row.is_met)
    }

    #[test]
    fn stages_are_compared_with_the_fresh_one() {
        let mut stages = vec![stage(Moment::FRESH, 0.5, 1.0), stage(Moment::OVERWRITTEN, 0.8, 2.0)];
        let rows = stages[1].rows(&stages, 256);
        assert_eq!(row(&rows, "CPU µs per examined entity"), (Some(1.6), Some(true)));
        assert_eq!(row(&rows, "CPU µs per page of 1,000"), (Some(2.0), Some(false)));
        assert!(rows.iter().all(|row| row.figure != "disk MiB"), "the storage library may still be compacting");
        stages.push(stage(Moment::OVERWRITTEN_QUIET, 0.8, 1.0));
        let rows = stages[2].rows(&stages, 256);
        assert_eq!(row(&rows, "CPU µs per examined entity").1, Some(false));
        assert_eq!(row(&rows, "disk MiB").1, Some(false));
        assert_eq!(row(&rows, "resident MiB").1, Some(true));
        assert_eq!(row(&stages[2].rows(&stages, 128), "resident MiB").1, Some(false));
    }

    #[test]
    fn the_fresh_stage_has_a_bound_of_its_own() {
        let stages = [stage(Moment::FRESH, 0.51, 1.0)];
        assert_eq!(row(&stages[0].rows(&stages, 256), "CPU µs per examined entity").1, Some(false));
    }

    #[test]
    fn slow_writes_are_outside_their_bounds() {
        let writes = Writes { count: 9, p50_ms: 1.0, p999_ms: 99.0, max_ms: 251.0 };
        let stages =
            [stage(Moment::FRESH, 0.5, 1.0), Stage { writes: Some(writes), ..stage(Moment::RESTARTED, 0.5, 1.0) }];
        let rows = stages[1].rows(&stages, 256);
        assert_eq!(row(&rows, "write p99.9 ms").1, Some(true));
        assert_eq!(row(&rows, "longest write ms").1, Some(false));
    }

    #[test]
    fn a_line_has_as_many_cells_as_the_heading() {
        let stages = [stage(Moment::FRESH, 0.5, 1.0)];
        let cells = |text: &str| text.trim().lines().map(|line| line.matches('|').count()).collect::<Vec<_>>();
        let line = stages[0].table_line(&stages);
        assert_eq!(cells(&stages[0].heading()), [16, 16]);
        assert_eq!(cells(&line), [16], "{line}");
    }

    #[test]
    fn groups_are_selected_by_their_lines() {
        let selected = |only| Group::ALL.map(|group| group.is_selected(only));
        assert_eq!(selected(None), [true; 3]);
        assert_eq!(selected(Some("churn")), [true; 3]);
        assert_eq!(selected(Some("queue")), [false, true, false]);
        assert_eq!(selected(Some("churn: restarted")), [true, false, false]);
        // The names of other lines of `compare` must not match.
        assert_eq!(selected(Some("query-filter")), [false; 3]);
    }
}
