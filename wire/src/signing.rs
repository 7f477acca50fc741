//! Shared Key and Shared Key Lite: the `Authorization` header and the strings to sign (specification 07).
//!
//! Invariants: signatures are compared in constant time, and no key appears in `Debug` output.
//!
//! This module must not depend on accounts: the caller passes the keys to try.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::limits::ACCOUNT_KEY_BYTES_MIN;
use ring::hmac::{HMAC_SHA256, Key, sign};
use std::fmt;
use std::time::SystemTime;
use subtle::{Choice, ConstantTimeEq};

/// The name of the development account, built into every client of the emulator (07 §12).
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";

const SIGNATURE_BYTES: usize = 32;

/// An account key. Processing the key accounts for half the cost of a signature, so the resulting state is computed
/// once and copied for each signature.
#[derive(Clone)]
pub struct AccountKey {
    keyed: Key,
}

impl AccountKey {
    /// Parses the Base64 form. Returns `None` if it is not Base64 or if the key is shorter than 16 bytes.
    pub fn parse(base64: &str) -> Option<Self> {
        let bytes = STANDARD.decode(base64.trim()).ok()?;
        let keyed = Key::new(HMAC_SHA256, &bytes);
        (bytes.len() >= ACCOUNT_KEY_BYTES_MIN).then_some(Self { keyed })
    }

    /// Returns the signature of a text, in Base64.
    pub fn sign(&self, text: &str) -> String {
        STANDARD.encode(self.mac(text))
    }

    /// Derives a key: the signature of the text is the new key.
    pub fn derived(&self, text: &str) -> Self {
        Self { keyed: Key::new(HMAC_SHA256, &self.mac(text)) }
    }

    /// Returns whether a signature belongs to the text, in constant time.
    fn verifies(&self, text: &str, signature: &[u8; SIGNATURE_BYTES]) -> Choice {
        self.mac(text).ct_eq(signature)
    }

    fn mac(&self, text: &str) -> [u8; SIGNATURE_BYTES] {
        let tag = sign(&self.keyed, text.as_bytes());
        tag.as_ref().try_into().expect("the tag of HMAC-SHA256 has 32 bytes")
    }
}

impl fmt::Debug for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccountKey(hidden)")
    }
}

/// Returns true if one of the keys created the signature. Always tries every key, so the duration does not depend on
/// which one matches.
pub fn any_verifies<'k>(
    keys: impl IntoIterator<Item = &'k AccountKey>,
    text: &str,
    signature: &[u8; SIGNATURE_BYTES],
) -> bool {
    let verified = keys.into_iter().fold(Choice::from(0), |known, key| known | key.verifies(text, signature));
    verified.into()
}

/// The scheme with which a request was signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `SharedKey`
    SharedKey,
    /// `SharedKeyLite`
    SharedKeyLite,
}

/// An `Authorization` header with an account and a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorization<'a> {
    /// The scheme with which the request was signed.
    pub scheme: Scheme,
    /// The account in the header.
    pub account: &'a str,
    /// The signature; `None` if it is not 32 bytes in Base64 and therefore cannot be valid.
    pub signature: Option<[u8; SIGNATURE_BYTES]>,
}

impl<'a> Authorization<'a> {
    /// Parses the header. Returns `None` if the scheme is unknown or the header is malformed (07 §2).
    pub fn parse(header: &'a str) -> Option<Self> {
        let (scheme, credential) = header.trim().split_once(' ')?;
        let scheme = if scheme.eq_ignore_ascii_case("SharedKey") {
            Scheme::SharedKey
        } else if scheme.eq_ignore_ascii_case("SharedKeyLite") {
            Scheme::SharedKeyLite
        } else {
            return None;
        };
        let (account, signature) = credential.trim_start().split_once(':')?;
        if account.is_empty() || signature.is_empty() {
            return None;
        }
        Some(Self { scheme, account, signature: read_signature(signature) })
    }
}

/// The parts of a request that a signature covers.
#[derive(Debug, Clone, Copy)]
pub struct SignedRequest<'a> {
    /// The HTTP method as sent.
    pub method: &'a str,
    /// The `Content-MD5` header, or an empty string.
    pub content_md5: &'a str,
    /// The `Content-Type` header as sent, or an empty string.
    pub content_type: &'a str,
    /// The `x-ms-date` header as sent, or otherwise the `Date` header.
    pub date: &'a str,
    /// The account, without `-secondary`.
    pub account: &'a str,
    /// The path as sent.
    pub path: &'a str,
    /// The query option `comp`, decoded (`QueryOptions::comp`).
    pub comp: Option<&'a str>,
}

impl SignedRequest<'_> {
    /// Returns the string to sign (07 §4, §6).
    pub fn string_to_sign(&self, scheme: Scheme) -> String {
        let Self { method, content_md5, content_type, date, account, path, comp } = self;
        let (comp_name, comp) = comp.map_or(("", ""), |comp| ("?comp=", comp));
        let head: &[&str] = match scheme {
            Scheme::SharedKey => &[method, "\n", content_md5, "\n", content_type, "\n"],
            Scheme::SharedKeyLite => &[],
        };
        let resource = [date, "\n/", account, path, comp_name, comp];
        let mut text = String::with_capacity(head.iter().chain(&resource).map(|part| part.len()).sum());
        text.extend(head.iter().chain(&resource).copied());
        text
    }
}

/// Returns `None` if the signature is not Base64 or not 32 bytes.
fn read_signature(text: &str) -> Option<[u8; SIGNATURE_BYTES]> {
    // The library requires space for whole groups of three bytes.
    let mut bytes = [0; SIGNATURE_BYTES.next_multiple_of(3)];
    let length = STANDARD.decode_slice(text, &mut bytes).ok()?;
    bytes.get(..length)?.try_into().ok()
}

const ASCTIME_BYTES: usize = 24;

/// Parses the date of a request: an IMF-fixdate such as `Fri, 14 Mar 2031 08:15:30 GMT`, or the form of RFC 850, such
/// as `Friday, 14-Mar-31 08:15:30 GMT`, whose years are from 1970 to 2069 (07 §5).
///
/// UNVERIFIED (07 §5): that the third form of HTTP dates (asctime) is refused.
pub fn parse_date(text: &str) -> Option<SystemTime> {
    // The library accepts all three forms. Only an asctime date has this length.
    if text.len() == ASCTIME_BYTES {
        return None;
    }
    httpdate::parse_http_date(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY1: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==";
    const KEY2: &str = "QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl9gYWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7fH1+fw==";
    const DEVELOPMENT_KEY: &str =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    const DATE: &str = "Fri, 14 Mar 2031 08:15:30 GMT";
    const JSON: &str = "application/json;odata=nometadata";
    const XML: &str = "application/xml";
    const BATCH: &str = "multipart/mixed; boundary=batch_70492a19-9861-4577-8a60-06bcd7a0382d";

    /// The worked examples of 07 §15: name, key, account, method, content type, path, comp, Shared Key, Lite.
    #[test]
    fn worked_examples() {
        let acct = "orchardacct";
        let python = "/Harvest(PartitionKey='O%27%27Neil%20%26%20S%C3%B6hne',RowKey='a%20b%2Fc%25d%2Be%23f%3Fg')";
        let javascript = "/Harvest(PartitionKey='O''Neil%20%26%20S%C3%B6hne',RowKey='a%20b%2Fc%25d%2Be%23f%3Fg')";
        let python_path_style = format!("/orchardacct{python}");
        let javascript_path_style = format!("/orchardacct{javascript}");
        for (name, key, account, method, content_type, path, comp, shared_key, lite) in [
            (
                "E1",
                KEY1,
                acct,
                "POST",
                JSON,
                "/orchardacct/Tables",
                None,
                "q/mb/Zunjuas41qQB7pKXu4ijhIYPwZ3whcknXs5MdE=",
                "gXFCHjnLSEf8jvHXmduo7mcp1RjmItmWsSnoTCk1DpM=",
            ),
            (
                "E2",
                KEY2,
                acct,
                "POST",
                JSON,
                "/orchardacct/Tables",
                None,
                "VTeLzBaDXy8P6IcsGktiu+N/2d6lOcMRilHhBvT65Dg=",
                "",
            ),
            (
                "E3",
                KEY1,
                acct,
                "POST",
                JSON,
                "/Tables",
                None,
                "gOga3CHw6Ne/1ICXtpcDT8Xo2Iw37gbJdi9CIATuNSs=",
                "vGmVSNIP8cNLKrOELkQ7BWUkdWROqLRvFme82GBDBi4=",
            ),
            (
                "E4",
                KEY1,
                acct,
                "GET",
                "",
                "/orchardacct/Harvest()",
                None,
                "lpY/k/STdKCUPFKnCtbp0ayDGd9DAinGKcpvgRmVThA=",
                "RQrpBE7cZFz9aoEAdHK8XR8oZIfqyn17zqQDLKIILCw=",
            ),
            ("E5", KEY1, acct, "GET", "", python, None, "I0o747A0EMvFXNu43lHEHNo7NaTw+mcHFQjtAO16mzM=", ""),
            ("E5", KEY1, acct, "GET", "", javascript, None, "", "gRSSzk9yeeSj9wQCoK/QXY3EPR5J5UcVMZr9i2JCu0E="),
            ("E5", KEY1, acct, "GET", "", &python_path_style, None, "Zu7ItA6DNDBVvbrQEIKjYyGGVK4juqrlYlM6PB+wUks=", ""),
            (
                "E5",
                KEY1,
                acct,
                "GET",
                "",
                &javascript_path_style,
                None,
                "",
                "GfvVQcCBkVTsYEvA9DODW0je83NLQM9jcLsxgcSRKGg=",
            ),
            (
                "E6",
                KEY1,
                acct,
                "PUT",
                XML,
                "/orchardacct/Harvest",
                Some("acl"),
                "qToxA3dVynnlz5c+zDCEOVEuo/bd1q1ZfrJrESJo4vU=",
                "bVK8+7vI9Wa5x8yaUdDtgf40TlIrpPxMY9nrVAEZjQs=",
            ),
            (
                "E7",
                KEY1,
                acct,
                "GET",
                "",
                "/orchardacct/",
                Some("properties"),
                "4sShuFMlNXku3Ni6gcrKxP1YT0zPuC4XlF/HRQUxX7s=",
                "CEZErzU3y9qj9P8lLWGXtPYDGoIHUAEUMwlJ0BI9OyE=",
            ),
            (
                "E8",
                KEY1,
                acct,
                "GET",
                "",
                "/",
                Some("stats"),
                "xmZ2EuLCrAB0pIaLUjcH6Cn9emtWX4+KAcxANQEqKfQ=",
                "IYopks02NL0fUcPVatV5YxyQFbm1ACmjR9pml+8kcRk=",
            ),
            (
                "E9",
                KEY1,
                acct,
                "GET",
                "",
                "/orchardacct/",
                Some("stats"),
                "IadgS4KuhHEumIYDnuq0Ev+9rGWC30dtXcYCmifejUo=",
                "",
            ),
            (
                "E10",
                DEVELOPMENT_KEY,
                "devstoreaccount1",
                "GET",
                "",
                "/devstoreaccount1/Tables",
                None,
                "7YRwk9IINoADGo0/xJ2T+zoCBntNqNdBT2pfXyEQk/w=",
                "cC3ZFDFjlWRvd6r2WF+pGIsSCF9PVWrneVAp7/MmKvc=",
            ),
            (
                "E11",
                KEY1,
                acct,
                "POST",
                BATCH,
                "/$batch",
                None,
                "gBf95ZI7o8gU6UQ16wVZr93aAc1IS+fNgz0Z10UoIQw=",
                "wnZ3dpFAG0aQGKMzNXV5vh2gftkIqHv5eZ/ggNZqy6Q=",
            ),
        ] {
            let key = AccountKey::parse(key).unwrap();
            let signed = SignedRequest { method, content_md5: "", content_type, date: DATE, account, path, comp };
            if !shared_key.is_empty() {
                assert_eq!(key.sign(&signed.string_to_sign(Scheme::SharedKey)), shared_key, "{name} {path}");
            }
            if !lite.is_empty() {
                assert_eq!(key.sign(&signed.string_to_sign(Scheme::SharedKeyLite)), lite, "{name} {path}");
            }
        }
    }

    /// HMAC-SHA-256 test cases 1 and 6 of RFC 4231: a key shorter and a key longer than a block of the hash.
    #[test]
    fn signatures_are_those_of_rfc_4231() {
        for (key, text, expected) in [
            (&[0x0B; 20][..], "Hi There", "sDRMYdjbOFNcqK/OrwvxK4gdwgDJgz2nJuk3bC4yz/c="),
            (
                &[0xAA; 131][..],
                "Test Using Larger Than Block-Size Key - Hash Key First",
                "YOQxWR7gtn8Niiaqy/W3f44LxiE3KMUUBUYEDw7jf1Q=",
            ),
        ] {
            assert_eq!(AccountKey::parse(&STANDARD.encode(key)).unwrap().sign(text), expected, "{text}");
        }
    }

    #[test]
    fn the_strings_to_sign() {
        let signed = SignedRequest {
            method: "PUT",
            content_md5: "",
            content_type: XML,
            date: DATE,
            account: "a",
            path: "/a/t",
            comp: Some("acl"),
        };
        assert_eq!(
            signed.string_to_sign(Scheme::SharedKey),
            format!("PUT\n\napplication/xml\n{DATE}\n/a/a/t?comp=acl")
        );
        assert_eq!(signed.string_to_sign(Scheme::SharedKeyLite), format!("{DATE}\n/a/a/t?comp=acl"));
    }

    #[test]
    fn either_key_verifies_and_every_changed_part_is_noticed() {
        let keys = [AccountKey::parse(KEY1).unwrap(), AccountKey::parse(KEY2).unwrap()];
        for key in &keys {
            let signature: [u8; 32] = STANDARD.decode(key.sign("text")).unwrap().try_into().unwrap();
            assert!(any_verifies(&keys, "text", &signature));
            assert!(!any_verifies(&keys, "texu", &signature));
        }
        assert!(!any_verifies(&keys, "text", &[0; 32]));
    }

    #[test]
    fn authorization_headers() {
        let parsed = Authorization::parse("SharedKey acct:VTeLzBaDXy8P6IcsGktiu+N/2d6lOcMRilHhBvT65Dg=").unwrap();
        assert_eq!((parsed.scheme, parsed.account, parsed.signature.is_some()), (Scheme::SharedKey, "acct", true));
        let lite = Authorization::parse("  sharedkeylite  acct:AAAA ").unwrap();
        assert_eq!((lite.scheme, lite.account, lite.signature), (Scheme::SharedKeyLite, "acct", None));
        for malformed in
            ["", "SharedKey", "SharedKey acct", "SharedKey :x", "SharedKey acct:", "Basic acct:x", "SharedKeyacct:x"]
        {
            assert_eq!(Authorization::parse(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn dates() {
        let date = parse_date(DATE);
        assert!(date.is_some());
        // The names of the days differ in length.
        for (text, date) in [
            ("Friday, 14-Mar-31 08:15:30 GMT", date),
            ("Sunday, 06-Nov-94 08:49:37 GMT", parse_date("Sun, 06 Nov 1994 08:49:37 GMT")),
            ("Tuesday, 02-Jan-01 00:00:00 GMT", parse_date("Tue, 02 Jan 2001 00:00:00 GMT")),
            ("Wednesday, 29-Feb-12 23:59:59 GMT", parse_date("Wed, 29 Feb 2012 23:59:59 GMT")),
            ("Thursday, 01-Jan-70 00:00:00 GMT", Some(SystemTime::UNIX_EPOCH)),
            ("Tuesday, 31-Dec-69 23:59:59 GMT", parse_date("Tue, 31 Dec 2069 23:59:59 GMT")),
        ] {
            assert!(date.is_some());
            assert_eq!(parse_date(text), date, "{text}");
        }
        for malformed in [
            "",
            "Fri, 4 Mar 2031 08:15:30 GMT",
            "Friday, 4-Mar-31 08:15:30 GMT",
            "Friday, 14 Mar 31 08:15:30 GMT",
            "Friday, 14-Mar-2031 08:15:30 GMT",
            "Fri, 14-Mar-31 08:15:30 GMT",
            "Saturday, 14-Mar-31 08:15:30 GMT",
            "Friday, 14-Mar-31 08:15:30 UTC",
            "friday, 14-mar-31 08:15:30 gmt",
            "Friday, 14-Mar-31 08:15:30",
            "Fri Mar 14 08:15:30 2031",
            "2031-03-14T08:15:30Z",
            "Sat, 14 Mar 2031 08:15:30 GMT",
            "Sun, 30 Feb 2031 08:15:30 GMT",
            "fri, 14 mar 2031 08:15:30 gmt",
            "Fri,  4 Mar 2031 08:15:30 GMT",
            "Fri, +4 Mar 2031 08:15:30 GMT",
            "Fri, 14 Mar 2031 08:15:60 GMT",
            "Fri, 14 Mar 2031 24:15:30 GMT",
            "Sun, 14 Mar 1909 08:15:30 GMT",
        ] {
            assert_eq!(parse_date(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn keys_are_hidden_and_not_too_short() {
        assert_eq!(format!("{:?}", AccountKey::parse(KEY1).unwrap()), "AccountKey(hidden)");
        assert!(AccountKey::parse("AAAA").is_none());
        assert!(AccountKey::parse("not base64!").is_none());
    }
}
