use super::*;
use crate::tree::Merge;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use test_support::{EndOnDrop, Random};

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
        let open = self.open.len() as u64;
        assert_eq!(state.open_snapshots, open + 1);
        // Sealing a memtable replaces a list without releasing it.
        assert!(state.retained_lists <= open + state.sealed_memtables + 3, "{state:?}");
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

const PARTITIONS: u64 = 3;
const CONCURRENT_KEYS: u64 = 40;

/// Each transaction writes its sequence to all keys of a partition, or deletes them.
fn transaction(sequence: u64) -> Items {
    let partition = sequence % PARTITIONS;
    let value = (!sequence.is_multiple_of(7)).then(|| sequence.to_be_bytes().to_vec());
    (0..CONCURRENT_KEYS).map(|key| (format!("{partition} {key:03}").into_bytes(), value.clone())).collect()
}

fn check_partition(snapshot: &Snapshot, partition: u64) {
    let sequence = snapshot.sequence().get();
    let Some(last) =
        (0..PARTITIONS).filter_map(|back| sequence.checked_sub(back)).find(|s| s % PARTITIONS == partition)
    else {
        return;
    };
    let expected = if last == 0 { Items::new() } else { transaction(last) };
    let expected: Contents = expected.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    let prefix = |character: char| format!("{partition}{character}").into_bytes();
    let shown = snapshot.range(prefix(' ')..prefix('!'));
    let shown = collect(shown);
    assert_eq!(shown, expected, "partition {partition} at {sequence}");
    for key in [0, CONCURRENT_KEYS / 2, CONCURRENT_KEYS - 1] {
        let key = format!("{partition} {key:03}").into_bytes();
        assert_eq!(snapshot.get(&key).unwrap().as_deref(), expected.get(&key).map(Vec::as_slice));
    }
}

fn read(tree: &Tree, seed: u64, is_over: &AtomicBool, reads: &AtomicU64) {
    let mut random = Random::new(seed);
    let mut kept = tree.snapshot();
    while !is_over.load(Ordering::SeqCst) {
        let snapshot = tree.snapshot();
        for partition in 0..PARTITIONS {
            check_partition(&snapshot, partition);
        }
        check_partition(&kept, random.below(PARTITIONS));
        if random.below(20) == 0 {
            kept = snapshot;
        }
        reads.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn every_snapshot_shows_whole_transactions() {
    const TRANSACTIONS: u64 = 20_000;
    let seed = Random::from_environment("ROWHOUSE_TREE_SEED").number();
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::create(folder.path(), SETTINGS).unwrap();
    let is_over = AtomicBool::new(false);
    let [flushes, merges, reads] = [const { AtomicU64::new(0) }; 3];
    let run_until_over = |count: &AtomicU64, mut work: Box<dyn FnMut() -> bool + Send>| {
        while !is_over.load(Ordering::SeqCst) {
            count.fetch_add(u64::from(work()), Ordering::SeqCst);
        }
    };
    std::thread::scope(|scope| {
        let tree = &tree;
        let (is_over, flushes, merges, reads) = (&is_over, &flushes, &merges, &reads);
        let flusher = tree.clone();
        scope.spawn(move || run_until_over(flushes, Box::new(move || flusher.rotate() && flusher.flush().unwrap())));
        let merger = tree.clone();
        let mut work = [Merge::Uppermost, Merge::Overfull, Merge::RewriteLowest, Merge::Files].into_iter().cycle();
        scope.spawn(move || {
            run_until_over(
                merges,
                Box::new(move || {
                    merger.release().unwrap();
                    merger.merge(work.next().unwrap()).unwrap().has_changed
                }),
            );
        });
        for reader in 0..2 {
            scope.spawn(move || read(tree, seed + reader, is_over, reads));
        }
        let _end = EndOnDrop(is_over);
        let mut random = Random::new(seed);
        let mut sequence = 0;
        // The other threads may hardly run on a busy machine.
        let have_run = || [flushes, merges, reads].iter().all(|count| count.load(Ordering::SeqCst) > 0);
        while sequence < TRANSACTIONS || (!have_run() && sequence < 10 * TRANSACTIONS) {
            // A group is published at once.
            for _ in 0..=random.below(4) {
                sequence += 1;
                apply(tree, Sequence::new(sequence), &transaction(sequence));
            }
            tree.publish(Sequence::new(sequence));
            assert!(tree.wait_for_room());
        }
    });
    for count in [&flushes, &merges, &reads] {
        assert!(count.load(Ordering::SeqCst) > 0);
    }
    let shown = contents(&tree.snapshot());
    tree.rotate();
    tree.flush().unwrap();
    drop(tree);
    let tree = Tree::open(folder.path(), SETTINGS).unwrap();
    assert!(tree.persisted().get() >= TRANSACTIONS && contents(&tree.snapshot()) == shown);
}
