//! The audiences for which a token may be issued (specification 09 §2, §6).

const ACCOUNT: &str = "{account}";

/// The default: the audiences of the public storage service.
///
/// UNVERIFIED (09 §9): the suffixes of the sovereign clouds.
const STORAGE: [&str; 6] = [
    "https://storage.azure.com",
    "e406a681-f3d4-42a8-90b6-c2b029497af1",
    "https://{account}.table.core.windows.net",
    "https://{account}.table.core.chinacloudapi.cn",
    "https://{account}.table.core.usgovcloudapi.net",
    "https://{account}.table.core.cloudapi.de",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Audiences(Vec<String>);

impl Audiences {
    /// An empty list means the audiences of the public storage service.
    pub(crate) fn new(configured: &[String]) -> Self {
        if configured.is_empty() {
            return Self(STORAGE.map(str::to_owned).to_vec());
        }
        Self(configured.iter().map(|audience| without_slash(audience).to_owned()).collect())
    }

    /// One matching audience is enough.
    pub(crate) fn accept(&self, token: &[String], account: &str) -> bool {
        token.iter().map(|audience| without_slash(audience)).any(|audience| {
            self.0.iter().any(|accepted| {
                accepted.split_once(ACCOUNT).map_or_else(
                    || accepted == audience && account_of(accepted).is_none_or(|own| own == account),
                    |(before, after)| {
                        let own = audience.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
                        own == Some(account)
                    },
                )
            })
        })
    }
}

/// Returns the account to which an audience such as `https://orchardacct.table.example.net` is bound.
fn account_of(audience: &str) -> Option<&str> {
    let (_, host) = audience.split_once("://")?;
    let (account, rest) = host.split_once('.')?;
    rest.starts_with("table.").then_some(account)
}

fn without_slash(audience: &str) -> &str {
    audience.strip_suffix('/').unwrap_or(audience)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(configured: &[&str], token: &[&str], account: &str) -> bool {
        let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Audiences::new(&strings(configured)).accept(&strings(token), account)
    }

    #[test]
    fn the_public_service() {
        for (audience, accepted) in [
            ("https://storage.azure.com", true),
            ("https://storage.azure.com/", true),
            ("https://storage.azure.com//", false),
            ("https://storage.azure.com/x", false),
            ("e406a681-f3d4-42a8-90b6-c2b029497af1", true),
            ("https://orchardacct.table.core.windows.net", true),
            ("https://orchardacct.table.core.windows.net/", true),
            ("https://otheracct.table.core.windows.net", false),
            ("https://orchardacct.blob.core.windows.net", false),
            ("https://orchardacct.table.core.windows.net.example", false),
            ("", false),
        ] {
            assert_eq!(accepts(&[], &[audience], "orchardacct"), accepted, "{audience}");
        }
        assert!(accepts(&[], &["https://graph.example", "https://storage.azure.com"], "orchardacct"));
        assert!(!accepts(&[], &[], "orchardacct"));
    }

    #[test]
    fn configured_ones_replace_those_and_may_be_bound_to_an_account() {
        let own = ["api://tables/", "https://orchardacct.table.tables.example.net", "urn:{account}:tables"];
        for (audience, account, accepted) in [
            ("api://tables", "orchardacct", true),
            ("https://storage.azure.com", "orchardacct", false),
            ("https://orchardacct.table.tables.example.net/", "orchardacct", true),
            ("https://orchardacct.table.tables.example.net", "otheracct", false),
            ("urn:otheracct:tables", "otheracct", true),
            ("urn:otheracct:tables", "orchardacct", false),
            ("urn:{account}:tables", "orchardacct", false),
        ] {
            assert_eq!(accepts(&own, &[audience], account), accepted, "{audience} {account}");
        }
    }
}
