//! The public keys of an issuer: a JSON Web Key Set.
//!
//! A key that this server cannot use is skipped without an error, because issuers also publish keys for encryption and
//! for other algorithms.

use super::algorithm::{Algorithm, KeyKind};
use super::token_error::TokenError;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::Value;

/// The minimum size of an RSA key, in bits (09 §6).
const RSA_BITS_MIN: usize = 2048;
/// The maximum number of keys kept from one set; real sets have fewer than ten.
const KEYS_MAX: usize = 256;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeySet {
    keys: Vec<Key>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    id: Option<String>,
    /// The only algorithm that the key may be used for, if it names one.
    algorithm: Option<Algorithm>,
    material: Material,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Material {
    /// Modulus and exponent, big-endian without leading zeros.
    Rsa { n: Vec<u8>, e: Vec<u8> },
    /// An uncompressed point.
    P256(Vec<u8>),
    /// An uncompressed point.
    P384(Vec<u8>),
    /// An encoded point.
    Ed25519(Vec<u8>),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MalformedKeySet;

#[derive(Deserialize)]
struct RawKeySet {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct RawKey {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    pub(crate) fn parse(json: &[u8]) -> Result<Self, MalformedKeySet> {
        let raw: RawKeySet = serde_json::from_slice(json).map_err(|_| MalformedKeySet)?;
        let keys = raw.keys.into_iter().filter_map(|value| serde_json::from_value(value).ok());
        Ok(Self { keys: keys.filter_map(Key::from_raw).take(KEYS_MAX).collect() })
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the key for a token (09 §6 step 4): by its ID, or, if the token has none, the only one that fits.
    pub(crate) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Result<&Key, TokenError> {
        let mut fitting =
            self.keys.iter().filter(|key| key.fits(algorithm) && (id.is_none() || key.id.as_deref() == id));
        match (fitting.next(), fitting.next(), id) {
            (Some(key), None, _) => Ok(key),
            // If two keys have the same ID, the first one is used, as in every library.
            (Some(key), Some(_), Some(_)) => Ok(key),
            (Some(_), Some(_), None) | (None, _, _) => Err(TokenError::UnknownKey),
        }
    }
}

impl Key {
    pub(crate) fn fits(&self, algorithm: Algorithm) -> bool {
        self.material.kind() == algorithm.key_kind() && self.algorithm.is_none_or(|own| own == algorithm)
    }

    pub(crate) fn material(&self) -> &Material {
        &self.material
    }

    fn from_raw(raw: RawKey) -> Option<Self> {
        if raw.usage.as_deref().is_some_and(|usage| usage != "sig") {
            return None;
        }
        let algorithm = match &raw.alg {
            None => None,
            Some(name) => Some(Algorithm::parse(name)?),
        };
        let material = match (raw.kty.as_str(), raw.crv.as_deref()) {
            ("RSA", _) => rsa(raw.n.as_deref()?, raw.e.as_deref()?)?,
            ("EC", Some("P-256")) => Material::P256(point(raw.x.as_deref()?, raw.y.as_deref()?, 32)?),
            ("EC", Some("P-384")) => Material::P384(point(raw.x.as_deref()?, raw.y.as_deref()?, 48)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(decode(raw.x.as_deref()?).filter(|x| x.len() == 32)?),
            _ => return None,
        };
        Some(Self { id: raw.kid, algorithm, material })
    }
}

impl Material {
    fn kind(&self) -> KeyKind {
        match self {
            Self::Rsa { .. } => KeyKind::Rsa,
            Self::P256(_) => KeyKind::P256,
            Self::P384(_) => KeyKind::P384,
            Self::Ed25519(_) => KeyKind::Ed25519,
        }
    }
}

fn rsa(n: &str, e: &str) -> Option<Material> {
    let without_zeros = |bytes: Vec<u8>| bytes.into_iter().skip_while(|byte| *byte == 0).collect::<Vec<u8>>();
    let (n, e) = (without_zeros(decode(n)?), without_zeros(decode(e)?));
    let bits = n.len() * 8 - usize::try_from(n.first()?.leading_zeros()).ok()?;
    (bits >= RSA_BITS_MIN && !e.is_empty()).then_some(Material::Rsa { n, e })
}

fn point(x: &str, y: &str, length: usize) -> Option<Vec<u8>> {
    let (x, y) = (decode(x)?, decode(y)?);
    (x.len() == length && y.len() == length).then(|| [&[4], x.as_slice(), y.as_slice()].concat())
}

fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use test_support::minting::{KeyPair, encode};

    fn parse(keys: &Value) -> KeySet {
        KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
    }

    #[test]
    fn keys_of_no_use_are_left_out() {
        let with = |name: &str, value: Value| {
            let mut jwk = KeyPair::p256("k").jwk();
            jwk[name] = value;
            jwk
        };
        assert_eq!(
            parse(&json!([with("use", json!("sig")), with("alg", json!("ES256")), with("x5t", json!("t"))])).len(),
            3
        );
        let small_rsa = json!({ "kty": "RSA", "n": encode(&[0xFF; 128]), "e": "AQAB" });
        let padded_rsa = json!({ "kty": "RSA", "n": encode(&[&[0; 200], &[0xFF; 128][..]].concat()), "e": "AQAB" });
        for useless in [
            with("use", json!("enc")),
            with("alg", json!("ES512")),
            with("alg", json!("HS256")),
            with("crv", json!("P-521")),
            with("crv", json!("P-384")),
            with("x", json!("AA")),
            with("x", json!(7)),
            with("kty", json!("oct")),
            small_rsa,
            padded_rsa,
            json!({ "kty": "oct", "k": "c2VjcmV0" }),
            json!("text"),
        ] {
            assert_eq!(parse(&json!([useless])).len(), 0, "{useless}");
        }
        assert_eq!(KeySet::parse(b"{}"), Err(MalformedKeySet));
        assert_eq!(KeySet::parse(b"<html>"), Err(MalformedKeySet));
    }

    #[test]
    fn the_key_of_a_token() {
        let (a, b) = (KeyPair::p256("a").jwk(), KeyPair::p256("b").jwk());
        let both = parse(&json!([a, b]));
        assert!(both.find(Some("b"), Algorithm::Es256).is_ok());
        assert!(both.find(Some("c"), Algorithm::Es256).is_err());
        assert!(both.find(Some("b"), Algorithm::Rs256).is_err());
        assert!(both.find(None, Algorithm::Es256).is_err(), "two keys fit");
        assert!(parse(&json!([a])).find(None, Algorithm::Es256).is_ok(), "one key fits");
        let mut for_another_algorithm = a;
        for_another_algorithm["alg"] = json!("EdDSA");
        assert!(parse(&json!([for_another_algorithm])).find(Some("a"), Algorithm::Es256).is_err());
    }
}
