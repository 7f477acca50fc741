mod concurrent;
mod folders;
mod histories;
mod upkeep;

use super::{Key, Range, Snapshot, Tree, TreeSettings, Value};
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
