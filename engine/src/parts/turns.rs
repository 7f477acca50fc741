//! Turns of tables that share a worker, such as the thread that builds indexes.
//!
//! Accounts take turns, and so do the tables of an account. The worker divides the work on a table into short steps,
//! and makes one step a turn. How long a table waits therefore depends on the number of the others, not on their size.
//!
//! Invariants:
//!
//! 1. Between two turns of an account, every other account has at most one turn.
//! 2. Between two turns of a table, every other table of its account has at most one turn.
//! 3. Work that is added waits for all accounts and all tables that wait already, so new work delays none forever.

use std::collections::{BTreeMap, VecDeque};

/// The work that waits for a worker, by account and table.
#[derive(Debug)]
pub struct Turns<A, T, W> {
    /// The accounts with waiting work, the next one first.
    order: VecDeque<A>,
    /// The tables of each of these accounts, the next one first.
    tables: BTreeMap<A, VecDeque<(T, W)>>,
}

impl<A, T, W> Default for Turns<A, T, W> {
    fn default() -> Self {
        Self { order: VecDeque::new(), tables: BTreeMap::new() }
    }
}

impl<A: Ord + Clone, T: Ord + Clone, W> Turns<A, T, W> {
    /// Replaces the list of tables that need work. Tables that were listed before keep their work and their turn.
    pub fn update(&mut self, listed: impl IntoIterator<Item = (A, T, W)>) {
        let mut added: BTreeMap<(A, T), W> =
            listed.into_iter().map(|(account, table, work)| ((account, table), work)).collect();
        for (account, tables) in &mut self.tables {
            tables.retain(|(table, _)| added.remove(&(account.clone(), table.clone())).is_some());
        }
        self.tables.retain(|_, tables| !tables.is_empty());
        self.order.retain(|account| self.tables.contains_key(account));
        for ((account, table), work) in added {
            self.put_back(account, table, work);
        }
    }

    /// Takes the work whose turn it is. If the step does not finish the work, the caller puts it back.
    pub fn take(&mut self) -> Option<(A, T, W)> {
        let account = self.order.pop_front()?;
        let tables = self.tables.get_mut(&account)?;
        let (table, work) = tables.pop_front()?;
        if tables.is_empty() {
            self.tables.remove(&account);
        } else {
            self.order.push_back(account.clone());
        }
        Some((account, table, work))
    }

    /// Lets work wait for its next turn.
    pub fn put_back(&mut self, account: A, table: T, work: W) {
        if !self.tables.contains_key(&account) {
            self.order.push_back(account.clone());
        }
        self.tables.entry(account).or_default().push_back((table, work));
    }

    /// Returns whether no work waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes turns until a number of turns is reached, with work that never ends, except for the given table's.
    fn turns(turns: &mut Turns<char, u32, u32>, count: usize, ends: &str) -> String {
        let mut taken = Vec::new();
        for _ in 0..count {
            let Some((account, table, work)) = turns.take() else { break };
            let name = format!("{account}{table}");
            if name != ends {
                turns.put_back(account, table, work + 1);
            }
            taken.push(name);
        }
        taken.join(" ")
    }

    #[test]
    fn accounts_take_turns_and_so_do_their_tables() {
        let mut waiting = Turns::default();
        waiting.update([('a', 1, 0), ('a', 2, 0), ('a', 3, 0), ('b', 1, 0), ('c', 1, 0)]);
        assert_eq!(turns(&mut waiting, 9, ""), "a1 b1 c1 a2 b1 c1 a3 b1 c1");
        assert_eq!(turns(&mut waiting, 6, "b1"), "a1 b1 c1 a2 c1 a3");
    }

    #[test]
    fn a_new_list_keeps_the_work_and_the_turns_of_the_tables_that_are_still_listed() {
        let mut waiting = Turns::default();
        waiting.update([('a', 1, 0), ('b', 1, 0), ('c', 1, 0), ('c', 2, 0)]);
        assert_eq!(turns(&mut waiting, 2, ""), "a1 b1");
        // New tables come last, although their names come first.
        waiting.update([('A', 1, 0), ('a', 0, 0), ('a', 1, 0), ('c', 2, 0)]);
        assert_eq!(waiting.tables[&'a'], [(1, 1), (0, 0)]);
        assert_eq!(turns(&mut waiting, 5, "c2"), "c2 a1 A1 a0 A1");
        waiting.update([]);
        assert!(waiting.is_empty() && waiting.take().is_none());
    }
}
