mod histories;
mod upkeep;

use super::{Key, Merge, Range, Snapshot, Tree, TreeError, TreeSettings, Value};
use crate::sequence::Sequence;
use std::collections::BTreeMap;

const SETTINGS: TreeSettings = TreeSettings { cache_bytes: 4 * 1024 * 1024 };

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;
type Items = Vec<(Vec<u8>, Option<Vec<u8>>)>;

fn apply(tree: &Tree, sequence: Sequence, items: &Items) {
    let item =
        |(key, value): &(Vec<u8>, Option<Vec<u8>>)| (Key::from(key.as_slice()), value.as_deref().map(Value::from));
    tree.apply(sequence, items.iter().map(item));
}

fn put(tree: &Tree, sequence: u64, key: &str, value: &str) {
    apply(tree, Sequence::new(sequence), &vec![(key.into(), Some(value.into()))]);
    tree.publish(Sequence::new(sequence));
}

fn delete(tree: &Tree, sequence: u64, key: &str) {
    apply(tree, Sequence::new(sequence), &vec![(key.into(), None)]);
    tree.publish(Sequence::new(sequence));
}

fn contents(snapshot: &Snapshot) -> Contents {
    collect(snapshot.range::<Vec<u8>>(..))
}

fn collect(range: Range) -> Contents {
    range.map(|item| item.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

fn text(value: Option<Value>) -> Option<String> {
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

#[test]
fn a_tree_is_neither_created_over_another_one_nor_opened_if_it_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Tree::open(folder.path(), SETTINGS), Err(TreeError::Missing(_))));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    drop(Tree::create(folder.path(), SETTINGS).unwrap());
    let error = Tree::create(folder.path(), SETTINGS).err().unwrap();
    assert!(matches!(error, TreeError::Exists(_)) && error.to_string().contains("already contains a tree"));
    assert_eq!(Tree::open(folder.path(), SETTINGS).unwrap().persisted(), Sequence::ZERO);
}

/// The items of the last transactions are dropped by a merge. Without the mark of the flush, the transactions would
/// seem to be missing.
#[test]
fn the_persisted_sequence_is_known_after_its_items_are_gone() {
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::create(folder.path(), SETTINGS).unwrap();
    put(&tree, 1, "a", "1");
    delete(&tree, 2, "a");
    delete(&tree, 3, "b");
    assert!(tree.rotate() && tree.flush().unwrap());
    assert_eq!(tree.persisted(), Sequence::new(3));
    tree.merge(Merge::Uppermost).unwrap();
    tree.merge(Merge::RewriteLowest).unwrap();
    assert_eq!(tree.shape().levels.iter().map(|level| level.entries).sum::<u64>(), 1, "only the mark is left");
    assert!(contents(&tree.snapshot()).is_empty());
    drop(tree);
    assert_eq!(Tree::open(folder.path(), SETTINGS).unwrap().persisted(), Sequence::new(3));
}

#[test]
fn what_was_not_flushed_is_applied_again() {
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::create(folder.path(), SETTINGS).unwrap();
    put(&tree, 1, "a", "1");
    assert!(tree.rotate());
    put(&tree, 2, "a", "2");
    assert_eq!(tree.persisted(), Sequence::ZERO, "the memtable is sealed, but not flushed");
    assert!(tree.flush().unwrap() && !tree.flush().unwrap());
    assert_eq!(tree.persisted(), Sequence::new(1));
    drop(tree);
    let tree = Tree::open(folder.path(), SETTINGS).unwrap();
    assert_eq!(tree.persisted(), Sequence::new(1));
    assert_eq!(text(tree.snapshot().get(b"a").unwrap()).unwrap(), "1");
    put(&tree, 2, "a", "2");
    assert_eq!(text(tree.snapshot().get(b"a").unwrap()).unwrap(), "2");
}
