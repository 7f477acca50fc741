//! Random numbers from a seed, so that a run can be repeated.

use std::hash::{BuildHasher, RandomState};

/// A random number generator (`SplitMix64`) that depends only on its seed.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator with the given seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Creates a generator with the seed in an environment variable, or with a random seed. Prints the seed.
    #[allow(clippy::print_stdout, reason = "a run can be repeated only if its seed is printed")]
    pub fn from_environment(variable: &str) -> Self {
        let seed = crate::setting(variable).unwrap_or_else(|| RandomState::new().hash_one(0));
        println!("{variable}={seed} repeats this run");
        Self(seed)
    }

    /// Returns any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// Returns an index into `count` elements.
    pub fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).unwrap()
    }
}
