//! Sums over requests, and the properties that are computed from them (specification 10 §8).
//!
//! Totals contain only sums, so they can be added up: the totals of several servers, or the totals from before and
//! after a restart. They can be reconstructed from the properties.
//!
//! This module must not depend on where totals are stored, and must not read a clock.

use model::record::DamagedRecord;
use model::{EdmValue, RecordBuilder, RecordView};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultKind {
    Success,
    ThrottlingError,
    ClientTimeoutError,
    ServerTimeoutError,
    ClientOtherError,
    ServerOtherError,
    AuthorizationError,
    NetworkError,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallerKind {
    /// The account key, or a token.
    Authenticated,
    Anonymous,
    Sas,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RequestFigures {
    pub(super) result: ResultKind,
    pub(super) caller: CallerKind,
    pub(super) ingress_bytes: u64,
    pub(super) egress_bytes: u64,
    /// The time from reading the head of the request until the response is ready.
    pub(super) end_to_end_milliseconds: f64,
    /// The same time, excluding the wait for the body of the request.
    pub(super) server_milliseconds: f64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RequestTotals {
    counts: [[u64; 3]; 8],
    ingress_bytes: u64,
    egress_bytes: u64,
    /// Over successful requests.
    end_to_end_milliseconds: f64,
    /// Over successful requests.
    server_milliseconds: f64,
}

impl ResultKind {
    const ALL: [Self; 8] = [
        Self::Success,
        Self::ThrottlingError,
        Self::ClientTimeoutError,
        Self::ServerTimeoutError,
        Self::ClientOtherError,
        Self::ServerOtherError,
        Self::AuthorizationError,
        Self::NetworkError,
    ];

    fn columns(self) -> [&'static str; 3] {
        match self {
            Self::Success => ["Success", "AnonymousSuccess", "SASSuccess"],
            Self::ThrottlingError => ["ThrottlingError", "AnonymousThrottlingError", "SASThrottlingError"],
            Self::ClientTimeoutError => ["ClientTimeoutError", "AnonymousClientTimeoutError", "SASClientTimeoutError"],
            Self::ServerTimeoutError => ["ServerTimeoutError", "AnonymousServerTimeoutError", "SASServerTimeoutError"],
            Self::ClientOtherError => ["ClientOtherError", "AnonymousClientOtherError", "SASClientOtherError"],
            Self::ServerOtherError => ["ServerOtherError", "AnonymousServerOtherError", "SASServerOtherError"],
            Self::AuthorizationError => ["AuthorizationError", "AnonymousAuthorizationError", "SASAuthorizationError"],
            Self::NetworkError => ["NetworkError", "AnonymousNetworkError", "SASNetworkError"],
        }
    }

    fn is_billable(self, caller: CallerKind) -> bool {
        match self {
            Self::Success | Self::ClientTimeoutError | Self::ClientOtherError | Self::NetworkError => true,
            Self::AuthorizationError => caller != CallerKind::Anonymous,
            Self::ThrottlingError | Self::ServerTimeoutError | Self::ServerOtherError => false,
        }
    }

    fn counts_for_availability(self, caller: CallerKind) -> bool {
        self.is_billable(caller) || matches!(self, Self::ServerTimeoutError | Self::ServerOtherError)
    }
}

impl CallerKind {
    const ALL: [Self; 3] = [Self::Authenticated, Self::Anonymous, Self::Sas];
}

impl RequestTotals {
    pub(super) fn add(&mut self, figures: &RequestFigures) {
        *self.count_mut(figures.result, figures.caller) += 1;
        self.ingress_bytes = self.ingress_bytes.saturating_add(figures.ingress_bytes);
        self.egress_bytes = self.egress_bytes.saturating_add(figures.egress_bytes);
        if figures.result == ResultKind::Success {
            self.end_to_end_milliseconds += figures.end_to_end_milliseconds;
            self.server_milliseconds += figures.server_milliseconds;
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().flatten().zip(other.counts.iter().flatten()) {
            *mine = mine.saturating_add(*theirs);
        }
        self.ingress_bytes = self.ingress_bytes.saturating_add(other.ingress_bytes);
        self.egress_bytes = self.egress_bytes.saturating_add(other.egress_bytes);
        self.end_to_end_milliseconds += other.end_to_end_milliseconds;
        self.server_milliseconds += other.server_milliseconds;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests(|_, _| true) == 0
    }

    fn count_mut(&mut self, result: ResultKind, caller: CallerKind) -> &mut u64 {
        let of_result = self.counts.get_mut(result as usize).expect("there is an array for each result");
        of_result.get_mut(caller as usize).expect("there is a counter for each caller")
    }

    fn requests(&self, belongs: impl Fn(ResultKind, CallerKind) -> bool) -> u64 {
        let rows = ResultKind::ALL.into_iter().zip(&self.counts);
        let all = rows.flat_map(|(result, row)| {
            CallerKind::ALL.into_iter().zip(row).map(move |(caller, count)| (result, caller, *count))
        });
        all.filter(|(result, caller, _)| belongs(*result, *caller)).map(|(_, _, count)| count).sum()
    }

    pub(super) fn to_properties(&self) -> RecordBuilder {
        let mut properties = RecordBuilder::with_capacity(1536);
        let mut count = |name, value: u64| {
            properties.push(name, EdmValue::Int64(i64::try_from(value).unwrap_or(i64::MAX)));
        };
        let total = self.requests(|_, _| true);
        let billable = self.requests(ResultKind::is_billable);
        count("TotalIngress", self.ingress_bytes);
        count("TotalEgress", self.egress_bytes);
        count("TotalRequests", total);
        count("TotalBillableRequests", billable);
        for (result, row) in ResultKind::ALL.into_iter().zip(&self.counts) {
            for (name, value) in result.columns().into_iter().zip(row) {
                count(name, *value);
            }
        }
        let of = |wanted: &'static [ResultKind]| percent(self.requests(|result, _| wanted.contains(&result)), total);
        let successes = self.requests(|result, _| result == ResultKind::Success);
        let counting = self.requests(ResultKind::counts_for_availability);
        let rates = [
            (AVAILABILITY, availability(billable, counting)),
            (AVERAGE_END_TO_END, average(self.end_to_end_milliseconds, successes)),
            (AVERAGE_SERVER, average(self.server_milliseconds, successes)),
            ("PercentSuccess", of(&[ResultKind::Success])),
            ("PercentThrottlingError", of(&[ResultKind::ThrottlingError])),
            ("PercentTimeoutError", of(&[ResultKind::ClientTimeoutError, ResultKind::ServerTimeoutError])),
            ("PercentServerOtherError", of(&[ResultKind::ServerOtherError])),
            ("PercentClientOtherError", of(&[ResultKind::ClientOtherError])),
            ("PercentAuthorizationError", of(&[ResultKind::AuthorizationError])),
            ("PercentNetworkError", of(&[ResultKind::NetworkError])),
        ];
        for (name, value) in rates {
            properties.push(name, EdmValue::Double(value));
        }
        properties
    }

    /// Returns the sums from which properties were computed. A property that is missing, or has a different type,
    /// counts as zero.
    pub(super) fn from_record(record: &RecordView<'_>) -> Result<Self, DamagedRecord> {
        let count = |name| {
            Ok(match record.get(name)? {
                Some(EdmValue::Int64(value)) => u64::try_from(value).unwrap_or(0),
                _ => 0,
            })
        };
        let rate = |name| {
            Ok(match record.get(name)? {
                Some(EdmValue::Double(value)) if value.is_finite() => value,
                _ => 0.0,
            })
        };
        let mut totals = Self::default();
        for result in ResultKind::ALL {
            for (caller, name) in CallerKind::ALL.into_iter().zip(result.columns()) {
                *totals.count_mut(result, caller) = count(name)?;
            }
        }
        let successes = as_number(totals.requests(|result, _| result == ResultKind::Success));
        totals.ingress_bytes = count("TotalIngress")?;
        totals.egress_bytes = count("TotalEgress")?;
        totals.end_to_end_milliseconds = rate(AVERAGE_END_TO_END)? * successes;
        totals.server_milliseconds = rate(AVERAGE_SERVER)? * successes;
        Ok(totals)
    }
}

const AVAILABILITY: &str = "Availability";
const AVERAGE_END_TO_END: &str = "AverageE2ELatency";
const AVERAGE_SERVER: &str = "AverageServerLatency";

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * as_number(part) / as_number(whole) }
}

/// UNVERIFIED (10 §8): the value while there are no requests.
fn availability(billable: u64, counting: u64) -> f64 {
    if counting == 0 { 100.0 } else { percent(billable, counting) }
}

fn average(sum: f64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum / as_number(count) }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a share or an average of more than 2^53 requests may be off by one of them"
)]
fn as_number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::DateTime;

    pub(crate) fn figures(result: ResultKind, caller: CallerKind) -> RequestFigures {
        let (end_to_end_milliseconds, server_milliseconds) = (8.0, 2.0);
        RequestFigures {
            result,
            caller,
            ingress_bytes: 10,
            egress_bytes: 1000,
            end_to_end_milliseconds,
            server_milliseconds,
        }
    }

    fn totals(requests: &[(ResultKind, CallerKind, usize)]) -> RequestTotals {
        let mut totals = RequestTotals::default();
        for (result, caller, times) in requests {
            (0..*times).for_each(|_| totals.add(&figures(*result, *caller)));
        }
        totals
    }

    fn int(totals: &RequestTotals, name: &str) -> i64 {
        let record = totals.to_properties().finish(DateTime::MIN);
        match record.view().unwrap().get(name).unwrap() {
            Some(EdmValue::Int64(value)) => value,
            other => panic!("{name} is {other:?}"),
        }
    }

    fn double(totals: &RequestTotals, name: &str) -> f64 {
        let record = totals.to_properties().finish(DateTime::MIN);
        match record.view().unwrap().get(name).unwrap() {
            Some(EdmValue::Double(value)) => value,
            other => panic!("{name} is {other:?}"),
        }
    }

    fn is(value: f64, expected: f64) -> bool {
        (value - expected).abs() < 1e-9
    }

    #[test]
    fn every_request_stands_in_one_column_and_in_the_totals() {
        for (number, result) in ResultKind::ALL.into_iter().enumerate() {
            for (place, caller) in CallerKind::ALL.into_iter().enumerate() {
                let totals = totals(&[(result, caller, 3)]);
                let own = result.columns()[place];
                for other in ResultKind::ALL.into_iter().flat_map(ResultKind::columns) {
                    assert_eq!(int(&totals, other), if other == own { 3 } else { 0 }, "{other} of {own}");
                }
                assert!(own.ends_with(ResultKind::ALL[number].columns()[0]));
                assert_eq!((int(&totals, "TotalRequests"), int(&totals, "TotalIngress")), (3, 30));
                assert_eq!(int(&totals, "TotalEgress"), 3000);
                let latency = if result == ResultKind::Success { (8.0, 2.0) } else { (0.0, 0.0) };
                assert!(is(double(&totals, "AverageE2ELatency"), latency.0), "{own}");
                assert!(is(double(&totals, "AverageServerLatency"), latency.1), "{own}");
            }
        }
        // 4 totals, 24 counts, 10 rates.
        assert_eq!(RequestTotals::default().to_properties().len(), 38);
    }

    #[test]
    fn what_is_billable_and_what_counts_for_availability() {
        // The table of 10 §8: result, billable, counts for availability; for all callers except one.
        for (result, is_billable, counts) in [
            (ResultKind::Success, true, true),
            (ResultKind::ThrottlingError, false, false),
            (ResultKind::ClientTimeoutError, true, true),
            (ResultKind::ServerTimeoutError, false, true),
            (ResultKind::ClientOtherError, true, true),
            (ResultKind::ServerOtherError, false, true),
            (ResultKind::AuthorizationError, true, true),
            (ResultKind::NetworkError, true, true),
        ] {
            for caller in CallerKind::ALL {
                let is_stranger = (result, caller) == (ResultKind::AuthorizationError, CallerKind::Anonymous);
                let (is_billable, counts) = (is_billable && !is_stranger, counts && !is_stranger);
                let totals = totals(&[(result, caller, 1)]);
                assert_eq!(int(&totals, "TotalBillableRequests"), i64::from(is_billable), "{result:?} {caller:?}");
                let expected = if is_billable || !counts { 100.0 } else { 0.0 };
                assert!(is(double(&totals, "Availability"), expected), "{result:?} {caller:?}");
            }
        }
    }

    #[test]
    fn shares_and_averages() {
        let mixed = totals(&[
            (ResultKind::Success, CallerKind::Authenticated, 5),
            (ResultKind::Success, CallerKind::Sas, 1),
            (ResultKind::ThrottlingError, CallerKind::Authenticated, 1),
            (ResultKind::ServerTimeoutError, CallerKind::Authenticated, 1),
            (ResultKind::ClientTimeoutError, CallerKind::Anonymous, 1),
            (ResultKind::AuthorizationError, CallerKind::Anonymous, 1),
        ]);
        for (name, expected) in [
            ("PercentSuccess", 60.0),
            ("PercentThrottlingError", 10.0),
            ("PercentTimeoutError", 20.0),
            ("PercentAuthorizationError", 10.0),
            ("PercentClientOtherError", 0.0),
            ("PercentServerOtherError", 0.0),
            ("PercentNetworkError", 0.0),
            ("AverageE2ELatency", 8.0),
            // Seven of eight: neither the throttled request nor the anonymous one counts.
            ("Availability", 87.5),
        ] {
            assert!(is(double(&mixed, name), expected), "{name} is {}", double(&mixed, name));
        }
        assert!(is(double(&RequestTotals::default(), "PercentSuccess"), 0.0));
    }

    #[test]
    fn sums_are_computed_back_from_the_columns_and_can_be_added() {
        let one = totals(&[
            (ResultKind::Success, CallerKind::Authenticated, 2),
            (ResultKind::NetworkError, CallerKind::Sas, 1),
        ]);
        let record = one.to_properties().finish(DateTime::MIN);
        let mut both = RequestTotals::from_record(&record.view().unwrap()).unwrap();
        assert_eq!(both, one);
        let slow =
            RequestFigures { end_to_end_milliseconds: 20.0, ..figures(ResultKind::Success, CallerKind::Anonymous) };
        let mut other = RequestTotals::default();
        other.add(&slow);
        both.merge(&other);
        assert_eq!((int(&both, "TotalRequests"), int(&both, "Success")), (4, 2));
        assert_eq!((int(&both, "AnonymousSuccess"), int(&both, "TotalEgress")), (1, 4000));
        assert!(is(double(&both, "AverageE2ELatency"), 12.0));
        assert!(!both.is_empty() && RequestTotals::default().is_empty());
    }
}
