//! Shared access signatures: who sends a request that carries its credential in the address (specification 08).
//!
//! The pure part is `wire::sas`; this module brings in the account's keys, the table's policies, and the circumstances.

use crate::accounts::Accounts;
use crate::authentication::{Evidence, nobodys_key};
use crate::failure::Failure;
use model::{AccountName, DateTime, Grant, StoredAccessPolicies, TableName};
use store::{Engine, ReadError, TableKey};
use wire::sas::{Circumstances, verify};

/// Checks the token of a request, and says what it allows.
///
/// Until the signature is verified nothing depends on whether an account, a table or a policy exists.
pub(crate) async fn authenticate(
    engine: &impl Engine,
    accounts: &Accounts,
    evidence: &Evidence<'_>,
) -> Result<Grant, Failure> {
    let account = evidence.target.account.as_ref();
    let keys = account.and_then(|account| accounts.keys(account));
    let name = account.map_or("", AccountName::as_str);
    let sas = verify(evidence.raw_query, name, keys.unwrap_or(&[nobodys_key()]));
    let (Ok(sas), Some(account), Some(_)) = (&sas, account, keys) else {
        return Err(Failure::authentication(match sas {
            Err(error) => error.to_string(),
            Ok(_) => "there is no such account".to_owned(),
        }));
    };
    let policies = match sas.policy_table() {
        Some(table) => policies(engine, account, table).await?,
        None => StoredAccessPolicies::default(),
    };
    let used = Circumstances {
        now: DateTime::from_system_time(evidence.now),
        source: evidence.connection.peer.ip(),
        is_https: evidence.connection.is_tls,
    };
    let scope = sas.clone().scope(&policies, used).map_err(|error| Failure::authentication(error.to_string()))?;
    Ok(Grant { account: account.clone(), scope })
}

/// The policies of a table; a table that does not exist has none.
async fn policies(engine: &impl Engine, account: &AccountName, table: &str) -> Result<StoredAccessPolicies, Failure> {
    let Ok(name) = TableName::new(table) else { return Ok(StoredAccessPolicies::default()) };
    match engine.policies(&TableKey { account: account.clone(), name }).await {
        Ok(policies) => Ok(policies),
        Err(ReadError::TableNotFound) => Ok(StoredAccessPolicies::default()),
        Err(ReadError::Fault(fault)) => Err(fault.into()),
    }
}
