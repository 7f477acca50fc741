//! Encrypted entities can be decrypted, in both formats. The authenticated format is pinned.

use super::*;
use model::{DateTime, EdmType, Guid};
use proptest::prelude::*;

fn any_value() -> impl Strategy<Value = Owned> {
    prop_oneof![
        "\\PC{0,40}".prop_map(Owned::Text),
        prop::collection::vec(any::<u8>(), 0..80).prop_map(Owned::Bytes),
        any::<bool>().prop_map(|value| Owned::Value(EdmValue::Boolean(value))),
        (0..=DateTime::MAX.ticks())
            .prop_map(|ticks| Owned::Value(EdmValue::DateTime(DateTime::from_ticks(ticks).unwrap()))),
        (-1e300..1e300).prop_map(|value| Owned::Value(EdmValue::Double(value))),
        any::<[u8; 16]>().prop_map(|bytes| Owned::Value(EdmValue::Guid(Guid::from_bytes(bytes)))),
        any::<i32>().prop_map(|value| Owned::Value(EdmValue::Int32(value))),
        any::<i64>().prop_map(|value| Owned::Value(EdmValue::Int64(value))),
    ]
}

#[derive(Debug, Clone)]
enum Owned {
    Text(String),
    Bytes(Vec<u8>),
    Value(EdmValue<'static>),
}

impl Owned {
    fn value(&self) -> EdmValue<'_> {
        match self {
            Self::Text(text) => EdmValue::String(text),
            Self::Bytes(bytes) => EdmValue::Binary(bytes),
            Self::Value(value) => *value,
        }
    }
}

fn entity() -> impl Strategy<Value = (EntityKey, Vec<(String, bool, Owned)>)> {
    let text = "[ -~&&[^/\\\\#?]]{0,12}|[äöü日本😀]{0,5}";
    let properties = prop::collection::btree_map("[A-Za-z_ü][A-Za-z0-9_ü]{0,8}", (any::<bool>(), any_value()), 0..12);
    (text, text, properties).prop_map(|(partition, row, properties)| {
        let properties = properties.into_iter().map(|(name, (marked, value))| (name, marked, value)).collect();
        (key(&partition, &row), properties)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn decrypting_undoes_encrypting((key, properties) in entity(), authenticated in any::<bool>(), by_java in any::<bool>()) {
        let mode = if authenticated { EncryptionMode::AesGcm } else { EncryptionMode::AesCbc };
        let can_encrypt = |value: &Owned| authenticated || matches!(value, Owned::Text(_));
        let marked: Vec<&str> =
            properties.iter().filter(|(_, marked, value)| *marked && can_encrypt(value)).map(|(name, ..)| name.as_str()).collect();
        let plain = builder(properties.iter().map(|(name, _, value)| (name.as_str(), value.value())));
        let policy = policy(mode).required(true);
        for encrypted in [encrypt(&policy, &key, &plain, &marked), encrypt_fixed(mode, by_java, &key, &plain, &marked)] {
            for (name, value) in values(&encrypted) {
                if marked.contains(&name) {
                    prop_assert_eq!(value.edm_type(), EdmType::Binary);
                }
            }
            prop_assert_eq!(encrypted.len(), plain.len() + 2);
            prop_assert_eq!(now(policy.decrypt(&key, encrypted, &marked, None)).unwrap(), plain.clone());
        }
    }
}

#[test]
fn two_writes_of_one_entity_have_nothing_in_common() {
    for mode in [EncryptionMode::AesCbc, EncryptionMode::AesGcm] {
        let (key, plain) = (key("p", "r"), builder([("Secret", EdmValue::String("x"))]));
        let [first, second] = [(); 2].map(|()| encrypt(&policy(mode), &key, &plain, &["Secret"]));
        for ((name, first), (_, second)) in values(&first).zip(values(&second)) {
            assert_ne!(first, second, "{name}");
        }
    }
}

/// docs/client-encryption.md shows this entity. `conformance/encryption/check_gcm.py` decrypts it with an independent
/// implementation.
#[test]
fn the_format_is_pinned() {
    let plain = builder([
        ("Secret", EdmValue::String("attack at dawn")),
        ("Open", EdmValue::String("seen by all")),
        ("Count", EdmValue::Int32(-7)),
    ]);
    let encrypted = encrypt_fixed(EncryptionMode::AesGcm, false, &key("Größe", "r"), &plain, &["Secret", "Count"]);
    let lines: Vec<String> = values(&encrypted)
        .map(|(name, value)| match value {
            EdmValue::Binary(bytes) => format!("{name} = {}", hex(bytes)),
            EdmValue::String(text) => format!("{name} = {}", text.replace(env!("CARGO_PKG_VERSION"), "VERSION")),
            other => format!("{name} = {other:?}"),
        })
        .collect();
    assert_eq!(lines.join("\n"), include_str!("../vectors/authenticated.txt").trim_end());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}
