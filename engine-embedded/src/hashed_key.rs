//! Keys of entities with hashes that are computed once.

use crate::tree::Key;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};

/// The key of an entity in the database, with a hash that is computed once.
#[derive(Debug, Clone)]
pub(crate) struct HashedKey {
    pub(crate) key: Key,
    pub(crate) hash: u64,
}

/// The hashes are seeded, because clients choose the keys.
#[derive(Debug, Default)]
pub(crate) struct KeyHashes(RandomState);

impl KeyHashes {
    pub(crate) fn key(&self, key: Vec<u8>) -> HashedKey {
        HashedKey { hash: self.0.hash_one(&key), key: key.into() }
    }
}

impl PartialEq for HashedKey {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.key == other.key
    }
}

impl Eq for HashedKey {}

impl Hash for HashedKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

pub(crate) type HashedKeyMap<T> = HashMap<HashedKey, T, BuildHasherDefault<PrecomputedHash>>;

/// Uses the hash of a [`HashedKey`] unchanged.
#[derive(Debug, Default)]
pub(crate) struct PrecomputedHash(u64);

impl Hasher for PrecomputedHash {
    fn write(&mut self, bytes: &[u8]) {
        // Only `write_u64` is used. This fallback would be slow but correct.
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
