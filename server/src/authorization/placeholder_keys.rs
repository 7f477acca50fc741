//! Keys that make a request for an unknown account as expensive as one for a known account.

use std::sync::LazyLock;
use wire::signing::AccountKey;

/// Returns the keys that replace the two keys of an unknown account. Signatures made with them are rejected, too.
pub(crate) fn placeholder_keys() -> &'static [AccountKey; 2] {
    static KEYS: LazyLock<[AccountKey; 2]> = LazyLock::new(|| {
        let key = AccountKey::parse("AAAAAAAAAAAAAAAAAAAAAA==").expect("sixteen zero bytes in Base64");
        [key.clone(), key]
    });
    &KEYS
}
