//! Splitting short texts at one ASCII character: names and values, arguments and hosts.
//!
//! The searcher of the standard library does the same, but takes longer to begin than such a text is long.

use memchr::{memchr, memrchr};

/// What stands before the first `at`, an ASCII character, and behind it; `None` if there is none.
pub(crate) fn split_once(text: &str, at: u8) -> Option<(&str, &str)> {
    split_at(text, memchr(at, text.as_bytes())?)
}

/// What stands before the last `at`, an ASCII character, and behind it; `None` if there is none.
pub(crate) fn rsplit_once(text: &str, at: u8) -> Option<(&str, &str)> {
    split_at(text, memrchr(at, text.as_bytes())?)
}

fn split_at(text: &str, index: usize) -> Option<(&str, &str)> {
    text.get(..index).zip(text.get(index + 1..))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_splits_as_the_standard_library_does(text in "[a=é]{0,8}") {
            prop_assert_eq!(split_once(&text, b'='), text.split_once('='));
            prop_assert_eq!(rsplit_once(&text, b'='), text.rsplit_once('='));
        }
    }
}
