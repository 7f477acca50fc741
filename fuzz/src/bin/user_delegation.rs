//! Requests for user delegation keys: any bytes are parsed or rejected, and an accepted request has terms within the
//! limits.

#![no_main]

use libfuzzer_sys::fuzz_target;
use model::limits::USER_DELEGATION_KEY_SECONDS_MAX;
use wire::sas::parse_time;
use wire::sas::user_delegation::KeyInfo;

fuzz_target!(|document: &[u8]| {
    let now = parse_time("2031-03-14").expect("the date is valid");
    let Ok(info) = KeyInfo::read(document, now) else { return };
    assert!(info.start < info.expiry && now < info.expiry);
    let seconds = u64::try_from(info.expiry.unix_seconds() - now.unix_seconds()).expect("the expiry is later");
    assert!(seconds <= USER_DELEGATION_KEY_SECONDS_MAX);
    assert!(!info.delegated_tenant.contains(char::is_control));
});
