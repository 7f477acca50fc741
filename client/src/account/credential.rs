//! Credentials that authorize requests.
//!
//! This module must not depend on requests.

use super::connection_string::ConnectionString;
use crate::future::BoxFuture;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;
use wire::signing::AccountKey;

/// A credential that authorizes requests. Its `Debug` output hides keys, signatures and tokens.
///
/// ```
/// use rowhouse_client::Credential;
///
/// let key = Credential::parse("AAECAwQFBgcICQoLDA0ODw==").ok_or("not a credential")?;
/// assert_eq!(format!("{key:?}"), "Key(hidden)");
/// let signature = Credential::parse("https://orchard.table.core.windows.net/?sv=2019-02-02&sig=abc%3D");
/// assert!(signature.is_some_and(|signature| signature.is_sas()));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum Credential {
    /// An account key that signs every request (Shared Key).
    Key(SharedKey),
    /// An account key that signs every request in the shorter format (Shared Key Lite).
    KeyLite(SharedKey),
    /// A shared access signature: the query string that is appended to every request, without a question mark.
    Sas(Box<str>),
    /// Bearer tokens.
    Token(Arc<dyn TokenCredential>),
}

/// An account key. Its `Debug` output hides the key.
///
/// ```
/// let key = rowhouse_client::SharedKey::parse(rowhouse_client::DEVELOPMENT_KEY).ok_or("not Base64")?;
/// assert_eq!(format!("{key:?}"), "SharedKey(hidden)");
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone)]
pub struct SharedKey(pub(crate) AccountKey);

/// A source of bearer tokens, such as a cloud identity. The feature `azure_core` makes every credential of the
/// `azure_core` crate a token source.
///
/// The library requests a new token if the current one is missing or expires within five minutes.
///
/// ```
/// use rowhouse_client::{AccessToken, BoxFuture, Credential, TokenCredential, TokenError};
/// use std::sync::Arc;
///
/// #[derive(Debug)]
/// struct FromFile;
///
/// impl TokenCredential for FromFile {
///     fn token<'a>(&'a self, _scope: &'a str) -> BoxFuture<'a, Result<AccessToken, TokenError>> {
///         Box::pin(async {
///             let text = std::fs::read_to_string("/run/secrets/token")?;
///             Ok(AccessToken::new(text.trim(), None))
///         })
///     }
/// }
///
/// let credential = Credential::Token(Arc::new(FromFile));
/// assert_eq!(format!("{credential:?}"), "Token(hidden)");
/// ```
pub trait TokenCredential: Send + Sync {
    /// Returns a token for the scope, such as `https://storage.azure.com/.default`.
    fn token<'a>(&'a self, scope: &'a str) -> BoxFuture<'a, Result<AccessToken, TokenError>>;
}

/// The reason why no token is available: any error from the source.
///
/// ```
/// let error: rowhouse_client::TokenError = "the identity has been removed".into();
/// assert_eq!(error.to_string(), "the identity has been removed");
/// ```
pub type TokenError = Box<dyn std::error::Error + Send + Sync>;

/// A bearer token. Its `Debug` output hides the token.
///
/// ```
/// use rowhouse_client::AccessToken;
/// let token = AccessToken::new("eyJ0eXAi", None);
/// assert_eq!(format!("{token:?}"), "AccessToken(hidden)");
/// ```
#[derive(Clone)]
pub struct AccessToken {
    pub(crate) secret: Box<str>,
    pub(crate) expires: Option<SystemTime>,
}

impl AccessToken {
    /// Creates a token that is valid until the given time. Without a time, the token is used for only one request.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// let token = rowhouse_client::AccessToken::new("eyJ0eXAi", Some(SystemTime::now() + Duration::from_secs(3600)));
    /// # let _ = token;
    /// ```
    pub fn new(secret: &str, expires: Option<SystemTime>) -> Self {
        Self { secret: Box::from(secret), expires }
    }
}

impl SharedKey {
    /// Parses an account key in Base64. Returns `None` if the string is not Base64.
    ///
    /// ```
    /// assert!(rowhouse_client::SharedKey::parse("not a key!").is_none());
    /// ```
    pub fn parse(base64: &str) -> Option<Self> {
        AccountKey::parse(base64).map(Self)
    }
}

impl Credential {
    /// Parses an account key in Base64, a shared access signature (alone or at the end of a URL), or a connection
    /// string that contains one of these. Returns `None` for any other string.
    ///
    /// ```
    /// # use rowhouse_client::Credential;
    /// assert!(Credential::parse("sv=2019-02-02&sig=abc%3D").is_some());
    /// assert!(Credential::parse("my secret").is_none());
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(parts) = ConnectionString::parse(text) {
            return parts.credential();
        }
        // A key may end in `sig==`, but no signature is valid Base64.
        if let Some(key) = Self::shared_key(text) {
            return Some(key);
        }
        if text.contains("sig=") {
            let token = text.split_once('?').map_or(text, |(_, query)| query).trim_start_matches('&');
            let is_query = !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic() && b != b'#');
            return is_query.then(|| Self::Sas(Box::from(token)));
        }
        None
    }

    /// Parses an account key in Base64, for Shared Key. Returns `None` if the string is not Base64.
    ///
    /// ```
    /// # use rowhouse_client::Credential;
    /// assert!(Credential::shared_key("AAECAwQFBgcICQoLDA0ODw==").is_some());
    /// ```
    pub fn shared_key(base64: &str) -> Option<Self> {
        SharedKey::parse(base64).map(Self::Key)
    }

    /// Parses an account key in Base64, for Shared Key Lite. Returns `None` if the string is not Base64.
    ///
    /// ```
    /// # use rowhouse_client::Credential;
    /// assert!(Credential::shared_key_lite("AAECAwQFBgcICQoLDA0ODw==").is_some());
    /// ```
    pub fn shared_key_lite(base64: &str) -> Option<Self> {
        SharedKey::parse(base64).map(Self::KeyLite)
    }

    /// Returns true if this is a shared access signature.
    ///
    /// ```
    /// # use rowhouse_client::Credential;
    /// assert!(Credential::parse("?sv=2019-02-02&sig=abc%3D").is_some_and(|credential| credential.is_sas()));
    /// ```
    pub fn is_sas(&self) -> bool {
        matches!(self, Self::Sas(_))
    }

    pub(crate) fn key(&self) -> Option<&AccountKey> {
        match self {
            Self::Key(SharedKey(key)) | Self::KeyLite(SharedKey(key)) => Some(key),
            Self::Sas(_) | Self::Token(_) => None,
        }
    }
}

impl ConnectionString {
    /// Returns the key or the signature, or `None` if there is neither or if it is malformed.
    ///
    /// ```
    /// # use rowhouse_client::ConnectionString;
    /// let parts = ConnectionString::parse("TableEndpoint=https://t.example.net;SharedAccessSignature=sv=2019-02-02&sig=abc%3D");
    /// assert!(parts.and_then(|parts| parts.credential()).is_some_and(|credential| credential.is_sas()));
    /// ```
    pub fn credential(&self) -> Option<Credential> {
        match (&self.key, &self.sas) {
            (Some(key), _) => Credential::shared_key(key),
            (None, Some(sas)) if sas.contains("sig=") => Some(Credential::Sas(Box::from(sas.trim_start_matches('?')))),
            _ => None,
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key(_) => "Key(hidden)",
            Self::KeyLite(_) => "KeyLite(hidden)",
            Self::Sas(_) => "Sas(hidden)",
            Self::Token(_) => "Token(hidden)",
        })
    }
}

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedKey(hidden)")
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AAECAwQFBgcICQoLDA0ODw==";

    #[test]
    fn keys_signatures_and_connection_strings() {
        for key in [KEY, "AAECAwQFBgcICQoLDA0Osig="] {
            assert!(matches!(Credential::parse(&format!(" {key}\n")), Some(Credential::Key(_))), "{key}");
        }
        for text in [
            "sv=2019-02-02&sig=abc%3D",
            "?sv=2019-02-02&sig=abc%3D\n",
            "https://acct.table.core.windows.net/?sv=2019-02-02&sig=abc%3D",
            "TableEndpoint=https://h/acct;SharedAccessSignature=sv=2019-02-02&sig=abc%3D;",
        ] {
            let Some(Credential::Sas(token)) = Credential::parse(text) else { panic!("{text}") };
            assert_eq!(&*token, "sv=2019-02-02&sig=abc%3D", "{text}");
        }
        let string = format!("DefaultEndpointsProtocol=https;AccountName=acct;AccountKey={KEY}");
        assert!(matches!(Credential::parse(&string), Some(Credential::Key(_))));
        for other in ["", "AAAA", "not a key!", "sig=a b", "AccountName=acct;EndpointSuffix=x"] {
            assert!(Credential::parse(other).is_none(), "{other}");
        }
        assert_eq!(format!("{:?}", Credential::parse(KEY).unwrap()), "Key(hidden)");
    }
}
