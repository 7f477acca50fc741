//! User delegation keys, and signatures created with them (specification 08 §11), for tests.

use crate::issuer::now;
use model::DateTime;
use std::time::{Duration, UNIX_EPOCH};
use wire::sas::Fields;
use wire::signing::AccountKey;
use wire::xml::Element;

/// The first version that supports user delegation.
pub const VERSION: &str = "2025-07-05";
/// The URL path of the operation.
pub const PATH: &str = "/orchard/?restype=service&comp=userdelegationkey";
/// The tenant of most principals.
pub const TENANT: &str = "66666666-7777-8888-9999-000000000000";
/// A different tenant.
pub const ABROAD: &str = "77777777-7777-8888-9999-000000000000";

/// A user delegation key, as returned by the server.
#[derive(Debug)]
pub struct Key(Element);

impl Key {
    /// Reads a key from the body of a response.
    pub fn parse(body: &str) -> Self {
        Self(Element::parse(body.as_bytes()).unwrap())
    }

    /// Returns the text of an element; empty if there is none.
    pub fn text(&self, name: &str) -> &str {
        self.0.children.iter().find(|child| &*child.name == name).map_or("", |child| &child.text)
    }

    /// Creates a signature for the table `harvest` with this key, valid until the key expires. `set` changes some of
    /// its fields.
    pub fn sign(&self, permissions: &str, set: impl FnOnce(&mut Fields<'static>)) -> String {
        let owned = |name: &str| self.text(name).to_owned().into();
        let mut fields = Fields {
            version: VERSION.into(),
            table: "Harvest".into(),
            permissions: permissions.to_owned().into(),
            expiry: owned("SignedExpiry"),
            delegator: owned("SignedOid"),
            delegator_tenant: owned("SignedTid"),
            key_start: owned("SignedStart"),
            key_expiry: owned("SignedExpiry"),
            key_service: owned("SignedService"),
            key_version: owned("SignedVersion"),
            user_tenant: owned("SignedDelegatedUserTid"),
            ..Fields::default()
        };
        set(&mut fields);
        fields.sign("orchard", &AccountKey::parse(self.text("Value")).unwrap()).unwrap()
    }
}

/// Returns the time `seconds_from_now`, in the protocol's format.
pub fn time(seconds_from_now: i64) -> String {
    let seconds = now().checked_add_signed(seconds_from_now).unwrap();
    DateTime::from_system_time(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

/// Returns the body of a request for a key of an hour, with more elements.
pub fn key_info(more: &str) -> String {
    format!("<KeyInfo><Start>{}</Start><Expiry>{}</Expiry>{more}</KeyInfo>", time(-900), time(3600))
}
