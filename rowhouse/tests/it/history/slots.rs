//! Servers whose slot for Timestamps expires while they are paused.

use super::faults::{Faults, State, Subject};
use std::thread;
use std::time::Duration;
use test_support::eventually;

/// Holders of slots that are no servers.
pub(super) const IN_USE: i64 = -1;
pub(super) const EXPIRED: i64 = -2;
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
