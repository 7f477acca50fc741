//! The stamps of the memory engine: either one sequence, as in the other engines, or one sequence per account. With one
//! sequence per account, a test does not notice that a test in another account has set the clock.
//!
//! Invariant: every stamp of an account is later than all its previous stamps, even if the clock stands still or moves
//! backwards.

use model::{AccountName, DateTime};
use std::collections::HashMap;

#[derive(Debug, Clone)]
pub(super) struct MemoryStamps {
    /// The last stamp of each account that has one. `None` if all accounts share one sequence.
    by_account: Option<HashMap<AccountName, DateTime>>,
    /// The lower bound of all new stamps. With one sequence, this is the last stamp.
    floor: DateTime,
}

impl MemoryStamps {
    pub(super) fn one_sequence() -> Self {
        Self { by_account: None, floor: DateTime::MIN }
    }

    pub(super) fn by_account() -> Self {
        Self { by_account: Some(HashMap::new()), floor: DateTime::MIN }
    }

    /// Returns the next stamp of an account: the current time, or 100 ns after the account's last stamp if that is
    /// later.
    pub(super) fn propose(&self, account: &AccountName, now: DateTime) -> DateTime {
        now.max(self.last_of(account).next())
    }

    /// A refused transaction's stamp is proposed but never issued.
    pub(super) fn issue(&mut self, account: &AccountName, stamp: DateTime) {
        debug_assert!(stamp > self.last_of(account), "stamps increase");
        match &mut self.by_account {
            None => self.floor = stamp,
            Some(by_account) => drop(by_account.insert(account.clone(), stamp)),
        }
    }

    pub(super) fn last(&self) -> DateTime {
        self.by_account.iter().flat_map(HashMap::values).copied().fold(self.floor, DateTime::max)
    }

    pub(super) fn skip_to(&mut self, floor: DateTime) {
        self.floor = self.floor.max(floor);
    }

    pub(super) fn skip_past(&mut self, other: &Self) {
        self.skip_to(other.floor);
        let by_account = other.by_account.iter().flatten();
        match &mut self.by_account {
            None => self.skip_to(other.last()),
            Some(own) => by_account.for_each(|(account, stamp)| {
                let last = own.entry(account.clone()).or_insert(*stamp);
                *last = (*last).max(*stamp);
            }),
        }
    }

    pub(super) fn forget(&mut self, account: &AccountName) {
        if let Some(by_account) = &mut self.by_account {
            by_account.remove(account);
        }
    }

    fn last_of(&self, account: &AccountName) -> DateTime {
        let own = self.by_account.as_ref().and_then(|by_account| by_account.get(account));
        own.map_or(self.floor, |last| self.floor.max(*last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(stamps: &mut MemoryStamps, account: &str, now: i64) -> i64 {
        let account = AccountName::new(account).unwrap();
        let stamp = stamps.propose(&account, DateTime::from_ticks(now).unwrap());
        stamps.issue(&account, stamp);
        stamp.ticks()
    }

    #[test]
    fn one_sequence_grows_whatever_the_account() {
        let mut stamps = MemoryStamps::one_sequence();
        let given = [("one", 50), ("one", 7), ("other", 8)].map(|(account, now)| next(&mut stamps, account, now));
        assert_eq!((given, stamps.last().ticks()), ([50, 51, 52], 52));
    }

    #[test]
    fn the_stamps_of_an_account_grow_by_themselves() {
        let mut stamps = MemoryStamps::by_account();
        let given = [("one", 50), ("one", 50), ("one", 7), ("other", 8)];
        assert_eq!(given.map(|(account, now)| next(&mut stamps, account, now)), [50, 51, 52, 8]);
        assert_eq!(stamps.last().ticks(), 52);
        stamps.skip_to(DateTime::from_ticks(90).unwrap());
        assert_eq!([next(&mut stamps, "one", 60), next(&mut stamps, "other", 95)], [91, 95]);
        let mut kept = stamps.clone();
        stamps.forget(&AccountName::new("other").unwrap());
        assert_eq!(next(&mut stamps, "other", 1), 91);
        next(&mut kept, "one", 40);
        kept.skip_past(&stamps);
        stamps.skip_past(&kept);
        for stamps in [&mut stamps, &mut kept] {
            assert_eq!([next(stamps, "one", 1), next(stamps, "other", 1), next(stamps, "third", 1)], [93, 96, 91]);
        }
    }
}
