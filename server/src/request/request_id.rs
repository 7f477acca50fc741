//! Request IDs, and random numbers for other IDs.

use std::cell::Cell;
use std::fmt;
use uuid::Uuid;

/// A random 128-bit ID, in text form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestId([u8; uuid::fmt::Hyphenated::LENGTH]);

impl RequestId {
    pub(crate) fn new() -> Self {
        let random = random_number().to_be_bytes();
        let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
        uuid::Builder::from_random_bytes(random).into_uuid().hyphenated().encode_lower(&mut text);
        Self(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("an ID consists of hexadecimal digits and hyphens")
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns a number whose bits are all random. It must not serve as a secret, because other numbers can be computed
/// from it.
///
/// Each thread gets its seed from the system only once, because getting one costs a system call.
pub(crate) fn random_number() -> u128 {
    thread_local! {
        static STATE: Cell<[u64; 2]> = {
            let (high, low) = Uuid::new_v4().as_u64_pair();
            Cell::new([high, low])
        };
    }
    let state = STATE.get().map(|half| half.wrapping_add(INCREMENT));
    STATE.set(state);
    let [high, low] = state.map(mixed);
    u128::from(high) << 64 | u128::from(low)
}

/// The increment of the generator `SplitMix64`, which produces every number once before it repeats one.
const INCREMENT: u64 = 0x9E37_79B9_7F4A_7C15;

/// The output function of `SplitMix64`, which maps each state to a different number.
fn mixed(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_new_and_have_the_form_of_a_random_uuid() {
        let make = || (0..1000).map(|_| RequestId::new().to_string()).collect::<Vec<_>>();
        let ids: HashSet<String> = make().into_iter().chain(std::thread::spawn(make).join().unwrap()).collect();
        assert_eq!(ids.len(), 2000);
        for id in ids {
            let read = Uuid::parse_str(&id).unwrap();
            assert_eq!((read.get_version_num(), read.hyphenated().to_string()), (4, id));
        }
    }
}
