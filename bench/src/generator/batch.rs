//! Batches of inserts that are built once and reused with different keys.
//!
//! To build 100 entities, the generator needs a seventh of the time that the server needs to store them. During that
//! time, the server would wait or share its processor. Every connection therefore builds several bodies once, mostly in
//! the unmeasured phase, and then changes only their keys. Repetitions of an entity are much further apart than the
//! size of a storage library's block, so they do not improve compression.

use crate::dataset::Dataset;

pub(crate) const BODIES: usize = 16;

/// The partition key, and the prefix of the row keys.
pub(crate) struct BatchKeys {
    pub(crate) partition: String,
    pub(crate) prefix: String,
}

impl BatchKeys {
    /// Creates keys that are unique to this batch, even across runs. Most keys have the same length.
    pub(crate) fn new(dataset: &Dataset, number: u64, run: u64, sequence: u64) -> Self {
        let prefix = format!("{}-{run:08x}-{sequence:08x}", Dataset::row(number));
        Self { partition: dataset.partition(number), prefix }
    }

    fn text(&self) -> String {
        format!("\"PartitionKey\":\"{}\",\"RowKey\":\"{}", self.partition, self.prefix)
    }
}

#[derive(Debug)]
pub(crate) struct BatchBody {
    pub(crate) bytes: Vec<u8>,
    positions: Vec<usize>,
    keys_bytes: usize,
}

impl BatchBody {
    /// The bytes must contain the given keys.
    pub(crate) fn new(bytes: Vec<u8>, keys: &BatchKeys) -> Self {
        let text = keys.text();
        let positions = memchr::memmem::find_iter(&bytes, &text).collect();
        Self { bytes, positions, keys_bytes: text.len() }
    }

    /// Returns `None` if the new keys have a different length.
    pub(crate) fn with_keys(mut self, keys: &BatchKeys) -> Option<Self> {
        let text = keys.text();
        if text.len() != self.keys_bytes {
            return None;
        }
        for position in &self.positions {
            self.bytes.get_mut(*position..position + text.len())?.copy_from_slice(text.as_bytes());
        }
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_used_again_under_other_keys() {
        let dataset = Dataset::new(10_000, 1000);
        let keys = |number| BatchKeys::new(&dataset, number, 7, number);
        let bytes = |keys: &BatchKeys| format!("[{{{}-00\"}},{{{}-01\"}}]", keys.text(), keys.text()).into_bytes();
        let body = BatchBody::new(bytes(&keys(1234)), &keys(1234)).with_keys(&keys(5678)).unwrap();
        assert_eq!(body.bytes, bytes(&keys(5678)));
        let longer = BatchKeys { prefix: "longer than any".repeat(5), ..keys(1) };
        assert!(body.with_keys(&longer).is_none());
    }
}
