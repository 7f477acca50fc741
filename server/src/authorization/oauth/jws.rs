//! A token as it was sent: the three parts of a JSON Web Signature, and the verification of its signature.
//!
//! Before the signature is verified, only the algorithm, the key ID and the issuer can be read, which are needed to
//! find the key. Key material and key URLs in the header are ignored.

use super::algorithm::{Algorithm, VerificationMethod};
use super::key_set::{Key, Material};
use super::token_error::TokenError;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::limits::BEARER_TOKEN_BYTES_MAX;
use ring::signature::{RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::{Map, Value};

pub(crate) type ClaimMap = Map<String, Value>;

#[derive(Debug)]
pub(crate) struct Jws<'a> {
    algorithm: Algorithm,
    key_id: Option<String>,
    claims: ClaimMap,
    signed: &'a str,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<Value>,
}

impl<'a> Jws<'a> {
    /// Parses a token (09 §6, steps 1 and 2).
    pub(crate) fn parse(token: &'a str) -> Result<Self, TokenError> {
        if token.len() > BEARER_TOKEN_BYTES_MAX {
            return Err(TokenError::TooLarge);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed("parts"))?;
        let (header, payload) = signed.split_once('.').ok_or(TokenError::Malformed("parts"))?;
        if payload.contains('.') {
            return Err(TokenError::Malformed("parts"));
        }
        let header: Header =
            serde_json::from_slice(&decode(header)?).map_err(|_| TokenError::Malformed("the header"))?;
        if header.crit.is_some() {
            return Err(TokenError::Unsupported("crit"));
        }
        if header.typ.is_some_and(|typ| !is_type_of_access_token(&typ)) {
            return Err(TokenError::Unsupported("typ"));
        }
        let algorithm = Algorithm::parse(&header.alg).ok_or(TokenError::Algorithm)?;
        let claims = serde_json::from_slice(&decode(payload)?).map_err(|_| TokenError::Malformed("the claims"))?;
        Ok(Self { algorithm, key_id: header.kid, claims, signed, signature: decode(signature)? })
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(crate) fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    pub(crate) fn issuer(&self) -> Result<&str, TokenError> {
        self.claims.get("iss").and_then(Value::as_str).ok_or(TokenError::Malformed("iss"))
    }

    pub(crate) fn verify(self, key: &Key) -> Result<ClaimMap, TokenError> {
        if self.is_signed_by(key) { Ok(self.claims) } else { Err(TokenError::Signature) }
    }

    fn is_signed_by(&self, key: &Key) -> bool {
        let (text, signature) = (self.signed.as_bytes(), self.signature.as_slice());
        key.fits(self.algorithm)
            && match (self.algorithm.verification(), key.material()) {
                (VerificationMethod::Rsa(parameters), Material::Rsa { n, e }) => {
                    RsaPublicKeyComponents { n, e }.verify(parameters, text, signature).is_ok()
                }
                (
                    VerificationMethod::Curve(algorithm),
                    Material::P256(point) | Material::P384(point) | Material::Ed25519(point),
                ) => UnparsedPublicKey::new(algorithm, point).verify(text, signature).is_ok(),
                _ => false,
            }
    }
}

/// `typ` names a media type, so case does not matter, and the prefix `application/` is optional.
fn is_type_of_access_token(typ: &str) -> bool {
    let typ = typ.to_ascii_lowercase();
    matches!(typ.strip_prefix("application/").unwrap_or(&typ), "jwt" | "at+jwt")
}

/// Decodes strictly: the URL alphabet, no padding, no stray bits at the end.
pub(crate) fn decode(part: &str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed("Base64"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorization::oauth::key_set::KeySet;
    use serde_json::json;
    use test_support::minting::{KeyPair, encode, header};

    fn key_set(pairs: &[&KeyPair]) -> KeySet {
        let keys: Vec<Value> = pairs.iter().map(|pair| pair.jwk()).collect();
        KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
    }

    fn verify(token: &str, keys: &KeySet) -> Result<ClaimMap, TokenError> {
        let jws = Jws::parse(token)?;
        let key = keys.find(jws.key_id(), jws.algorithm())?.clone();
        jws.verify(&key)
    }

    #[test]
    fn signatures_of_every_algorithm() {
        let rsa = KeyPair::rsa("r");
        let (p256, p384, ed25519) = (KeyPair::p256("e"), KeyPair::p384("f"), KeyPair::ed25519("d"));
        let keys = key_set(&[&rsa, &p256, &p384, &ed25519]);
        for (pair, algorithm) in [
            (&rsa, "RS256"),
            (&rsa, "RS384"),
            (&rsa, "RS512"),
            (&rsa, "PS256"),
            (&rsa, "PS384"),
            (&rsa, "PS512"),
            (&p256, "ES256"),
            (&p384, "ES384"),
            (&ed25519, "EdDSA"),
        ] {
            let token = pair.sign(&header(algorithm, pair), &json!({ "iss": "i" }));
            assert!(verify(&token, &keys).is_ok(), "{algorithm}");
            let (signed, signature) = token.rsplit_once('.').unwrap();
            let (head, _) = signed.split_once('.').unwrap();
            let forged = format!("{head}.{}.{signature}", encode(br#"{"iss":"j"}"#));
            assert_eq!(verify(&forged, &keys), Err(TokenError::Signature), "{algorithm}");
            assert_eq!(verify(&format!("{signed}."), &keys), Err(TokenError::Signature), "{algorithm}");
        }
        let stranger = KeyPair::p256("e");
        let token = stranger.sign(&header("ES256", &stranger), &json!({}));
        assert_eq!(verify(&token, &keys), Err(TokenError::Signature));
        // A key of the wrong kind for the algorithm is not found.
        let token = rsa.sign(&json!({ "alg": "RS256", "kid": "e" }), &json!({}));
        assert_eq!(verify(&token, &keys), Err(TokenError::UnknownKey));
    }

    #[test]
    fn none_and_symmetric_signatures_are_refused() {
        let rsa = KeyPair::rsa("r");
        let none = format!("{}.{}.", encode(br#"{"alg":"none"}"#), encode(b"{}"));
        assert_eq!(Jws::parse(&none).unwrap_err(), TokenError::Algorithm);
        let token = rsa.sign_with_public_key_as_secret(&json!({ "alg": "HS256", "kid": "r" }), &json!({}));
        assert_eq!(Jws::parse(&token).unwrap_err(), TokenError::Algorithm);
        // The same bytes under the name of an allowed algorithm.
        let token = rsa.sign_with_public_key_as_secret(&json!({ "alg": "RS256", "kid": "r" }), &json!({}));
        assert_eq!(verify(&token, &key_set(&[&rsa])), Err(TokenError::Signature));
    }

    #[test]
    fn key_material_in_the_header_is_ignored() {
        let (known, stranger) = (KeyPair::p256("k"), KeyPair::p256("k"));
        let header = json!({ "alg": "ES256", "kid": "k", "jwk": stranger.jwk(), "jku": "https://evil.example/keys" });
        assert_eq!(verify(&stranger.sign(&header, &json!({})), &key_set(&[&known])), Err(TokenError::Signature));
    }

    #[test]
    fn malformed_tokens() {
        let part = |text: &str| encode(text.as_bytes());
        let head = part(r#"{"alg":"RS256"}"#);
        for (token, expected) in [
            (String::new(), TokenError::Malformed("parts")),
            ("a.b".to_owned(), TokenError::Malformed("parts")),
            (format!("{head}.{}.AA.AA.AA", part("{}")), TokenError::Malformed("parts")),
            (format!("{head}=.{}.AA", part("{}")), TokenError::Malformed("Base64")),
            (format!("{head}.{}.AB", part("{}")), TokenError::Malformed("Base64")),
            (format!("{head}.{}.+/", part("{}")), TokenError::Malformed("Base64")),
            (format!("{head}.{}.AA", part("[]")), TokenError::Malformed("the claims")),
            (format!("{head}.{}.AA", part("{}{}")), TokenError::Malformed("the claims")),
            (format!("{}.{}.AA", part("{}"), part("{}")), TokenError::Malformed("the header")),
            (format!("{}.{}.AA", part(r#"{"alg":["RS256"]}"#), part("{}")), TokenError::Malformed("the header")),
            (
                format!("{}.{}.AA", part(r#"{"alg":"RS256","crit":["exp"]}"#), part("{}")),
                TokenError::Unsupported("crit"),
            ),
            (
                format!("{}.{}.AA", part(r#"{"alg":"RS256","typ":"dpop+jwt"}"#), part("{}")),
                TokenError::Unsupported("typ"),
            ),
            ("x".repeat(BEARER_TOKEN_BYTES_MAX + 1), TokenError::TooLarge),
        ] {
            assert_eq!(Jws::parse(&token).unwrap_err(), expected, "{token:.60}");
        }
        for typ in ["JWT", "jwt", "at+jwt", "application/at+jwt"] {
            let header = part(&json!({ "alg": "RS256", "typ": typ }).to_string());
            assert!(Jws::parse(&format!("{header}.{}.AA", part("{}"))).is_ok(), "{typ}");
        }
    }
}
