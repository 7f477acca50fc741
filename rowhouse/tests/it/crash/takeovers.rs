//! Takeovers of standbys for which their primaries wait: nothing that was acknowledged is lost, and two servers never
//! both acknowledge writes.
//!
//! In one test, primaries are killed. In the other, the former primary still runs: its connection to the standby is
//! cut, lossy or slow, or one of the two processes is paused. Clients write to both servers the whole time.
//!
//! A write that is sent to the former primary after its standby has ended is never acknowledged and never stored.
//! Everything acknowledged is on the promoted server, and nothing refused is. A former primary that hears of the
//! promotion says so, and refuses writes for good.

use super::{SEED, check_folder, rounds};
use crate::PROGRAM;
use crate::standby::Place;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};
use test_support::proxy::{Link, Loss};
use test_support::{Client, EndOnDrop, Random, Server, eventually};

/// The number of writers of each server. Each has a partition on each server.
const WRITERS: u64 = 3;
/// The maximum number of writes of a writer. What it wrote fits on one page.
const WRITES_MAX: usize = 900;
/// The primary waits for its standby for a second.
const WAIT: &[&str] = &["--acknowledge-seconds", "1"];

fn start_primary(place: &Place, name: &str, more: &[&str]) -> Server {
    place.primary(name, &[&["--extensions", "--acknowledge", "standby"], more].concat())
}

/// Starts a standby of the primary at an address.
fn start_standby(place: &Place, name: &str, address: &str) -> Server {
    place.standby_of(address, name, &["--extensions", "--keep-log", "1h"])
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// The connections are closed, and new ones work.
    Cut,
    Loss(Loss),
    Delay(Duration),
    PausedPrimary,
    PausedStandby,
}

impl Fault {
    fn random(random: &mut Random) -> Self {
        match random.below(8) {
            0 => Self::None,
            1 => Self::Cut,
            2 => Self::Loss(Loss::Requests),
            3 => Self::Loss(Loss::Answers),
            4 => Self::Loss(Loss::Everything),
            5 => Self::Delay(Duration::from_millis(random.below(50))),
            6 => Self::PausedPrimary,
            _ => Self::PausedStandby,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::None => "undisturbed",
            Self::Cut => "cuts",
            Self::Loss(_) => "partitions",
            Self::Delay(_) => "slow connections",
            Self::PausedPrimary => "pauses of the primary",
            Self::PausedStandby => "pauses of the standby",
        }
    }

    fn begin(self, pair: &Pair) {
        match self {
            Self::None => {}
            Self::Cut => pair.link.cut(),
            Self::Loss(loss) => pair.link.lose(loss),
            Self::Delay(delay) => pair.link.delay(delay),
            Self::PausedPrimary => pair.primary.signal("STOP"),
            Self::PausedStandby => pair.standby.as_ref().unwrap().signal("STOP"),
        }
    }

    fn end(self, pair: &Pair) {
        match self {
            Self::None | Self::Cut => {}
            Self::Loss(_) | Self::Delay(_) => pair.link.cut(),
            Self::PausedPrimary => pair.primary.signal("CONT"),
            Self::PausedStandby => pair.standby.iter().for_each(|standby| standby.signal("CONT")),
        }
    }
}

/// The moment at which a fault ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heal {
    BeforePromotion,
    AfterPromotion,
    /// When both servers run.
    Late,
}

/// How the former primary hears of the promotion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tell {
    Promotion,
    RepeatedPromotion,
    /// The standby of the promoted server asks it for changes.
    Standby,
}

/// A primary and the standby that it waits for.
struct Pair {
    primary: Server,
    /// `None` after it has ended.
    standby: Option<Server>,
    link: Link,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Acknowledged(Instant),
    Refused,
    Unknown,
}

#[derive(Debug)]
struct Write {
    row: String,
    sent: Instant,
    outcome: Outcome,
}

/// Inserts entities until the end. `acknowledged` counts.
fn write(address: &str, path: &str, key: (u64, &str), is_over: &AtomicBool, acknowledged: &AtomicU64) -> Vec<Write> {
    let (partition, server) = key;
    let (mut writes, mut connection) = (Vec::new(), None);
    while !is_over.load(Ordering::SeqCst) && writes.len() < WRITES_MAX {
        let Some(mut client) = connection.take().or_else(|| Client::connect(address).ok()) else {
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        let row = format!("{server}{:04}", writes.len());
        let body = format!(r#"{{"PartitionKey":"{partition}","RowKey":"{row}"}}"#);
        let sent = Instant::now();
        let answer = client.try_request("POST", path, &[], body.as_bytes());
        let outcome = match answer.as_ref().map(|answer| answer.status) {
            Ok(201) => Outcome::Acknowledged(Instant::now()),
            Ok(403 | 503) => Outcome::Refused,
            Ok(500) | Err(_) => Outcome::Unknown,
            Ok(_) => panic!("{answer:?}"),
        };
        if answer.is_ok() {
            connection = Some(client);
        }
        writes.push(Write { row, sent, outcome });
        match outcome {
            Outcome::Acknowledged(_) => {
                acknowledged.fetch_add(1, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(1));
            }
            Outcome::Refused | Outcome::Unknown => thread::sleep(Duration::from_millis(10)),
        }
    }
    writes
}

/// The writers of one server.
struct Writers<'scope>(Vec<ScopedJoinHandle<'scope, Vec<Write>>>);

impl<'scope> Writers<'scope> {
    fn start<'env: 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        (server, address): (&'static str, &str),
        table: &'env str,
        (is_over, acknowledged): (&'env AtomicBool, &'env AtomicU64),
    ) -> Self {
        let start = |partition| {
            let (address, path) = (address.to_owned(), format!("/{table}"));
            scope.spawn(move || write(&address, &path, (partition, server), is_over, acknowledged))
        };
        Self((0..WRITERS).map(start).collect())
    }

    /// Returns the writes to each partition, after the end.
    fn join(self) -> Vec<Vec<Write>> {
        self.0.into_iter().map(|writer| writer.join().unwrap()).collect()
    }
}

fn pause(random: &mut Random, milliseconds_max: u64) {
    thread::sleep(Duration::from_millis(random.below(milliseconds_max + 1)));
}

/// Returns the rows of a server in a partition.
fn stored(server: &Server, table: &str, partition: usize, rows: &str) -> BTreeSet<String> {
    let filter =
        format!("PartitionKey%20eq%20'{partition}'%20and%20RowKey%20ge%20'{rows}'%20and%20RowKey%20lt%20'{rows}a'");
    let rows = server.client().query(&format!("/{table}()?$filter={filter}&$select=RowKey"), &[]).unwrap();
    rows.iter().map(|row| row["RowKey"].as_str().unwrap().to_owned()).collect()
}

/// Checks that the promoted server has what was acknowledged, and nothing that was refused or sent after `ended`.
fn check(stored: &BTreeSet<String>, writes: &[Write], ended: Option<Instant>) {
    for Write { row, sent, outcome } in writes {
        let is_late = ended.is_some_and(|ended| *sent >= ended);
        let is_stored = stored.contains(row);
        match outcome {
            Outcome::Acknowledged(_) => {
                assert!(!is_late, "both servers acknowledged writes: the former one {row}");
                assert!(is_stored, "{row} was acknowledged and lost");
            }
            Outcome::Refused => assert!(!is_stored, "{row} was refused and stored"),
            Outcome::Unknown => assert!(!is_stored || !is_late, "{row} was stored, but sent to the former primary"),
        }
    }
    assert!(stored.len() <= writes.len(), "the server has what was never sent");
}

#[derive(Default)]
struct Tally {
    faults: BTreeMap<&'static str, u64>,
    acknowledged_by_former: u64,
    acknowledged_by_promoted: u64,
    unknown: u64,
    /// The number of writes that the former primary acknowledged after the promoted one had acknowledged others. All
    /// were sent before the standby ended.
    delayed: u64,
    takeovers: Takeovers,
}

impl Tally {
    fn count(&mut self, former: &[Vec<Write>], promoted: &[Vec<Write>]) {
        let acknowledged = |writes: &[Vec<Write>]| -> Vec<Instant> {
            let time = |write: &Write| match write.outcome {
                Outcome::Acknowledged(time) => Some(time),
                Outcome::Refused | Outcome::Unknown => None,
            };
            writes.iter().flatten().filter_map(time).collect()
        };
        let (by_former, by_promoted) = (acknowledged(former), acknowledged(promoted));
        self.acknowledged_by_former += by_former.len() as u64;
        self.acknowledged_by_promoted += by_promoted.len() as u64;
        let unknown = |write: &&Write| write.outcome == Outcome::Unknown;
        self.unknown += former.iter().chain(promoted).flatten().filter(unknown).count() as u64;
        let first = by_promoted.iter().min().expect("the promoted server acknowledges writes");
        self.delayed += by_former.iter().filter(|time| *time > first).count() as u64;
    }
}

struct Takeover {
    place: Place,
    random: Random,
    tally: Tally,
}

impl Takeover {
    fn start_pair(&self, primary: Server, standby: &str) -> Pair {
        let mut link = Link::default();
        let address = link.listen(&primary.address);
        let standby = Some(start_standby(&self.place, standby, &address));
        Pair { primary, standby, link }
    }

    /// Creates the table of a round, and deletes the table of the previous one.
    fn begin(pair: &Pair, table: &str, round: u64) {
        let mut client = pair.primary.client();
        let created = format!(r#"{{"TableName":"{table}"}}"#);
        eventually("writes are acknowledged", || {
            let status = client.request("POST", "/Tables", &[], created.as_bytes()).status;
            matches!(status, 201 | 409).then_some(())
        });
        if let Some(previous) = round.checked_sub(1) {
            eventually("the previous table is deleted", || {
                let path = format!("/Tables('round{previous}')");
                matches!(client.request("DELETE", &path, &[], b"").status, 204 | 404).then_some(())
            });
        }
    }

    /// Disturbs a primary and its standby, promotes the standby, and returns it with a new standby.
    fn round(&mut self, mut pair: Pair, round: u64) -> Pair {
        let (former, next, after) = (round.to_string(), (round + 1).to_string(), (round + 2).to_string());
        let table = format!("round{round}");
        Self::begin(&pair, &table, round);
        let (is_over, counts) = (AtomicBool::new(false), [AtomicU64::new(0), AtomicU64::new(0)]);
        let fault = Fault::random(&mut self.random);
        *self.tally.faults.entry(fault.name()).or_default() += 1;
        let heal = [Heal::BeforePromotion, Heal::AfterPromotion, Heal::Late][self.random.index(3)];
        let mut tell = [Tell::Promotion, Tell::RepeatedPromotion, Tell::Standby][self.random.index(3)];
        if fault == Fault::PausedPrimary && heal != Heal::BeforePromotion && tell == Tell::Promotion {
            tell = Tell::RepeatedPromotion;
        }
        println!("round {round}: {fault:?}, {heal:?}, {tell:?}");
        thread::scope(|scope| {
            let _end = EndOnDrop(&is_over);
            let address = pair.primary.address.clone();
            let to_former = Writers::start(scope, ("former", &address), &table, (&is_over, &counts[0]));
            pause(&mut self.random, 80);
            fault.begin(&pair);
            pause(&mut self.random, 150);
            if heal == Heal::BeforePromotion {
                fault.end(&pair);
                pause(&mut self.random, 100);
            }
            let standby = pair.standby.take().unwrap();
            let is_paused = fault == Fault::PausedStandby && heal != Heal::BeforePromotion;
            if is_paused || self.random.below(2) == 0 {
                drop(standby.kill9());
            } else {
                standby.stop_cleanly();
            }
            let ended = Instant::now();
            let promoted = self.place.promote(&next, (tell == Tell::Promotion).then_some(&address));
            assert_eq!(promoted.code, Some(0), "{promoted:?}");
            if heal == Heal::AfterPromotion {
                fault.end(&pair);
            }

            let new_pair = self.start_pair(start_primary(&self.place, &next, WAIT), &after);
            let new_address = new_pair.primary.address.clone();
            let to_promoted = Writers::start(scope, ("promoted", &new_address), &table, (&is_over, &counts[1]));
            eventually("the promoted server acknowledges a write", || {
                (counts[1].load(Ordering::SeqCst) > 0).then_some(())
            });
            self.tally.takeovers.add(ended);
            pause(&mut self.random, 80);
            if heal == Heal::Late {
                fault.end(&pair);
                pause(&mut self.random, 80);
            }
            let new_pair = self.tell(tell, &pair.primary, new_pair, (&next, &after));
            pair.primary.wait_for_log("a standby was promoted, so nothing may be written to this server any more");
            let refused = pair.primary.client().request("DELETE", &format!("/Tables('{table}')"), &[], b"");
            assert_eq!(refused.status, 403, "{refused:?}");
            is_over.store(true, Ordering::SeqCst);
            let (to_former, to_promoted) = (to_former.join(), to_promoted.join());
            for (partition, (first, second)) in to_former.iter().zip(&to_promoted).enumerate() {
                check(&stored(&new_pair.primary, &table, partition, "former"), first, Some(ended));
                check(&stored(&new_pair.primary, &table, partition, "promoted"), second, None);
            }
            self.tally.count(&to_former, &to_promoted);
            self.end_former(pair.primary, &former, round + 2);
            new_pair
        })
    }

    /// Lets the former primary hear of the promotion.
    fn tell(&self, tell: Tell, former: &Server, mut pair: Pair, (promoted, standby): (&str, &str)) -> Pair {
        match tell {
            Tell::Promotion => {}
            Tell::RepeatedPromotion => {
                let told = self.place.promote(promoted, Some(&former.address));
                assert_eq!(told.code, Some(0), "{told:?}");
                assert!(told.stdout.contains("is promoted already"), "{told:?}");
            }
            Tell::Standby => {
                drop(pair.standby.take().unwrap().kill9());
                let lost = start_standby(&self.place, standby, &former.address);
                lost.wait_for_log("so it is not a primary any more");
                drop(lost.kill9());
                pair = self.start_pair(pair.primary, standby);
            }
        }
        pair
    }

    /// Stops the former primary, which never starts again.
    fn end_former(&mut self, former: Server, folder: &str, epoch: u64) {
        if self.random.below(2) == 0 {
            drop(former.kill9());
        } else {
            former.stop_cleanly();
        }
        let data = self.place.at(folder);
        let again = PROGRAM.folder().run("serve", &["--data", &data, "--listen", "127.0.0.1:0"], &[]);
        assert_eq!(again.code, Some(1), "{again:?}");
        assert!(again.stderr.contains(&format!("a standby was promoted in epoch {epoch}")), "{again:?}");
        std::fs::remove_dir_all(data).unwrap();
    }
}

#[test]
fn two_servers_never_both_acknowledge_writes() {
    let rounds = rounds(4);
    let mut run = Takeover { place: Place::new(), random: Random::from_environment(SEED), tally: Tally::default() };
    let mut pair = run.start_pair(start_primary(&run.place, "0", WAIT), "1");
    for round in 0..rounds {
        pair = run.round(pair, round);
    }
    let Tally { faults, acknowledged_by_former, acknowledged_by_promoted, unknown, delayed, takeovers } = run.tally;
    println!(
        "{rounds} rounds {faults:?}: former primaries acknowledged {acknowledged_by_former} writes, {delayed} of them \
         late, and promoted servers {acknowledged_by_promoted}; {unknown} were unknown"
    );
    takeovers.report();
}

/// The durations of takeovers, until the promoted server acknowledges a write.
#[derive(Default)]
struct Takeovers(Vec<Duration>);

impl Takeovers {
    fn add(&mut self, began: Instant) {
        self.0.push(began.elapsed());
    }

    fn report(mut self) {
        self.0.sort_unstable();
        let (Some(longest), Some(median)) = (self.0.last(), self.0.get(self.0.len() / 2)) else { return };
        println!("{} takeovers, {median:.1?} in the median, {longest:.1?} at most", self.0.len());
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_standbys_take_over() {
    let rounds = rounds(20);
    let (mut run, mut takeovers) = (super::Run::new(), Takeovers::default());
    let place = Place::new();
    let mut primary = start_primary(&place, "0", &[]);
    let mut killed = None;
    for round in 0..rounds {
        let (folder, next) = (place.at(&round.to_string()), (round + 1).to_string());
        let standby = start_standby(&place, &next, &primary.address);
        // The log of the standby begins after its copy, so the reader of the changes must have read something later.
        let created = format!(r#"{{"TableName":"round{round}"}}"#);
        assert_eq!(primary.client().request("POST", "/Tables", &[], created.as_bytes()).status, 201);
        if let Some(killed) = killed.take() {
            takeovers.add(killed);
        }
        let deleted = format!("/Tables('round{round}')");
        assert_eq!(primary.client().request("DELETE", &deleted, &[], b"").status, 204);
        run.check(&primary, round);
        killed = Some(run.run_and_crash(primary, 400));
        // It is killed too, in half of the rounds.
        if round % 2 == 0 {
            drop(standby.kill9());
        } else {
            standby.stop_cleanly();
        }
        let promoted = place.promote(&next, None);
        assert_eq!(promoted.code, Some(0), "{promoted:?}");
        if round % 4 == 0 {
            check_folder(place.at(&next).as_ref());
            // The check would count as a part of the takeover.
            killed = None;
        }
        std::fs::remove_dir_all(folder).unwrap();
        primary = start_primary(&place, &next, &[]);
    }
    let standby = start_standby(&place, "last", &primary.address);
    run.check(&primary, rounds);
    drop(standby);
    run.report(rounds);
    takeovers.report();
}
