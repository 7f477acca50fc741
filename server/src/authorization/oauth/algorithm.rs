//! The signature algorithms that a token may use (specification 09 §6).
//!
//! All of them use public keys, so a token cannot use `none` or the `HS` family.

use ring::signature;
use ring::signature::{RsaParameters, VerificationAlgorithm};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Rsa,
    P256,
    P384,
    Ed25519,
}

pub(crate) enum VerificationMethod {
    Rsa(&'static RsaParameters),
    Curve(&'static dyn VerificationAlgorithm),
}

impl Algorithm {
    const NAMES: [(&'static str, Self); 9] = [
        ("RS256", Self::Rs256),
        ("RS384", Self::Rs384),
        ("RS512", Self::Rs512),
        ("PS256", Self::Ps256),
        ("PS384", Self::Ps384),
        ("PS512", Self::Ps512),
        ("ES256", Self::Es256),
        ("ES384", Self::Es384),
        ("EdDSA", Self::EdDsa),
    ];

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }

    pub(crate) fn names() -> String {
        Self::NAMES.map(|(name, _)| name).join(", ")
    }

    pub(crate) fn key_kind(self) -> KeyKind {
        match self {
            Self::Rs256 | Self::Rs384 | Self::Rs512 | Self::Ps256 | Self::Ps384 | Self::Ps512 => KeyKind::Rsa,
            Self::Es256 => KeyKind::P256,
            Self::Es384 => KeyKind::P384,
            Self::EdDsa => KeyKind::Ed25519,
        }
    }

    /// RSA keys shorter than 2,048 or longer than 8,192 bits are rejected.
    pub(crate) fn verification(self) -> VerificationMethod {
        match self {
            Self::Rs256 => VerificationMethod::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            Self::Rs384 => VerificationMethod::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            Self::Rs512 => VerificationMethod::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            Self::Ps256 => VerificationMethod::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
            Self::Ps384 => VerificationMethod::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
            Self::Ps512 => VerificationMethod::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
            Self::Es256 => VerificationMethod::Curve(&signature::ECDSA_P256_SHA256_FIXED),
            Self::Es384 => VerificationMethod::Curve(&signature::ECDSA_P384_SHA384_FIXED),
            Self::EdDsa => VerificationMethod::Curve(&signature::ED25519),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symmetric_algorithms_and_none_do_not_exist() {
        for name in ["none", "None", "", "HS256", "HS384", "HS512", "rs256", "ES512", "ES256K", "RSA-OAEP"] {
            assert_eq!(Algorithm::parse(name), None, "{name}");
        }
        assert_eq!(Algorithm::parse("ES256"), Some(Algorithm::Es256));
        assert!(Algorithm::names().starts_with("RS256, "));
    }
}
