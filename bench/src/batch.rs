//! Batches of inserts that are made in advance and sent again under other keys.
//!
//! Making 100 entities takes the generator a seventh of what the server needs to store them, and for so long the server
//! would wait, or share its processor. So every connection makes some bodies once, mostly in the unmeasured phase, and
//! changes nothing but the keys in them. Entities repeat at a distance that is far larger than what a block of a storage
//! library holds, so that compression does not see it.

use crate::dataset::Dataset;

/// Bodies that a connection keeps, used in turn.
pub(crate) const BODIES: usize = 16;

/// What the keys of all entities of a batch begin with, as it stands in a body: the partition key, and the row key up to
/// where the entities differ.
pub(crate) struct BatchKeys {
    pub(crate) partition: String,
    pub(crate) prefix: String,
}

impl BatchKeys {
    /// Keys that no other batch of this or another run has; mostly of one length.
    pub(crate) fn new(dataset: &Dataset, number: u64, run: u64, sequence: u64) -> Self {
        let prefix = format!("{}-{run:08x}-{sequence:08x}", Dataset::row(number));
        Self { partition: dataset.partition(number), prefix }
    }

    fn text(&self) -> String {
        format!("\"PartitionKey\":\"{}\",\"RowKey\":\"{}", self.partition, self.prefix)
    }
}

/// The body of a batch, and where its keys stand.
#[derive(Debug)]
pub(crate) struct BatchBody {
    pub(crate) bytes: Vec<u8>,
    places: Vec<usize>,
    keys_bytes: usize,
}

impl BatchBody {
    /// A body that was made for these keys.
    pub(crate) fn new(bytes: Vec<u8>, keys: &BatchKeys) -> Self {
        let text = keys.text();
        let places = memchr::memmem::find_iter(&bytes, &text).collect();
        Self { bytes, places, keys_bytes: text.len() }
    }

    /// Puts other keys into the body; `None` if they have another length.
    pub(crate) fn with_keys(mut self, keys: &BatchKeys) -> Option<Self> {
        let text = keys.text();
        if text.len() != self.keys_bytes {
            return None;
        }
        for place in &self.places {
            self.bytes.get_mut(*place..place + text.len())?.copy_from_slice(text.as_bytes());
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
