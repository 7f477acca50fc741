use super::*;
use crate::tree::Merge;
use std::path::Path;
use test_support::Random;

const KEYS: usize = 60;
const STEPS: usize = 60;

/// The tree, and what it must contain.
struct Model {
    tree: Tree,
    /// The transactions that a log would contain, in order.
    log: Vec<(Sequence, Items)>,
    applied: Contents,
    published: Contents,
    last: Sequence,
    open: Vec<(Snapshot, Contents)>,
}

impl Model {
    fn apply(&mut self, random: &mut Random) {
        // Sequences need not be consecutive.
        self.last = if random.below(8) == 0 { self.last.next().next() } else { self.last.next() };
        let mut items = BTreeMap::new();
        for _ in 0..random.below(12) {
            let key = format!("key {:03}", random.index(KEYS)).into_bytes();
            let value = (random.below(3) != 0).then(|| format!("{}", random.below(1000)).into_bytes());
            items.insert(key, value);
        }
        for (key, value) in &items {
            match value {
                Some(value) => drop(self.applied.insert(key.clone(), value.clone())),
                None => drop(self.applied.remove(key)),
            }
        }
        let items = items.into_iter().collect();
        apply(&self.tree, self.last, &items);
        self.log.push((self.last, items));
    }

    fn publish(&mut self) {
        self.tree.publish(self.last);
        self.published.clone_from(&self.applied);
    }

    /// Opens the tree again, and applies what a log would apply.
    fn reopen(&mut self, path: &Path) {
        self.open.clear();
        let old = self.tree.persisted();
        let replacement = tempfile::tempdir().unwrap();
        self.tree = Tree::create(replacement.path(), SETTINGS).unwrap();
        self.tree = Tree::open(path, SETTINGS).unwrap();
        assert_eq!((self.tree.persisted(), self.tree.published()), (old, old));
        for (sequence, items) in self.log.iter().filter(|(sequence, _)| *sequence > old) {
            apply(&self.tree, *sequence, items);
        }
        self.publish();
    }

    fn change_files(&mut self, random: &mut Random) {
        let tree = &self.tree;
        let fullest = tree.shape().levels.iter().skip(1).rposition(|level| level.entries > 0);
        match random.below(8) {
            0 => drop(tree.release().unwrap()),
            1 | 2 => drop(tree.flush().unwrap()),
            3 => drop(tree.merge(Merge::Uppermost).unwrap()),
            4 => drop(tree.merge(Merge::Files).unwrap()),
            5 => drop(tree.merge(Merge::Overfull).unwrap()),
            6 => drop(tree.merge(Merge::RewriteLowest).unwrap()),
            _ => {
                // Index 0 stands for level 1.
                if let Some(index) = fullest.filter(|index| *index < 5) {
                    tree.merge(Merge::Level(u8::try_from(index).unwrap() + 1)).unwrap();
                }
            }
        }
    }

    fn check(&self, random: &mut Random) {
        let now = self.tree.snapshot();
        let shown = [(&now, &self.published)];
        for (snapshot, expected) in self.open.iter().map(|(snapshot, expected)| (snapshot, expected)).chain(shown) {
            assert_eq!(&contents(snapshot), expected, "{:?}", snapshot.sequence());
            let backwards = snapshot.range::<Vec<u8>>(..).rev().map(|item| item.unwrap().0.to_vec());
            assert!(backwards.eq(expected.keys().rev().cloned()));
            let key = format!("key {:03}", random.index(KEYS)).into_bytes();
            assert_eq!(snapshot.get(&key).unwrap().as_deref(), expected.get(&key).map(Vec::as_slice));
            let from = snapshot.range(key.clone()..).map(|item| item.unwrap().0.to_vec());
            assert!(from.eq(expected.range(key..).map(|(key, _)| key.clone())));
        }
        let key = format!("key {:03}", random.index(KEYS)).into_bytes();
        assert_eq!(self.tree.latest(&key).unwrap().as_deref(), self.applied.get(&key).map(Vec::as_slice));
        let persisted = self.tree.persisted();
        assert!(persisted <= self.tree.published() && self.tree.published() <= self.last);
        let state = self.tree.state();
        let distinct =
            self.open.iter().map(|(snapshot, _)| snapshot.sequence()).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(state.open_snapshots, self.open.len() as u64 + 1);
        assert!(state.retained_lists <= distinct.len() as u64 + 3, "{state:?}, {} snapshots", distinct.len());
    }

    fn step(&mut self, random: &mut Random, path: &Path) {
        for _ in 0..random.below(4) {
            self.apply(random);
            if random.below(3) == 0 {
                // A flush or a merge reveals nothing that is not published.
                self.change_files(random);
                self.check(random);
            }
        }
        self.publish();
        match random.below(10) {
            0 | 1 => drop(self.tree.rotate()),
            2 => {
                self.tree.rotate();
                self.tree.flush().unwrap();
                assert!(self.tree.persisted() >= self.last_with_items());
            }
            3 => self.reopen(path),
            _ => self.change_files(random),
        }
        if random.below(3) == 0 {
            self.open.push((self.tree.snapshot(), self.published.clone()));
        }
        self.check(random);
        if random.below(4) == 0 && !self.open.is_empty() {
            self.open.swap_remove(random.index(self.open.len()));
        }
    }

    /// If the last transactions have no items, the active memtable may be empty, and a flush does not cover them.
    fn last_with_items(&self) -> Sequence {
        let last = self.log.iter().rev().find(|(_, items)| !items.is_empty());
        last.map_or(Sequence::ZERO, |(sequence, _)| *sequence)
    }
}

/// Snapshots stay open across rotations, flushes, merges and releases.
#[test]
fn random_operations_change_nothing_that_a_snapshot_shows() {
    let mut random = Random::from_environment("ROWHOUSE_TREE_SEED");
    let rounds = test_support::setting("ROWHOUSE_TREE_ROUNDS").unwrap_or(3);
    for _ in 0..rounds {
        let folder = tempfile::tempdir().unwrap();
        let mut model = Model {
            tree: Tree::create(folder.path(), SETTINGS).unwrap(),
            log: Vec::new(),
            applied: Contents::new(),
            published: Contents::new(),
            last: Sequence::ZERO,
            open: Vec::new(),
        };
        for _ in 0..STEPS {
            model.step(&mut random, folder.path());
        }
        model.reopen(folder.path());
        model.check(&mut random);
    }
}
