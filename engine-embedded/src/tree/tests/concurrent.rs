use super::*;
use crate::tree::Merge;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use test_support::{EndOnDrop, Random};

const PARTITIONS: u64 = 3;
const KEYS: u64 = 40;

/// Each transaction writes its sequence to all keys of a partition, or deletes them.
fn transaction(sequence: u64) -> Items {
    let partition = sequence % PARTITIONS;
    let value = (!sequence.is_multiple_of(7)).then(|| sequence.to_be_bytes().to_vec());
    (0..KEYS).map(|key| (format!("{partition} {key:03}").into_bytes(), value.clone())).collect()
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
    for key in [0, KEYS / 2, KEYS - 1] {
        let key = format!("{partition} {key:03}").into_bytes();
        assert_eq!(snapshot.get(&key).unwrap().as_deref(), expected.get(&key).map(Vec::as_slice));
    }
}

fn read(tree: &Tree, seed: u64, is_over: &AtomicBool) -> u64 {
    let mut random = Random::new(seed);
    let mut kept = tree.snapshot();
    let mut reads = 0;
    while !is_over.load(Ordering::SeqCst) {
        let snapshot = tree.snapshot();
        for partition in 0..PARTITIONS {
            check_partition(&snapshot, partition);
        }
        check_partition(&kept, random.below(PARTITIONS));
        if random.below(20) == 0 {
            kept = snapshot;
        }
        reads += 1;
    }
    reads
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
            scope.spawn(move || reads.fetch_add(read(tree, seed + reader, is_over), Ordering::SeqCst));
        }
        let _end = EndOnDrop(is_over);
        let mut random = Random::new(seed);
        let mut sequence = 0;
        while sequence < TRANSACTIONS {
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
