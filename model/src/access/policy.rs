//! Stored access policies of a table. Shared access signatures that refer to a policy can be changed and revoked
//! through it (08 §7, 10 §7).
//!
//! Invariant: a table has at most five policies, with distinct IDs.

use crate::DateTime;
use crate::limits::{POLICIES_PER_TABLE_MAX, POLICY_ID_UTF16_UNITS_MAX};
use crate::name::utf16_units;
use crate::permissions::Permissions;

/// A stored access policy. A signature that refers to it must specify the fields that the policy leaves open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAccessPolicy {
    id: Box<str>,
    /// The time from which signatures are valid.
    pub start: Option<DateTime>,
    /// The time until which signatures are valid.
    pub expiry: Option<DateTime>,
    /// The permissions of signatures: letters from `raud`.
    pub permissions: Option<Permissions>,
}

impl StoredAccessPolicy {
    /// Creates a policy that leaves everything open. Returns `None` if the ID is empty or longer than 64 characters.
    pub fn new(id: &str) -> Option<Self> {
        let fits = !id.is_empty() && utf16_units(id) <= POLICY_ID_UTF16_UNITS_MAX;
        fits.then(|| Self { id: Box::from(id), start: None, expiry: None, permissions: None })
    }

    /// Returns the ID, which is unique in the table.
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// The policies of a table: at most five, with distinct IDs, in the order in which they were set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredAccessPolicies(Box<[StoredAccessPolicy]>);

impl StoredAccessPolicies {
    /// Creates the list of policies. Returns `None` if there are more than five, or if two have the same ID.
    pub fn new(policies: Vec<StoredAccessPolicy>) -> Option<Self> {
        let is_new = |(index, policy): (usize, &StoredAccessPolicy)| {
            policies.iter().take(index).all(|earlier| earlier.id != policy.id)
        };
        let fits = policies.len() <= POLICIES_PER_TABLE_MAX && policies.iter().enumerate().all(is_new);
        fits.then(|| Self(policies.into_boxed_slice()))
    }

    /// Returns the policy with the given ID. UNVERIFIED (08 §7): IDs are case-sensitive.
    pub fn get(&self, id: &str) -> Option<&StoredAccessPolicy> {
        self.0.iter().find(|policy| policy.id() == id)
    }

    /// Returns the policies in order.
    pub fn as_slice(&self) -> &[StoredAccessPolicy] {
        &self.0
    }

    /// Returns whether there are no policies.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        assert!(StoredAccessPolicy::new("").is_none());
        assert!(StoredAccessPolicy::new(&"é".repeat(64)).is_some());
        assert!(StoredAccessPolicy::new(&"é".repeat(65)).is_none());
        let policies = |ids: &[&str]| {
            StoredAccessPolicies::new(ids.iter().map(|id| StoredAccessPolicy::new(id).unwrap()).collect())
        };
        assert!(policies(&["1", "2", "3", "4", "5"]).is_some());
        assert!(policies(&["1", "2", "3", "4", "5", "6"]).is_none());
        assert!(policies(&["a", "b", "a"]).is_none());
        let differ_by_case = policies(&["a", "A"]).unwrap();
        assert_eq!(differ_by_case.get("A").unwrap().id(), "A");
        assert!(differ_by_case.get("b").is_none());
    }
}
