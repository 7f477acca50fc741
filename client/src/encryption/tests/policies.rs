use super::*;
use crate::encryption::metadata::PROPERTY_DETAILS;
use crate::encryption::{KeyRing, KeyWrapError, RsaKey, WrappedKey};
use crate::future::BoxFuture;
use model::EdmType;
use model::limits::{BINARY_BYTES_MAX, CUSTOM_PROPERTIES_MAX};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const MODES: [EncryptionMode; 2] = [EncryptionMode::AesCbc, EncryptionMode::AesGcm];

fn plain() -> RecordBuilder {
    builder([("Secret", EdmValue::String("s")), ("Open", EdmValue::String("o"))])
}

#[test]
fn a_missing_key_is_named() {
    for mode in MODES {
        let key = key("p", "r");
        let encrypted = encrypt(&policy(mode), &key, &plain(), &["Secret"]);
        for policy in [
            EncryptionPolicy::new(mode),
            EncryptionPolicy::new(mode).key(aes("key-other")),
            EncryptionPolicy::new(mode).resolver(KeyRing::new().with(aes("key-other"))),
        ] {
            let found = decrypt(&policy, &key, &encrypted);
            assert!(matches!(found, Err(EncryptionError::UnknownKey { key_id }) if key_id == "key-aes"));
        }
        let other = EncryptionPolicy::new(mode).key(AesKey::new("key-aes", &[0; 32]).unwrap());
        let found = decrypt(&other, &key, &encrypted);
        assert!(
            matches!(found, Err(EncryptionError::Key { key_id, source: KeyWrapError::Refused }) if key_id == "key-aes")
        );
        let without_key = now(EncryptionPolicy::new(mode).encrypt(&key, &plain(), &["Secret"]));
        assert!(matches!(without_key, Err(EncryptionError::NoKey)));
    }
}

#[test]
fn keys_are_rotated() {
    for mode in MODES {
        let key = key("p", "r");
        let old = encrypt(&EncryptionPolicy::new(mode).key(aes("key-2025")), &key, &plain(), &["Secret"]);
        let rsa = || RsaKey::from_pem("key-2026", include_str!("../vectors/rsa-for-tests.pem")).unwrap();
        let policy = EncryptionPolicy::new(mode).key(rsa()).resolver(KeyRing::new().with(aes("key-2025")));
        let new = encrypt(&policy, &key, &decrypt(&policy, &key, &old).unwrap(), &["Secret"]);
        assert_eq!(decrypt(&policy, &key, &new).unwrap(), plain());
        assert!(decrypt(&EncryptionPolicy::new(mode).key(aes("key-2025")), &key, &new).is_err());
        assert!(decrypt(&EncryptionPolicy::new(mode).key(rsa()), &key, &new).is_ok());
    }
}

#[test]
fn what_must_be_encrypted_is_refused_in_the_clear() {
    for mode in MODES {
        let (policy, key) = (policy(mode), key("p", "r"));
        assert_eq!(decrypt(&policy, &key, &plain()).unwrap(), plain());
        let required = policy.clone().required(true);
        assert!(matches!(decrypt(&required, &key, &plain()), Err(EncryptionError::NotEncrypted { property: None })));

        // The entity is encrypted, but not this property.
        let encrypted = encrypt(&policy, &key, &plain(), &["Secret"]);
        assert_eq!(now(policy.decrypt(&key, encrypted.clone(), &["Open"], None)).unwrap(), plain());
        let found = now(required.decrypt(&key, encrypted.clone(), &["Open"], None));
        assert!(matches!(found, Err(EncryptionError::NotEncrypted { property: Some(name) }) if name == "Open"));
        let chosen =
            required.clone().encrypt_where(|partition, row, name| (partition, row, name) == ("p", "r", "Open"));
        let found = decrypt(&chosen, &key, &encrypted);
        assert!(matches!(found, Err(EncryptionError::NotEncrypted { property: Some(name) }) if name == "Open"));
        assert_eq!(now(required.decrypt(&key, encrypted, &["Secret", "Absent"], None)).unwrap(), plain());
    }
}

#[test]
fn an_entity_without_secrets_is_encrypted_too() {
    for mode in MODES {
        let (policy, key) = (policy(mode).required(true), key("p", "r"));
        let encrypted = encrypt(&policy, &key, &plain(), &[]);
        assert_eq!(encrypted.len(), 4);
        assert_eq!(decrypt(&policy, &key, &encrypted).unwrap(), plain());
    }
}

#[test]
fn the_retired_format_is_read_by_an_authenticated_policy_only_if_it_may() {
    let key = key("p", "r");
    let old = encrypt(&policy(EncryptionMode::AesCbc), &key, &plain(), &["Secret"]);
    let policy = policy(EncryptionMode::AesGcm);
    assert!(matches!(decrypt(&policy, &key, &old), Err(EncryptionError::NotAuthenticated)));
    assert_eq!(decrypt(&policy.clone().accept_unauthenticated(true), &key, &old).unwrap(), plain());
    let new = encrypt(&policy, &key, &plain(), &["Secret"]);
    assert_eq!(decrypt(&super::policy(EncryptionMode::AesCbc), &key, &new).unwrap(), plain());
}

/// If the metadata is changed to name the other format, nothing can be read, because the derived keys differ.
#[test]
fn one_format_is_not_taken_for_the_other() {
    let key = key("p", "r");
    for (mode, from, to) in [
        (EncryptionMode::AesCbc, "AES_CBC_256", "AES_GCM_256_ROWHOUSE"),
        (EncryptionMode::AesGcm, "AES_GCM_256_ROWHOUSE", "AES_CBC_256"),
    ] {
        let encrypted = encrypt_fixed(mode, false, &key, &plain(), &["Secret"]);
        let Some(EdmValue::String(text)) = value(&encrypted, KEY_DETAILS) else { panic!() };
        let changed = with(&encrypted, KEY_DETAILS, EdmValue::String(&text.replace(from, to)));
        let found = decrypt(&policy(mode).accept_unauthenticated(true), &key, &changed);
        assert!(matches!(found, Err(EncryptionError::Damaged { property }) if property == PROPERTY_DETAILS));
    }
}

#[test]
fn types_sizes_and_names_have_bounds() {
    let key = key("p", "r");
    let number = builder([("Count", EdmValue::Int32(1))]);
    let refused = now(policy(EncryptionMode::AesCbc).encrypt(&key, &number, &["Count"]));
    assert!(
        matches!(refused, Err(EncryptionError::NotAString { property, edm_type: EdmType::Int32 }) if property == "Count")
    );

    for (mode, most) in
        [(EncryptionMode::AesCbc, BINARY_BYTES_MAX - 1), (EncryptionMode::AesGcm, BINARY_BYTES_MAX - 16)]
    {
        // Two-byte UTF-8 characters keep the number of characters within the limit.
        let mut text = "é".repeat(most / 2);
        text.push_str(&"x".repeat(most % 2));
        let fits = builder([("Secret", EdmValue::String(&text))]);
        let encrypted = encrypt(&policy(mode), &key, &fits, &["Secret"]);
        assert!(!encrypted.has_too_large_value());
        text.push('x');
        let refused = now(policy(mode).encrypt(&key, &builder([("Secret", EdmValue::String(&text))]), &["Secret"]));
        assert!(matches!(refused, Err(EncryptionError::TooLarge { property, .. }) if property == "Secret"));

        let names: Vec<String> = (0..CUSTOM_PROPERTIES_MAX).map(|number| format!("P{number}")).collect();
        let many = |count: usize| builder(names.iter().take(count).map(|name| (name.as_str(), EdmValue::String("x"))));
        let encrypted = now(policy(mode).encrypt(&key, &many(CUSTOM_PROPERTIES_MAX - 2), &["P0"])).unwrap();
        assert!(!encrypted.has_too_many_properties());
        assert_eq!(decrypt(&policy(mode), &key, &encrypted).unwrap().len(), CUSTOM_PROPERTIES_MAX - 2);
        let refused = now(policy(mode).encrypt(&key, &many(CUSTOM_PROPERTIES_MAX - 1), &["P0"]));
        assert!(matches!(refused, Err(EncryptionError::TooManyProperties)));

        for name in [KEY_DETAILS, PROPERTY_DETAILS] {
            let refused = now(policy(mode).encrypt(&key, &builder([(name, EdmValue::String("x"))]), &[]));
            assert!(matches!(refused, Err(EncryptionError::ReservedProperty { property }) if property == name));
        }
    }
}

/// A vault that counts its calls and fails for an unknown algorithm.
struct Vault {
    id: String,
    wrapped_bytes: usize,
    asked: Arc<AtomicUsize>,
}

impl KeyEncryptionKey for Vault {
    fn id(&self) -> &str {
        &self.id
    }

    fn wrap<'a>(&'a self, _content_key: &'a [u8]) -> BoxFuture<'a, Result<WrappedKey, KeyWrapError>> {
        Box::pin(async {
            self.asked.fetch_add(1, Ordering::Relaxed);
            Ok(WrappedKey { algorithm: "X".to_owned(), bytes: vec![0; self.wrapped_bytes] })
        })
    }

    fn unwrap<'a>(&'a self, algorithm: &'a str, wrapped: &'a [u8]) -> BoxFuture<'a, Result<Vec<u8>, KeyWrapError>> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::Relaxed);
            if algorithm == "X" { Ok(wrapped.to_vec()) } else { Err(KeyWrapError::other("the vault is closed")) }
        })
    }
}

#[test]
fn a_vault_is_asked_once_for_each_entity_and_its_answers_are_checked() {
    for mode in MODES {
        let (key, asked) = (key("p", "r"), Arc::new(AtomicUsize::new(0)));
        let vault = |id: &str, wrapped_bytes| {
            EncryptionPolicy::new(mode).key(Vault { id: id.to_owned(), wrapped_bytes, asked: asked.clone() })
        };
        let encrypted = encrypt(&vault("v", 24), &key, &plain(), &["Secret", "Open"]);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        let found = decrypt(&vault("v", 24), &key, &encrypted);
        assert!(matches!(found, Err(EncryptionError::MalformedMetadata { .. })), "24 bytes are not a content key");
        assert_eq!(asked.load(Ordering::Relaxed), 2);

        for policy in [vault("v", 3000), vault(&"v".repeat(3000), 32)] {
            let refused = now(policy.encrypt(&key, &plain(), &[]));
            assert!(matches!(refused, Err(EncryptionError::MalformedMetadata { .. })));
        }
        let Some(EdmValue::String(text)) = value(&encrypted, KEY_DETAILS) else { panic!() };
        let other = with(&encrypted, KEY_DETAILS, EdmValue::String(&text.replace("\"X\"", "\"Y\"")));
        let Err(error) = decrypt(&vault("v", 24), &key, &other) else { panic!() };
        assert_eq!(error.to_string(), "the key \"v\" failed: the vault is closed");
    }
}

#[test]
fn nothing_shows_a_key() {
    let policy = policy(EncryptionMode::AesGcm).resolver(KeyRing::new()).required(true);
    let shown = "EncryptionPolicy { mode: AesGcm, key: Some(\"key-aes\"), has_resolver: true, is_required: true, \
                 accepts_unauthenticated: false, .. }";
    assert_eq!(format!("{policy:?}"), shown);
}

/// Strings from the service are printed with their control characters escaped.
#[test]
fn a_service_cannot_write_messages_of_its_own() {
    let text = "x\r\n\u{1b}[2J\u{202E}".to_owned();
    for error in [
        EncryptionError::UnknownKey { key_id: text.clone() },
        EncryptionError::UnknownProtocol { protocol: text.clone() },
        EncryptionError::UnknownAlgorithm { algorithm: text.clone() },
        EncryptionError::Damaged { property: text.clone() },
        EncryptionError::Missing { property: text.clone() },
        EncryptionError::Key { key_id: text.clone(), source: KeyWrapError::UnknownAlgorithm(text) },
    ] {
        let shown = error.to_string();
        assert!(!shown.contains(model::control_characters::is_control_character), "{shown:?}");
    }
}
