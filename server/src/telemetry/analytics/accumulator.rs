//! The metrics of hours and minutes that are not over yet, in memory: totals for each table and interval.
//!
//! The state of the accumulator is a pure function of the samples and times that are passed in. The size of the state
//! depends on the number of accounts, not on the number of requests.

use super::request_totals::{RequestFigures, RequestTotals};
use crate::request::OperationKind;
use model::limits::{ANALYTICS_PAGES_MAX, MINUTES_OF_HOUR};
use model::service_properties::MetricsLevel;
use model::{AccountName, DateTime, MetricsTable, ServiceProperties};
use std::collections::BTreeMap;

/// An hour or a minute, identified by the number of minutes from 1601 to its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Interval {
    begin: i64,
    minutes: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IntervalKey {
    pub(super) account: AccountName,
    pub(super) table: MetricsTable,
    pub(super) interval: Interval,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    User,
    System,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct IntervalTotals(BTreeMap<(Origin, Option<OperationKind>), RequestTotals>);

#[derive(Debug)]
pub(super) struct Sample<'a> {
    pub(super) account: &'a AccountName,
    pub(super) is_secondary: bool,
    pub(super) origin: Origin,
    pub(super) operation: OperationKind,
    pub(super) figures: RequestFigures,
}

#[derive(Debug, Default)]
pub(super) struct Accumulator {
    totals: BTreeMap<IntervalKey, IntervalTotals>,
    /// The totals of intervals that were over at this time have been taken.
    taken_until: Option<DateTime>,
}

/// One minute, in ticks of 100 ns.
const MINUTE_TICKS: i64 = 60 * 10_000_000;

impl Interval {
    pub(super) fn containing(table: MetricsTable, at: DateTime) -> Self {
        let minutes = if table.is_hourly() { MINUTES_OF_HOUR } else { 1 };
        let minute = at.ticks().div_euclid(MINUTE_TICKS);
        Self { begin: minute - minute.rem_euclid(minutes), minutes }
    }

    fn is_over(self, now: DateTime) -> bool {
        now.ticks().div_euclid(MINUTE_TICKS) >= self.begin + self.minutes
    }

    fn before(self) -> Self {
        Self { begin: self.begin - self.minutes, ..self }
    }

    /// For example `20310314T0815`, in UTC.
    pub(super) fn partition(self) -> String {
        partition_of(DateTime::from_ticks(self.begin.saturating_mul(MINUTE_TICKS)).unwrap_or(DateTime::MIN))
    }
}

pub(super) fn partition_of(at: DateTime) -> String {
    let mut text = Vec::with_capacity(24);
    at.write_whole_seconds_to(&mut text);
    text.into_iter().filter(|byte| !matches!(byte, b'-' | b':')).take("20310314T0815".len()).map(char::from).collect()
}

impl Default for IntervalTotals {
    /// Starts with empty totals for each origin, which show that there were no requests.
    fn default() -> Self {
        Self(BTreeMap::from([
            ((Origin::User, None), RequestTotals::default()),
            ((Origin::System, None), RequestTotals::default()),
        ]))
    }
}

impl IntervalTotals {
    fn add(&mut self, sample: &Sample<'_>, level: MetricsLevel) {
        self.0.entry((sample.origin, None)).or_default().add(&sample.figures);
        if level == MetricsLevel::ServiceAndApi && sample.operation != OperationKind::Unknown {
            self.0.entry((sample.origin, Some(sample.operation))).or_default().add(&sample.figures);
        }
    }

    fn merge(&mut self, other: &Self) {
        for (row, totals) in &other.0 {
            self.0.entry(*row).or_default().merge(totals);
        }
    }

    /// UNVERIFIED (10 §8): the spelling of `All`.
    pub(super) fn rows(&self) -> impl Iterator<Item = (String, &RequestTotals)> {
        self.0.iter().map(|((origin, operation), totals)| {
            let origin = match origin {
                Origin::User => "user",
                Origin::System => "system",
            };
            (format!("{origin};{}", operation.map_or("All", OperationKind::name)), totals)
        })
    }
}

/// Returns the tables in which an account's requests are counted, and the level of detail.
fn measured(properties: &ServiceProperties, is_secondary: bool) -> impl Iterator<Item = (MetricsTable, MetricsLevel)> {
    let (hour, minute) = (properties.hour_metrics.level, properties.minute_metrics.level);
    MetricsTable::ALL
        .into_iter()
        .filter(move |table| table.is_secondary() == is_secondary)
        .map(move |table| (table, if table.is_hourly() { hour } else { minute }))
        .filter(|(_, level)| *level != MetricsLevel::Off)
}

impl Accumulator {
    pub(super) fn record(&mut self, sample: &Sample<'_>, properties: &ServiceProperties, at: DateTime) {
        for (table, level) in measured(properties, sample.is_secondary) {
            let key = IntervalKey { account: sample.account.clone(), table, interval: Interval::containing(table, at) };
            self.totals.entry(key).or_default().add(sample, level);
        }
    }

    /// Ensures that the previous interval has totals in each table of an account, even if there were no requests.
    pub(super) fn open(
        &mut self,
        account: &AccountName,
        properties: &ServiceProperties,
        is_secondary: bool,
        now: DateTime,
    ) {
        for (table, _) in measured(properties, is_secondary) {
            let interval = Interval::containing(table, now).before();
            // Otherwise, its totals have already been taken, or it was over before this server started.
            if self.taken_until.is_some_and(|until| !interval.is_over(until)) {
                self.totals.entry(IntervalKey { account: account.clone(), table, interval }).or_default();
            }
        }
    }

    /// Removes and returns the totals of the intervals that are over.
    pub(super) fn take_finished(&mut self, now: DateTime) -> Vec<(IntervalKey, IntervalTotals)> {
        self.taken_until = Some(now);
        let all = std::mem::take(&mut self.totals);
        let (finished, open) = all.into_iter().partition::<BTreeMap<_, _>, _>(|(key, _)| key.interval.is_over(now));
        self.totals = open;
        finished.into_iter().collect()
    }

    pub(super) fn take_all(&mut self) -> Vec<(IntervalKey, IntervalTotals)> {
        std::mem::take(&mut self.totals).into_iter().collect()
    }

    /// Puts back totals that could not be written. Returns false if there are already too many, in which case they are
    /// lost.
    pub(super) fn put_back(&mut self, key: IntervalKey, totals: &IntervalTotals) -> bool {
        if self.totals.len() >= ANALYTICS_PAGES_MAX && !self.totals.contains_key(&key) {
            return false;
        }
        match self.totals.get_mut(&key) {
            Some(newer) => newer.merge(totals),
            None => drop(self.totals.insert(key, totals.clone())),
        }
        true
    }

    pub(super) fn forget(&mut self, account: Option<&AccountName>) {
        self.totals.retain(|key, _| account.is_some_and(|account| *account != key.account));
    }

    /// Sets the start time of this server, which writes nothing about intervals that were over at that time.
    pub(super) fn begin(&mut self, now: DateTime) {
        self.taken_until = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::request_totals::{CallerKind, ResultKind};
    use super::*;
    use model::service_properties::Metrics;

    fn at(text: &str) -> DateTime {
        DateTime::parse(text).unwrap()
    }

    fn account() -> AccountName {
        AccountName::new("orchard").unwrap()
    }

    fn properties(hour: MetricsLevel, minute: MetricsLevel) -> ServiceProperties {
        let level = |level| Metrics { level, retention: None };
        ServiceProperties { hour_metrics: level(hour), minute_metrics: level(minute), ..ServiceProperties::default() }
    }

    fn record(accumulator: &mut Accumulator, operation: OperationKind, properties: &ServiceProperties, when: &str) {
        let figures = RequestFigures {
            result: ResultKind::Success,
            caller: CallerKind::Authenticated,
            ingress_bytes: 1,
            egress_bytes: 2,
            end_to_end_milliseconds: 1.0,
            server_milliseconds: 1.0,
        };
        let account = account();
        let sample = Sample { account: &account, is_secondary: false, origin: Origin::User, operation, figures };
        accumulator.record(&sample, properties, at(when));
    }

    fn rows(pages: &[(IntervalKey, IntervalTotals)]) -> Vec<String> {
        let rows = pages.iter().flat_map(|(key, page)| {
            let place = format!("{:?} {}", key.table, key.interval.partition());
            page.rows()
                .filter(|(_, totals)| !totals.is_empty())
                .map(move |(row, _)| format!("{place} {row}"))
                .collect::<Vec<_>>()
        });
        rows.collect()
    }

    #[test]
    fn requests_are_counted_as_the_properties_of_the_account_say() {
        use MetricsLevel::{Off, Service, ServiceAndApi};
        for (hour, minute, expected) in [
            (Off, Off, &[][..]),
            (Service, Off, &["HourPrimary 20310314T0800 user;All"]),
            (Off, Service, &["MinutePrimary 20310314T0815 user;All"]),
            (
                ServiceAndApi,
                Service,
                &[
                    "HourPrimary 20310314T0800 user;All",
                    "HourPrimary 20310314T0800 user;InsertEntity",
                    "MinutePrimary 20310314T0815 user;All",
                ],
            ),
        ] {
            let mut accumulator = Accumulator::default();
            let properties = properties(hour, minute);
            record(&mut accumulator, OperationKind::InsertEntity, &properties, "2031-03-14T08:15:59.9Z");
            record(&mut accumulator, OperationKind::Unknown, &properties, "2031-03-14T08:15:00Z");
            assert_eq!(rows(&accumulator.take_all()), expected, "{hour:?} {minute:?}");
        }
    }

    #[test]
    fn an_interval_is_taken_once_it_is_over() {
        let mut accumulator = Accumulator::default();
        let properties = properties(MetricsLevel::Service, MetricsLevel::Service);
        record(&mut accumulator, OperationKind::QueryEntity, &properties, "2031-03-14T08:58:30Z");
        record(&mut accumulator, OperationKind::QueryEntity, &properties, "2031-03-14T08:59:30Z");
        assert!(accumulator.take_finished(at("2031-03-14T08:58:59.9Z")).is_empty());
        assert_eq!(
            rows(&accumulator.take_finished(at("2031-03-14T08:59:00Z"))),
            ["MinutePrimary 20310314T0858 user;All"]
        );
        assert_eq!(
            rows(&accumulator.take_finished(at("2031-03-14T09:00:00Z"))),
            ["HourPrimary 20310314T0800 user;All", "MinutePrimary 20310314T0859 user;All"]
        );
        assert!(accumulator.take_all().is_empty());
    }

    #[test]
    fn an_interval_without_a_request_has_its_rows_too_and_only_once() {
        let mut accumulator = Accumulator::default();
        let properties = properties(MetricsLevel::Service, MetricsLevel::Service);
        accumulator.begin(at("2031-03-14T08:58:30Z"));
        let mut finished = |now: &str| {
            accumulator.open(&account(), &properties, false, at(now));
            let pages = accumulator.take_finished(at(now));
            let places = pages.iter().map(|(key, page)| {
                assert_eq!(page.rows().map(|(row, _)| row).collect::<Vec<_>>(), ["user;All", "system;All"]);
                format!("{:?} {}", key.table, key.interval.partition())
            });
            places.collect::<Vec<_>>()
        };
        assert!(finished("2031-03-14T08:58:59Z").is_empty(), "intervals before the start are not written");
        assert_eq!(finished("2031-03-14T08:59:01Z"), ["MinutePrimary 20310314T0858"]);
        assert!(finished("2031-03-14T08:59:02Z").is_empty());
        assert_eq!(finished("2031-03-14T09:00:00Z"), ["HourPrimary 20310314T0800", "MinutePrimary 20310314T0859"]);
    }

    #[test]
    fn the_figures_of_an_account_that_is_gone_are_not_written() {
        let mut accumulator = Accumulator::default();
        let properties = properties(MetricsLevel::Service, MetricsLevel::Off);
        let mut left = |gone: Option<&str>| {
            record(&mut accumulator, OperationKind::QueryEntity, &properties, "2031-03-14T08:58:30Z");
            accumulator.forget(gone.map(|name| AccountName::new(name).unwrap()).as_ref());
            accumulator.take_all().len()
        };
        assert_eq!([left(Some("meadow")), left(Some("orchard")), left(None)], [1, 0, 0]);
    }

    #[test]
    fn what_could_not_be_written_is_put_back_and_added_to() {
        let mut accumulator = Accumulator::default();
        let properties = properties(MetricsLevel::Service, MetricsLevel::Off);
        record(&mut accumulator, OperationKind::QueryEntity, &properties, "2031-03-14T08:58:30Z");
        let taken = accumulator.take_all();
        record(&mut accumulator, OperationKind::QueryEntity, &properties, "2031-03-14T08:59:30Z");
        for (key, page) in taken.clone() {
            assert!(accumulator.put_back(key, &page));
        }
        let both = accumulator.take_all();
        assert_eq!(both.len(), 1);
        let mut expected = taken[0].1.clone();
        expected.merge(&taken[0].1);
        assert_eq!(both[0].1, expected);
    }
}
