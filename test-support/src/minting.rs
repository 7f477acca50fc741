//! An issuer of bearer tokens: generates keys, publishes them, and signs tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384,
    RSA_PSS_SHA512, RsaKeyPair, RsaPublicKeyComponents,
};
use rsa::pkcs1::EncodeRsaPrivateKey;
use serde_json::{Value, json};
use std::sync::OnceLock;

/// A key pair of an issuer.
#[derive(Debug)]
pub struct KeyPair {
    /// The ID of the key in the key set.
    pub id: String,
    pair: Pair,
}

#[derive(Debug)]
enum Pair {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl KeyPair {
    /// Returns a 2,048-bit RSA key. Generating it takes a second, so each process generates one key and uses it under
    /// several IDs.
    pub fn rsa(id: &str) -> Self {
        static DER: OnceLock<Vec<u8>> = OnceLock::new();
        let der = DER.get_or_init(|| {
            let key = rsa::RsaPrivateKey::new(&mut rsa::rand_core::OsRng, 2048).unwrap();
            key.to_pkcs1_der().unwrap().as_bytes().to_vec()
        });
        Self { id: id.to_owned(), pair: Pair::Rsa(RsaKeyPair::from_der(der).unwrap()) }
    }

    /// Generates an ECDSA key on the curve P-256.
    pub fn p256(id: &str) -> Self {
        Self { id: id.to_owned(), pair: Pair::P256(ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING)) }
    }

    /// Generates an ECDSA key on the curve P-384.
    pub fn p384(id: &str) -> Self {
        Self { id: id.to_owned(), pair: Pair::P384(ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING)) }
    }

    /// Generates an Ed25519 key.
    pub fn ed25519(id: &str) -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
        Self { id: id.to_owned(), pair: Pair::Ed25519(pair) }
    }

    /// Returns the public key as a member of a key set.
    pub fn jwk(&self) -> Value {
        let curve = |name: &str, point: &[u8]| {
            let (x, y) = point[1..].split_at((point.len() - 1) / 2);
            json!({ "kty": "EC", "crv": name, "kid": self.id, "x": encode(x), "y": encode(y) })
        };
        match &self.pair {
            Pair::Rsa(pair) => {
                let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({ "kty": "RSA", "use": "sig", "kid": self.id, "n": encode(&n), "e": encode(&e) })
            }
            Pair::P256(pair) => curve("P-256", pair.public_key().as_ref()),
            Pair::P384(pair) => curve("P-384", pair.public_key().as_ref()),
            Pair::Ed25519(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": self.id, "x": encode(pair.public_key().as_ref()) })
            }
        }
    }

    /// Returns a token with the given claims, signed with the algorithm that the header names.
    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        let text = signed_text(header, claims);
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Rsa(pair) => {
                let padding: &'static dyn ring::signature::RsaEncoding = match header["alg"].as_str() {
                    Some("RS384") => &RSA_PKCS1_SHA384,
                    Some("RS512") => &RSA_PKCS1_SHA512,
                    Some("PS256") => &RSA_PSS_SHA256,
                    Some("PS384") => &RSA_PSS_SHA384,
                    Some("PS512") => &RSA_PSS_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(padding, &random, text.as_bytes(), &mut signature).unwrap();
                signature
            }
            Pair::P256(pair) | Pair::P384(pair) => pair.sign(&random, text.as_bytes()).unwrap().as_ref().to_vec(),
            Pair::Ed25519(pair) => pair.sign(text.as_bytes()).as_ref().to_vec(),
        };
        format!("{text}.{}", encode(&signature))
    }

    /// Returns a forged token, signed with a symmetric algorithm whose secret is the public key.
    pub fn sign_with_public_key_as_secret(&self, header: &Value, claims: &Value) -> String {
        let text = signed_text(header, claims);
        let secret = self.jwk()["n"].as_str().unwrap().as_bytes().to_vec();
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), text.as_bytes());
        format!("{text}.{}", encode(tag.as_ref()))
    }
}

fn ecdsa(algorithm: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap()
}

/// Returns the usual header of a token that is signed with the given key pair.
pub fn header(algorithm: &str, pair: &KeyPair) -> Value {
    json!({ "typ": "JWT", "alg": algorithm, "kid": pair.id })
}

/// Encodes bytes as in tokens: URL-safe Base64 without padding.
pub fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn signed_text(header: &Value, claims: &Value) -> String {
    format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()))
}
