//! What requests are authorized with.

use crate::connection_string::ConnectionString;
use std::fmt;
use wire::signing::AccountKey;

/// An account key or a shared access signature. Its `Debug` output hides both.
#[derive(Clone)]
pub enum Credential {
    /// Signs every request (Shared Key).
    Key(AccountKey),
    /// The query string that is added to every request, without a question mark.
    Sas(Box<str>),
}

impl Credential {
    /// Parses an account key in Base64, a shared access signature alone or at the end of a URL, or a connection string
    /// with either of them; `None` if the text is none of these.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(parts) = ConnectionString::parse(text) {
            return parts.credential();
        }
        if text.contains("sig=") {
            let token = text.split_once('?').map_or(text, |(_, query)| query).trim_start_matches('&');
            let is_query = !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic() && b != b'#');
            return is_query.then(|| Self::Sas(Box::from(token)));
        }
        AccountKey::parse(text).map(Self::Key)
    }

    /// Whether this is a shared access signature.
    pub fn is_sas(&self) -> bool {
        matches!(self, Self::Sas(_))
    }
}

impl ConnectionString {
    /// The key or the signature; `None` if there is neither, or if it is malformed.
    pub fn credential(&self) -> Option<Credential> {
        match (&self.key, &self.sas) {
            (Some(key), _) => AccountKey::parse(key).map(Credential::Key),
            (None, Some(sas)) if sas.contains("sig=") => Some(Credential::Sas(Box::from(sas.trim_start_matches('?')))),
            _ => None,
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_sas() { "Sas(hidden)" } else { "Key(hidden)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AAECAwQFBgcICQoLDA0ODw==";

    #[test]
    fn keys_signatures_and_connection_strings() {
        assert!(matches!(Credential::parse(&format!(" {KEY}\n")), Some(Credential::Key(_))));
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
