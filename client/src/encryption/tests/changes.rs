//! Changed entities: the authenticated format detects every change, but the format of the retired libraries detects
//! only some changes.

use super::*;
use crate::encryption::metadata::{NAME_LIST_BYTES_MAX, PROPERTY_DETAILS};
use proptest::prelude::*;

fn plain() -> RecordBuilder {
    builder([
        ("Secret", EdmValue::String("attack at dawn, and not before")),
        ("Salary", EdmValue::Double(1.5)),
        ("Open", EdmValue::String("seen by all")),
    ])
}

const MARKED: [&str; 2] = ["Secret", "Salary"];

#[test]
fn every_changed_bit_of_an_authenticated_value_is_noticed() {
    let (policy, key) = (policy(EncryptionMode::AesGcm), key("p", "r"));
    let encrypted = encrypt(&policy, &key, &plain(), &MARKED);
    for name in ["Secret", "Salary", PROPERTY_DETAILS] {
        let Some(EdmValue::Binary(bytes)) = value(&encrypted, name) else { panic!("{name}") };
        for at in 0..bytes.len() * 8 {
            let mut changed = bytes.to_vec();
            changed[at / 8] ^= 1 << (at % 8);
            assert_damaged(&decrypt(&policy, &key, &with(&encrypted, name, EdmValue::Binary(&changed))), name);
        }
        for length in 0..bytes.len() {
            assert_damaged(&decrypt(&policy, &key, &with(&encrypted, name, EdmValue::Binary(&bytes[..length]))), name);
        }
    }
}

/// Some characters have no meaning, such as the version of the library. Changing them must not change the values.
#[test]
fn no_change_of_the_metadata_gives_other_values() {
    for mode in [EncryptionMode::AesCbc, EncryptionMode::AesGcm] {
        let (policy, key) = (policy(mode).accept_unauthenticated(true), key("p", "r"));
        let marked = if mode == EncryptionMode::AesGcm { &MARKED[..] } else { &MARKED[..1] };
        let encrypted = encrypt(&policy, &key, &plain(), marked);
        let Some(EdmValue::String(text)) = value(&encrypted, KEY_DETAILS) else { panic!() };
        for at in 0..text.len() {
            for bit in 0..7 {
                let mut changed = text.as_bytes().to_vec();
                changed[at] ^= 1 << bit;
                let changed = String::from_utf8(changed).unwrap();
                let found = decrypt(&policy, &key, &with(&encrypted, KEY_DETAILS, EdmValue::String(&changed)));
                if let Ok(found) = found {
                    assert_eq!(found, plain(), "{changed}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Decryption never panics, whatever a service returns.
    #[test]
    fn no_bytes_of_a_service_cause_a_panic(
        authenticated in any::<bool>(),
        replaced in prop::sample::select(vec!["Secret", KEY_DETAILS, PROPERTY_DETAILS]),
        bytes in prop::collection::vec(any::<u8>(), 0..100),
        text in "\\PC{0,100}",
        (at, cut) in (0..400_usize, 0..40_usize),
    ) {
        let mode = if authenticated { EncryptionMode::AesGcm } else { EncryptionMode::AesCbc };
        let (policy, key) = (policy(mode), key("p", "r"));
        let encrypted = encrypt_fixed(mode, false, &key, &plain(), &["Secret"]);
        let Some(EdmValue::String(metadata)) = value(&encrypted, KEY_DETAILS) else { panic!() };
        let mut changed: Vec<char> = metadata.chars().collect();
        let from = at.min(changed.len());
        changed.splice(from..(from + cut).min(changed.len()), text.chars());
        let changed: String = changed.into_iter().collect();
        for value in [EdmValue::Binary(&bytes), EdmValue::String(&text), EdmValue::String(&changed)] {
            let found = decrypt(&policy, &key, &with(&encrypted, replaced, value));
            if authenticated && let Ok(found) = found {
                prop_assert_eq!(found, plain());
            }
        }
    }
}

fn assert_damaged(found: &Result<RecordBuilder, EncryptionError>, name: &str) {
    assert!(matches!(found, Err(EncryptionError::Damaged { property }) if property == name), "{name}: {found:?}");
}

#[test]
fn authenticated_values_cannot_be_moved() {
    let (policy, here, there) = (policy(EncryptionMode::AesGcm), key("ab", "c"), key("a", "bc"));
    let plain = builder([("A", EdmValue::String("same length")), ("B", EdmValue::String("of both one"))]);
    let encrypted = encrypt(&policy, &here, &plain, &["A", "B"]);
    let [Some(a), Some(b)] = ["A", "B"].map(|name| value(&encrypted, name)) else { panic!() };
    let exchanged = builder(values(&encrypted).map(|(name, value)| match name {
        "A" => (name, b),
        "B" => (name, a),
        _ => (name, value),
    }));
    assert_damaged(&decrypt(&policy, &here, &exchanged), "A");
    assert_damaged(&decrypt(&policy, &there, &encrypted), PROPERTY_DETAILS);
    let other = encrypt(&policy, &here, &plain, &["A", "B"]);
    let Some(older) = value(&other, "A") else { panic!() };
    assert_damaged(&decrypt(&policy, &here, &with(&encrypted, "A", older)), "A");
    assert_damaged(&decrypt(&policy, &here, &with(&encrypted, "A", EdmValue::String("in the clear"))), "A");
}

#[test]
fn a_removed_property_is_noticed_if_it_was_asked_for() {
    let (policy, key) = (policy(EncryptionMode::AesGcm), key("p", "r"));
    let encrypted = encrypt(&policy, &key, &plain(), &MARKED);
    let removed = without(&encrypted, "Salary");
    let missing = decrypt(&policy, &key, &removed);
    assert!(matches!(missing, Err(EncryptionError::Missing { property }) if property == "Salary"));
    let missing = now(policy.decrypt(&key, removed.clone(), &[], Some(&["Salary", "Open"])));
    assert!(matches!(missing, Err(EncryptionError::Missing { property }) if property == "Salary"));
    let found = now(policy.decrypt(&key, removed, &[], Some(&["Secret", "Open"]))).unwrap();
    assert_eq!(found, without(&plain(), "Salary"));
}

#[test]
fn metadata_that_are_incomplete_are_refused() {
    for mode in [EncryptionMode::AesCbc, EncryptionMode::AesGcm] {
        let (policy, key) = (policy(mode), key("p", "r"));
        let encrypted = encrypt(&policy, &key, &plain(), &["Secret"]);
        for name in [KEY_DETAILS, PROPERTY_DETAILS] {
            for changed in [without(&encrypted, name), with(&encrypted, name, EdmValue::Int32(1))] {
                let found = decrypt(&policy, &key, &changed);
                assert!(matches!(found, Err(EncryptionError::MalformedMetadata { .. })), "{name}: {found:?}");
            }
        }
        let long = vec![0; NAME_LIST_BYTES_MAX + 16];
        assert_damaged(
            &decrypt(&policy, &key, &with(&encrypted, PROPERTY_DETAILS, EdmValue::Binary(&long))),
            PROPERTY_DETAILS,
        );
    }
}

/// The changes that the documentation lists as undetected by the format of the retired libraries.
#[test]
fn the_retired_format_does_not_notice_every_change() {
    let (policy, key) = (policy(EncryptionMode::AesCbc), key("p", "r"));
    let encrypted = encrypt(&policy, &key, &plain(), &["Secret"]);
    let Some(EdmValue::Binary(bytes)) = value(&encrypted, "Secret") else { panic!() };

    // Flipping the last byte of the first block flips the same byte of the second block and garbles the first block,
    // which is then not UTF-8.
    let mut changed = bytes.to_vec();
    changed[15] ^= 0xFF;
    assert_damaged(&decrypt(&policy, &key, &with(&encrypted, "Secret", EdmValue::Binary(&changed))), "Secret");

    // The removal of a property is not detected.
    assert_eq!(decrypt(&policy, &key, &without(&encrypted, "Secret")).unwrap(), without(&plain(), "Secret"));

    // A length that is not a multiple of the block size, a string, and an empty value are detected.
    for value in [EdmValue::Binary(&bytes[..15]), EdmValue::Binary(&[]), EdmValue::String("in the clear")] {
        assert_damaged(&decrypt(&policy, &key, &with(&encrypted, "Secret", value)), "Secret");
    }
}

/// Flipping a bit of a block flips the same bit of the next block and garbles the block itself. Once in a few thousand
/// attempts, the garbled block is valid UTF-8. These are the bits of such an attempt.
#[test]
fn a_text_in_the_retired_format_can_be_changed_on_purpose() {
    let (policy, key) = (policy(EncryptionMode::AesCbc), key("p", "r"));
    let plain = builder([("Secret", EdmValue::String("dear treasurer, please do kindlypay 10; ref 1234"))]);
    let encrypted = encrypt_fixed(EncryptionMode::AesCbc, false, &key, &plain, &["Secret"]);
    let Some(EdmValue::Binary(bytes)) = value(&encrypted, "Secret") else { panic!() };
    let mut changed = bytes.to_vec();
    for (at, bits) in [(4, b'1' ^ b'9'), (12, 0x0C), (13, 0x01), (14, 0x0A), (15, 0x05)] {
        changed[16 + at] ^= bits;
    }
    let found = decrypt(&policy, &key, &with(&encrypted, "Secret", EdmValue::Binary(&changed))).unwrap();
    let Some(EdmValue::String(text)) = value(&found, "Secret") else { panic!() };
    assert!(text.starts_with("dear treasurer, ") && text.contains("pay 90; ref"), "{text:?}");
}
