//! Random numbers that a seed determines, so that a run can be repeated.

use std::hash::{BuildHasher, RandomState};

/// A generator of random numbers (`SplitMix64`): they depend on nothing but its seed.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator with a random seed, which is printed, or with the one that an environment variable sets.
    #[allow(clippy::print_stdout, reason = "a seed that is not printed cannot be repeated")]
    pub fn from_environment(variable: &str) -> Self {
        let seed =
            std::env::var(variable).map_or_else(|_| RandomState::new().hash_one(0), |text| text.parse().unwrap());
        println!("{variable}={seed} repeats this run");
        Self(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// A number from zero to a greatest one.
    pub(crate) fn up_to(&mut self, greatest: i64) -> i64 {
        i64::try_from(self.below(u64::try_from(greatest).unwrap() + 1)).unwrap()
    }

    /// The index of one of so many things.
    pub fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).unwrap()
    }
}
