//! Faults of several servers that share a database: they are killed, paused and cut off, their clocks jump, and their
//! slots for Timestamps expire while they are paused. Faults of the database are added by the test.

use super::Tally;
use super::clock::{Clocks, ShiftedClock};
use super::http_client::Target;
use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};
use test_support::proxy::{Link, Loss};
use test_support::{Random, Server, eventually};

const CONNECTIONS: &str = "6";
/// The maximum duration of a fault.
const FAULT_MILLISECONDS_MAX: u64 = 2000;
/// The maximum pause between the beginnings of two faults.
const PAUSE_MILLISECONDS_MAX: u64 = 500;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Healthy,
    Dead,
    Paused,
    CutOff,
}

pub(super) struct Member {
    server: Option<Server>,
    link: Link,
    /// The address of the database through the link.
    url: String,
    pub(super) state: State,
    /// The number that identifies the server as the holder of its slot. Each start has another one.
    pub(super) holder: String,
}

pub(super) enum Subject<'a> {
    Member(usize),
    /// What ends a fault of the database.
    Database(Box<dyn FnOnce() + Send + 'a>),
}

/// Injects faults into servers, at random times.
pub(super) struct Faults<'a> {
    pub(super) tally: Tally,
    pub(super) random: &'a mut Random,
    pub(super) targets: &'a [Target],
    clocks: &'a Clocks,
    options: &'a [&'a str],
    pub(super) members: Vec<Member>,
    /// The faults that have begun, and when they end.
    active: Vec<(Instant, Subject<'a>)>,
    /// Executes a statement on the database.
    pub(super) sql: Box<dyn Fn(&str) -> String + 'a>,
    holders: HashSet<String>,
}

/// Returns a target for each of several servers whose clocks jump.
pub(super) fn targets(clocks: &Clocks, round: u64, count: usize) -> Vec<Target> {
    (0..count).map(|index| Target::new(Some(clocks.clock(&format!("{round}-{index}"))))).collect()
}

/// Starts a proxy for each host in the URL of a database. Returns the URL with the proxies.
fn linked(url: &str) -> (Link, String) {
    let mut link = Link::default();
    let (user, rest) = url.split_once('@').unwrap();
    let (hosts, database) = rest.split_once('/').unwrap();
    let proxies: Vec<_> = hosts.split(',').map(|host| link.listen(host)).collect();
    (link, format!("{user}@{}/{database}", proxies.join(",")))
}

impl<'a> Faults<'a> {
    /// Starts a server for each target.
    pub(super) fn new(
        url: &str,
        options: &'a [&'a str],
        targets: &'a [Target],
        clocks: &'a Clocks,
        random: &'a mut Random,
        sql: impl Fn(&str) -> String + 'a,
    ) -> Self {
        let member = |_: &Target| {
            let (link, url) = linked(url);
            Member { server: None, link, url, state: State::Dead, holder: String::new() }
        };
        let members = targets.iter().map(member).collect();
        let (active, sql, holders) = (Vec::new(), Box::new(sql), HashSet::new());
        let tally = Tally::default();
        let mut faults = Self { tally, random, targets, clocks, options, members, active, sql, holders };
        for index in 0..targets.len() {
            faults.start(index);
        }
        faults
    }

    /// Opens a connection to the first server.
    pub(super) fn client(&self) -> test_support::Client {
        self.members[0].server.as_ref().unwrap().client()
    }

    fn clock(&self, index: usize) -> &'a ShiftedClock {
        self.targets[index].clock.as_ref().unwrap()
    }

    /// Starts a server. The database must accept writes.
    pub(super) fn start(&mut self, index: usize) {
        let member = &mut self.members[index];
        let arguments = [&["--store", &member.url, "--store-connections", CONNECTIONS], self.options].concat();
        let server = self.clocks.start(self.targets[index].clock.as_ref().unwrap(), &arguments);
        self.targets[index].address.write().unwrap().clone_from(&server.address);
        (member.server, member.state) = (Some(server), State::Healthy);
        let holders = (self.sql)(&format!(
            "SELECT holder FROM rowhouse_leases WHERE number < 64 AND holder NOT IN ({IN_USE}, {EXPIRED})"
        ));
        let new = holders.lines().find(|holder| !self.holders.contains(*holder)).expect("a started server has a slot");
        new.clone_into(&mut member.holder);
        self.holders.extend(holders.lines().map(str::to_owned));
    }

    pub(super) fn kill(&mut self, index: usize) {
        let member = &mut self.members[index];
        let log = member.server.take().unwrap().kill9();
        assert!(!log.iter().any(|line| line.contains("panicked")), "{log:?}");
        member.state = State::Dead;
    }

    pub(super) fn signal(&self, index: usize, name: &str) {
        self.members[index].server.as_ref().unwrap().signal(name);
    }

    pub(super) fn healthy(&mut self) -> Option<usize> {
        let healthy: Vec<_> = (0..self.members.len()).filter(|at| self.members[*at].state == State::Healthy).collect();
        (!healthy.is_empty()).then(|| healthy[self.random.index(healthy.len())])
    }

    pub(super) fn end_later(&mut self, subject: Subject<'a>) {
        let end = Instant::now() + Duration::from_millis(self.random.below(FAULT_MILLISECONDS_MAX));
        self.active.push((end, subject));
    }

    /// Counts a fault of the database, and ends it after a random time.
    pub(super) fn database(&mut self, name: &'static str, end: impl FnOnce() + Send + 'a) {
        self.tally.count(name);
        self.end_later(Subject::Database(Box::new(end)));
    }

    /// Lets the clock of a database node jump.
    pub(super) fn shift_database(&mut self, clocks: &[ShiftedClock]) {
        self.tally.count("clock jumps of the database");
        clocks[self.random.index(clocks.len())].jump(self.random);
    }

    pub(super) fn is_database_healthy(&self) -> bool {
        !self.active.iter().any(|(_, subject)| matches!(subject, Subject::Database(_)))
    }

    /// Lets some time pass, in which faults end.
    pub(super) fn pass_time(&mut self) {
        let until = Instant::now() + Duration::from_millis(self.random.below(PAUSE_MILLISECONDS_MAX));
        while Instant::now() < until {
            while let Some(due) = self.active.iter().position(|(end, _)| *end <= Instant::now()) {
                let (_, subject) = self.active.swap_remove(due);
                self.end(subject);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(&mut self, subject: Subject<'a>) {
        match subject {
            Subject::Database(end) => end(),
            Subject::Member(index) => match self.members[index].state {
                State::Healthy => {}
                State::Dead => {
                    self.heal_database();
                    self.start(index);
                }
                State::Paused => {
                    self.signal(index, "CONT");
                    self.members[index].state = State::Healthy;
                }
                State::CutOff => {
                    self.members[index].link.cut();
                    self.members[index].state = State::Healthy;
                }
            },
        }
    }

    /// Ends the faults of the database.
    pub(super) fn heal_database(&mut self) {
        let is_of_database = |(_, subject): &(Instant, Subject<'_>)| matches!(subject, Subject::Database(_));
        let (database, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.active).into_iter().partition(is_of_database);
        self.active = others;
        for (_, subject) in database {
            self.end(subject);
        }
    }

    /// Ends all faults. The clocks remain wrong.
    pub(super) fn heal(&mut self) {
        self.heal_database();
        for (_, subject) in std::mem::take(&mut self.active) {
            self.end(subject);
        }
    }

    /// Begins a random fault of a server.
    pub(super) fn harm_server(&mut self) {
        let Some(index) = self.healthy() else { return };
        match self.random.below(12) {
            0..2 => {
                self.tally.count("kills");
                self.kill(index);
                self.end_later(Subject::Member(index));
            }
            2..4 => {
                self.tally.count("pauses");
                self.pause(index);
                self.end_later(Subject::Member(index));
            }
            4..7 => {
                self.tally.count("clock jumps");
                self.clock(index).jump(self.random);
            }
            7..10 => {
                self.tally.count("cuts");
                self.cut(index);
            }
            _ => self.expire_slot(index),
        }
    }

    pub(super) fn pause(&mut self, index: usize) {
        self.signal(index, "STOP");
        self.members[index].state = State::Paused;
    }

    /// Loses the answers or the statements in flight, and then closes the connections.
    fn cut(&mut self, index: usize) {
        let loss = [Loss::Nothing, Loss::Answers, Loss::Answers, Loss::Requests][self.random.index(4)];
        self.members[index].link.lose(loss);
        self.members[index].state = State::CutOff;
        let end = Instant::now() + Duration::from_millis(self.random.below(200));
        self.active.push((end, Subject::Member(index)));
    }

    /// Stops the servers, none of which may have panicked.
    pub(super) fn stop(mut self) -> Tally {
        self.heal();
        for member in &mut self.members {
            member.server.take().unwrap().stop_cleanly();
        }
        self.tally
    }
}

/// Holders of slots that are no servers.
const IN_USE: i64 = -1;
const EXPIRED: i64 = -2;
/// The lease of a slot, with a margin (`statements::TAKE_LEASE`).
const LEASE: Duration = Duration::from_secs(33);

impl Faults<'_> {
    /// Pauses a server until another server has taken over its slot. When it continues, it still sends the writes for
    /// which it had reserved Timestamps. Instead of waiting for half a minute, the test makes the lease look like that
    /// of an earlier holder. A renewal that is still in flight then has no effect.
    pub(super) fn expire_slot(&mut self, paused: usize) {
        self.take_over_slot(paused, |faults, holder| {
            (faults.sql)(&format!(
                "UPDATE rowhouse_leases SET holder = {EXPIRED}, renewed = timestamptz '2000-01-01'
                 WHERE number < 64 AND holder = {holder}"
            ));
        });
    }

    /// Like [`Self::expire_slot`], but waits until the lease expires.
    pub(super) fn let_slot_expire(&mut self) {
        self.heal();
        let paused = self.healthy().expect("all faults have ended");
        let renewed = format!(
            "SELECT count(*) FROM rowhouse_leases WHERE number < 64 AND holder = {}
             AND renewed BETWEEN now() - interval '10 seconds' AND now()",
            self.members[paused].holder
        );
        // The lease may have been renewed before the database's clock jumped.
        eventually("a renewal of the lease", || ((self.sql)(&renewed).trim() != "0").then_some(()));
        self.tally.count("expired slots, after a wait");
        self.take_over_slot(paused, |_, _| thread::sleep(LEASE));
    }

    fn take_over_slot(&mut self, paused: usize, expire: impl FnOnce(&mut Self, &str)) {
        let others: Vec<_> = (0..self.members.len())
            .filter(|other| *other != paused && self.members[*other].state == State::Healthy)
            .collect();
        if others.is_empty() {
            return;
        }
        let other = others[self.random.index(others.len())];
        self.heal_database();
        self.pause(paused);
        self.end_later(Subject::Member(paused));
        let holder = self.members[paused].holder.clone();
        expire(self, &holder);
        let abandoned = format!("number < 64 AND holder IN ({holder}, {EXPIRED})");
        let count = (self.sql)(&format!("SELECT count(*) FROM rowhouse_leases WHERE {abandoned}"));
        if count.trim() == "0" {
            // The server was about to take a slot.
            return;
        }
        // All other slots are in use, whatever the clocks of the database nodes show, and no other server takes one, so
        // that a starting server takes this one.
        let bystanders: Vec<_> = (0..self.members.len())
            .filter(|at| *at != other && matches!(self.members[*at].state, State::Healthy | State::CutOff))
            .collect();
        for at in &bystanders {
            self.signal(*at, "STOP");
        }
        (self.sql)(&format!(
            "UPDATE rowhouse_leases SET renewed = 'infinity'
             WHERE number < 64 AND (holder IS NULL OR holder NOT IN ({holder}, {EXPIRED}))"
        ));
        (self.sql)(&format!("UPDATE rowhouse_leases SET holder = {IN_USE} WHERE number < 64 AND holder IS NULL"));
        self.kill(other);
        self.start(other);
        let left = (self.sql)(&format!("SELECT count(*) FROM rowhouse_leases WHERE {abandoned}"));
        assert!(left != count, "the slot must have a new holder");
        (self.sql)("UPDATE rowhouse_leases SET renewed = now() WHERE number < 64 AND renewed = 'infinity'");
        (self.sql)(&format!("UPDATE rowhouse_leases SET holder = NULL WHERE holder IN ({IN_USE}, {EXPIRED})"));
        for at in &bystanders {
            self.signal(*at, "CONT");
        }
        self.tally.count("expired slots");
    }
}
