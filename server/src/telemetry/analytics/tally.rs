//! What is counted of requests, and the figures that follow from it (specification 10 §8).
//!
//! A tally holds sums only, so that two can be added: those of several servers, and those from before and after a restart.
//! It can be had back from the columns that it becomes.
//!
//! This module must not know where figures are kept, nor read a clock.

use model::record::DamagedRecord;
use model::{EdmValue, RecordBuilder, RecordView};

/// How a request ended, as the columns have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Success,
    ThrottlingError,
    ClientTimeoutError,
    ServerTimeoutError,
    ClientOtherError,
    ServerOtherError,
    AuthorizationError,
    NetworkError,
}

/// By which kind of credential a request came, as the columns have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Party {
    /// The key of the account, or a token.
    Authenticated,
    Anonymous,
    Sas,
}

/// One request, as far as it is counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Counted {
    pub(super) ending: Ending,
    pub(super) party: Party,
    pub(super) ingress_bytes: u64,
    pub(super) egress_bytes: u64,
    /// From the first byte of the request that was seen to the answer.
    pub(super) end_to_end_milliseconds: f64,
    /// The part of it in which the server was at work.
    pub(super) server_milliseconds: f64,
}

/// Sums over requests.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Tally {
    /// By ending and party.
    counts: [[u64; 3]; 8],
    ingress_bytes: u64,
    egress_bytes: u64,
    /// Over the requests that succeeded.
    end_to_end_milliseconds: f64,
    /// Over the requests that succeeded.
    server_milliseconds: f64,
}

impl Ending {
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

    /// The names of the columns for requests that ended so, by party.
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

    /// Whether the account would be charged for a request that ended so.
    fn is_billable(self, party: Party) -> bool {
        match self {
            Self::Success | Self::ClientTimeoutError | Self::ClientOtherError | Self::NetworkError => true,
            Self::AuthorizationError => party != Party::Anonymous,
            Self::ThrottlingError | Self::ServerTimeoutError | Self::ServerOtherError => false,
        }
    }

    /// Whether a request that ended so says something about availability.
    fn counts_for_availability(self, party: Party) -> bool {
        self.is_billable(party) || matches!(self, Self::ServerTimeoutError | Self::ServerOtherError)
    }
}

impl Party {
    const ALL: [Self; 3] = [Self::Authenticated, Self::Anonymous, Self::Sas];
}

impl Tally {
    /// Adds one request.
    pub(super) fn add(&mut self, counted: &Counted) {
        *self.count_mut(counted.ending, counted.party) += 1;
        self.ingress_bytes = self.ingress_bytes.saturating_add(counted.ingress_bytes);
        self.egress_bytes = self.egress_bytes.saturating_add(counted.egress_bytes);
        if counted.ending == Ending::Success {
            self.end_to_end_milliseconds += counted.end_to_end_milliseconds;
            self.server_milliseconds += counted.server_milliseconds;
        }
    }

    /// Adds all that another one holds.
    pub(super) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().flatten().zip(other.counts.iter().flatten()) {
            *mine = mine.saturating_add(*theirs);
        }
        self.ingress_bytes = self.ingress_bytes.saturating_add(other.ingress_bytes);
        self.egress_bytes = self.egress_bytes.saturating_add(other.egress_bytes);
        self.end_to_end_milliseconds += other.end_to_end_milliseconds;
        self.server_milliseconds += other.server_milliseconds;
    }

    /// Whether no request is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.requests(|_, _| true) == 0
    }

    fn count_mut(&mut self, ending: Ending, party: Party) -> &mut u64 {
        let of_ending = self.counts.get_mut(ending as usize).expect("there is a row for each ending");
        of_ending.get_mut(party as usize).expect("there is a place for each party")
    }

    /// How many requests ended in one of some ways.
    fn requests(&self, belongs: impl Fn(Ending, Party) -> bool) -> u64 {
        let rows = Ending::ALL.into_iter().zip(&self.counts);
        let all = rows.flat_map(|(ending, row)| {
            Party::ALL.into_iter().zip(row).map(move |(party, count)| (ending, party, *count))
        });
        all.filter(|(ending, party, _)| belongs(*ending, *party)).map(|(_, _, count)| count).sum()
    }

    /// The columns that the sums become.
    pub(super) fn to_properties(&self) -> RecordBuilder {
        let mut properties = RecordBuilder::with_capacity(1536);
        let mut count = |name, value: u64| {
            properties.push(name, EdmValue::Int64(i64::try_from(value).unwrap_or(i64::MAX)));
        };
        let total = self.requests(|_, _| true);
        let billable = self.requests(Ending::is_billable);
        count("TotalIngress", self.ingress_bytes);
        count("TotalEgress", self.egress_bytes);
        count("TotalRequests", total);
        count("TotalBillableRequests", billable);
        for (ending, row) in Ending::ALL.into_iter().zip(&self.counts) {
            for (name, value) in ending.columns().into_iter().zip(row) {
                count(name, *value);
            }
        }
        let of = |wanted: &'static [Ending]| percent(self.requests(|ending, _| wanted.contains(&ending)), total);
        let successes = self.requests(|ending, _| ending == Ending::Success);
        let counting = self.requests(Ending::counts_for_availability);
        let rates = [
            (AVAILABILITY, availability(billable, counting)),
            (AVERAGE_END_TO_END, average(self.end_to_end_milliseconds, successes)),
            (AVERAGE_SERVER, average(self.server_milliseconds, successes)),
            ("PercentSuccess", of(&[Ending::Success])),
            ("PercentThrottlingError", of(&[Ending::ThrottlingError])),
            ("PercentTimeoutError", of(&[Ending::ClientTimeoutError, Ending::ServerTimeoutError])),
            ("PercentServerOtherError", of(&[Ending::ServerOtherError])),
            ("PercentClientOtherError", of(&[Ending::ClientOtherError])),
            ("PercentAuthorizationError", of(&[Ending::AuthorizationError])),
            ("PercentNetworkError", of(&[Ending::NetworkError])),
        ];
        for (name, value) in rates {
            properties.push(name, EdmValue::Double(value));
        }
        properties
    }

    /// The sums that columns were made of. A column that is missing, or of another type, counts as zero.
    pub(super) fn of_record(record: &RecordView<'_>) -> Result<Self, DamagedRecord> {
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
        let mut tally = Self::default();
        for ending in Ending::ALL {
            for (party, name) in Party::ALL.into_iter().zip(ending.columns()) {
                *tally.count_mut(ending, party) = count(name)?;
            }
        }
        let successes = as_number(tally.requests(|ending, _| ending == Ending::Success));
        tally.ingress_bytes = count("TotalIngress")?;
        tally.egress_bytes = count("TotalEgress")?;
        tally.end_to_end_milliseconds = rate(AVERAGE_END_TO_END)? * successes;
        tally.server_milliseconds = rate(AVERAGE_SERVER)? * successes;
        Ok(tally)
    }
}

const AVAILABILITY: &str = "Availability";
const AVERAGE_END_TO_END: &str = "AverageE2ELatency";
const AVERAGE_SERVER: &str = "AverageServerLatency";

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * as_number(part) / as_number(whole) }
}

/// UNVERIFIED (10 §8): the availability while nobody asks for anything.
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

    pub(crate) fn counted(ending: Ending, party: Party) -> Counted {
        let (end_to_end_milliseconds, server_milliseconds) = (8.0, 2.0);
        Counted { ending, party, ingress_bytes: 10, egress_bytes: 1000, end_to_end_milliseconds, server_milliseconds }
    }

    fn tally(requests: &[(Ending, Party, usize)]) -> Tally {
        let mut tally = Tally::default();
        for (ending, party, times) in requests {
            (0..*times).for_each(|_| tally.add(&counted(*ending, *party)));
        }
        tally
    }

    fn int(tally: &Tally, name: &str) -> i64 {
        let record = tally.to_properties().finish(DateTime::MIN);
        match record.view().unwrap().get(name).unwrap() {
            Some(EdmValue::Int64(value)) => value,
            other => panic!("{name} is {other:?}"),
        }
    }

    fn double(tally: &Tally, name: &str) -> f64 {
        let record = tally.to_properties().finish(DateTime::MIN);
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
        for (number, ending) in Ending::ALL.into_iter().enumerate() {
            for (place, party) in Party::ALL.into_iter().enumerate() {
                let tally = tally(&[(ending, party, 3)]);
                let own = ending.columns()[place];
                for other in Ending::ALL.into_iter().flat_map(Ending::columns) {
                    assert_eq!(int(&tally, other), if other == own { 3 } else { 0 }, "{other} of {own}");
                }
                assert!(own.ends_with(Ending::ALL[number].columns()[0]));
                assert_eq!((int(&tally, "TotalRequests"), int(&tally, "TotalIngress")), (3, 30));
                assert_eq!(int(&tally, "TotalEgress"), 3000);
                let latency = if ending == Ending::Success { (8.0, 2.0) } else { (0.0, 0.0) };
                assert!(is(double(&tally, "AverageE2ELatency"), latency.0), "{own}");
                assert!(is(double(&tally, "AverageServerLatency"), latency.1), "{own}");
            }
        }
        // 4 totals, 24 counts, 10 rates.
        assert_eq!(Tally::default().to_properties().len(), 38);
    }

    #[test]
    fn what_is_billable_and_what_counts_for_availability() {
        // The table of 10 §8: ending, billable, counts for availability; for all parties but one.
        for (ending, is_billable, counts) in [
            (Ending::Success, true, true),
            (Ending::ThrottlingError, false, false),
            (Ending::ClientTimeoutError, true, true),
            (Ending::ServerTimeoutError, false, true),
            (Ending::ClientOtherError, true, true),
            (Ending::ServerOtherError, false, true),
            (Ending::AuthorizationError, true, true),
            (Ending::NetworkError, true, true),
        ] {
            for party in Party::ALL {
                let is_stranger = (ending, party) == (Ending::AuthorizationError, Party::Anonymous);
                let (is_billable, counts) = (is_billable && !is_stranger, counts && !is_stranger);
                let tally = tally(&[(ending, party, 1)]);
                assert_eq!(int(&tally, "TotalBillableRequests"), i64::from(is_billable), "{ending:?} {party:?}");
                let expected = if is_billable || !counts { 100.0 } else { 0.0 };
                assert!(is(double(&tally, "Availability"), expected), "{ending:?} {party:?}");
            }
        }
    }

    #[test]
    fn shares_and_averages() {
        let mixed = tally(&[
            (Ending::Success, Party::Authenticated, 5),
            (Ending::Success, Party::Sas, 1),
            (Ending::ThrottlingError, Party::Authenticated, 1),
            (Ending::ServerTimeoutError, Party::Authenticated, 1),
            (Ending::ClientTimeoutError, Party::Anonymous, 1),
            (Ending::AuthorizationError, Party::Anonymous, 1),
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
            // Seven of eight: neither the throttled request nor the stranger counts.
            ("Availability", 87.5),
        ] {
            assert!(is(double(&mixed, name), expected), "{name} is {}", double(&mixed, name));
        }
        assert!(is(double(&Tally::default(), "PercentSuccess"), 0.0));
    }

    #[test]
    fn sums_are_had_back_from_the_columns_and_can_be_added() {
        let one = tally(&[(Ending::Success, Party::Authenticated, 2), (Ending::NetworkError, Party::Sas, 1)]);
        let record = one.to_properties().finish(DateTime::MIN);
        let mut both = Tally::of_record(&record.view().unwrap()).unwrap();
        assert_eq!(both, one);
        let slow = Counted { end_to_end_milliseconds: 20.0, ..counted(Ending::Success, Party::Anonymous) };
        let mut other = Tally::default();
        other.add(&slow);
        both.merge(&other);
        assert_eq!((int(&both, "TotalRequests"), int(&both, "Success")), (4, 2));
        assert_eq!((int(&both, "AnonymousSuccess"), int(&both, "TotalEgress")), (1, 4000));
        assert!(is(double(&both, "AverageE2ELatency"), 12.0));
        assert!(!both.is_empty() && Tally::default().is_empty());
    }
}
