//! Tests of whole entities.

mod changes;
mod policies;
mod retired;
mod round_trips;

use super::key::ContentKey;
use super::metadata::{KEY_DETAILS, Metadata};
use super::properties::{value, values};
use super::{AesKey, EncryptionError, EncryptionMode, EncryptionPolicy, KeyEncryptionKey};
use model::{EdmValue, EntityKey, KeyText, RecordBuilder};

/// Runs a future that never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn key(partition: &str, row: &str) -> EntityKey {
    EntityKey { partition: KeyText::new(partition).unwrap(), row: KeyText::new(row).unwrap() }
}

fn aes(id: &str) -> AesKey {
    let secret: Vec<u8> = (0..32).collect();
    AesKey::new(id, &secret).unwrap()
}

fn policy(mode: EncryptionMode) -> EncryptionPolicy {
    EncryptionPolicy::new(mode).key(aes("key-aes"))
}

fn builder<'a>(properties: impl IntoIterator<Item = (&'a str, EdmValue<'a>)>) -> RecordBuilder {
    let mut builder = RecordBuilder::default();
    properties.into_iter().for_each(|(name, value)| builder.push(name, value));
    builder
}

fn with(properties: &RecordBuilder, changed: &str, value: EdmValue<'_>) -> RecordBuilder {
    let mut out = RecordBuilder::default();
    values(properties).for_each(|(name, old)| out.push(name, if name == changed { value } else { old }));
    out
}

fn without(properties: &RecordBuilder, removed: &str) -> RecordBuilder {
    builder(values(properties).filter(|(name, _)| *name != removed))
}

fn encrypt(policy: &EncryptionPolicy, key: &EntityKey, properties: &RecordBuilder, marked: &[&str]) -> RecordBuilder {
    now(policy.encrypt(key, properties, marked)).unwrap()
}

fn decrypt(
    policy: &EncryptionPolicy,
    key: &EntityKey,
    properties: &RecordBuilder,
) -> Result<RecordBuilder, EncryptionError> {
    now(policy.decrypt(key, properties.clone(), &[], None))
}

/// Uses a fixed content key and initialization vector, so that the bytes are reproducible. If `by_java` is true,
/// encrypts like the Java library.
fn encrypt_fixed(
    mode: EncryptionMode,
    by_java: bool,
    key: &EntityKey,
    properties: &RecordBuilder,
    marked: &[&str],
) -> RecordBuilder {
    let secret: Vec<u8> = (100..132).collect();
    let wrapped = now(aes("key-aes").wrap(&secret)).unwrap();
    let metadata = Metadata { mode, key_id: "key-aes".to_owned(), wrapped, iv: [0xA5; 16], by_java };
    let content_key = ContentKey::from_unwrapped(secret).unwrap();
    let encrypted = policy(mode).encrypt_under(key, properties, marked, &content_key, &metadata).unwrap();
    let Some(EdmValue::String(text)) = value(&encrypted, KEY_DETAILS) else { panic!() };
    let library = if by_java { "Java" } else { "Rust" };
    with(&encrypted, KEY_DETAILS, EdmValue::String(&text.replace("Rust", library)))
}
