//! Shared access signatures: credentials in the URL of a request (specification 08).

use super::delegation;
use super::oauth::OAuth;
use crate::accounts::{Accounts, placeholder_keys};
use crate::failure::Failure;
use crate::request::{IncomingRequest, RequestContext};
use crate::telemetry::traces::step;
use engine::{Engine, ReadError, TableKey};
use model::{AccountName, DateTime, Grant, Scope, StoredAccessPolicies, TableName};
use std::pin::pin;
use wire::reason::ReasonKind;
use wire::sas::{self, SasContext, SasError, verify_delegated};
use wire::signing::AccountKey;

/// Until the signature is verified, nothing depends on whether an account, a table or a policy exists.
pub(crate) async fn authenticate(
    engine: &dyn Engine,
    accounts: &Accounts,
    oauth: Option<&OAuth>,
    context: &mut RequestContext<'_>,
) -> Result<Grant, Failure> {
    let incoming = context.incoming;
    let account = incoming.target.account.as_ref();
    let keys = account.and_then(|account| accounts.keys(account));
    let name = account.map_or("", AccountName::as_str);
    let tried: &[AccountKey] = keys.unwrap_or(placeholder_keys());
    let sas = verify_delegated(incoming.raw_query, name, tried, |terms| delegation::keys(oauth, name, tried, terms));
    let (Ok(sas), Some(account), Some(keys)) = (&sas, account, keys) else {
        return Err(match (sas, account) {
            (_, None) => Failure::authentication(ReasonKind::AccountNotInUrl.because("")),
            (Err(error), Some(_)) => refusal(error, incoming),
            (Ok(_), Some(_)) => Failure::authentication(ReasonKind::AccountUnknown.because("")),
        });
    };
    let policies = match sas.policy_table() {
        Some(table) => policies(engine, account, table).await?,
        None => StoredAccessPolicies::default(),
    };
    let used = SasContext {
        now: DateTime::from_system_time(incoming.now),
        source: incoming.connection.client,
        is_https: incoming.connection.is_tls,
    };
    let mut scope = sas.clone().scope(&policies, used).map_err(|error| refusal(error, incoming))?;
    if let Some((oauth, delegation)) = oauth.zip(sas.delegation()) {
        let signer = delegation::signer(oauth, keys, delegation);
        let signer = signer.ok_or_else(|| {
            let detail = "No configured issuer has the tenant of the signature's principal (sktid).";
            Failure::authentication(ReasonKind::SasUser.because(detail))
        })?;
        delegation::check_user(oauth, signer, delegation, incoming).await?;
        if let Scope::Delegated { roles, .. } = &mut scope {
            *roles = oauth.roles_by_id(signer, account);
        }
    }
    context.expires = sas.expiry(&policies).map(DateTime::to_system_time);
    Ok(Grant { account: account.clone(), scope })
}

/// The client gets only the mistake that the token itself shows. Otherwise, what it gets would depend on whether the
/// signature is right.
fn refusal(error: SasError, incoming: &IncomingRequest<'_>) -> Failure {
    let defect = sas::defect(incoming.raw_query, DateTime::from_system_time(incoming.now));
    let reason = defect.unwrap_or_else(|| error.reason());
    // Only these tell the operator more than the reason: the string to sign, and the times of a policy.
    let tells_more = matches!(error, SasError::Signature(_) | SasError::Time { .. } | SasError::KeyTime { .. });
    Failure { source: tells_more.then(|| error.into()), ..Failure::authentication(reason) }
}

async fn policies(engine: &dyn Engine, account: &AccountName, table: &str) -> Result<StoredAccessPolicies, Failure> {
    let Ok(name) = TableName::new(table) else { return Ok(StoredAccessPolicies::default()) };
    let table = TableKey { account: account.clone(), name };
    match step("read policies", pin!(engine.policies_in_effect(&table))).await {
        Ok(policies) => Ok(policies),
        Err(ReadError::TableNotFound) => Ok(StoredAccessPolicies::default()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::ConnectionInfo;
    use engine::Memory;
    use model::StoredAccessPolicy;
    use model::clock::SystemClock;
    use std::net::Ipv4Addr;
    use std::time::SystemTime;
    use wire::sas::{Fields, parse_time};

    const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==";

    /// Creates a signature for a table and returns the scope that the server grants for it, or the reason that the
    /// server logs.
    async fn scope(engine: &Memory, account: &str, key: &AccountKey, policy: &str) -> Result<Scope, String> {
        let mut fields = Fields {
            version: "2019-02-02".into(),
            table: "Harvest".into(),
            policy: policy.into(),
            ..Fields::default()
        };
        if policy.is_empty() {
            (fields.permissions, fields.expiry) = ("r".into(), "9999-12-31".into());
        }
        let query = fields.sign(account, key).unwrap();
        let accounts = Accounts::from_environment_text(&format!("orchardacct:{KEY}")).unwrap();
        let path = format!("/{account}/Harvest()");
        let (parts, ()) =
            http::Request::get(format!("{path}?{query}")).header("host", "127.0.0.1").body(()).unwrap().into_parts();
        let connection = ConnectionInfo::direct((Ipv4Addr::LOCALHOST, 1024).into(), false);
        let incoming = IncomingRequest::new(&parts, connection, (crate::clock::instant(), SystemTime::now()), &[]);
        let mut context = RequestContext::new(&incoming);
        let grant = authenticate(engine, &accounts, None, &mut context).await;
        grant.map(|grant| grant.scope).map_err(|failure| failure.error.reason().unwrap().line(false))
    }

    #[tokio::test]
    async fn nobody_can_sign_for_an_account_that_does_not_exist() {
        let engine = Memory::new(SystemClock);
        let key = AccountKey::parse(KEY).unwrap();
        assert!(matches!(scope(&engine, "orchardacct", &key, "").await, Ok(Scope::Table { .. })));
        for account in ["ghostacct", "orchardacct"] {
            assert!(scope(&engine, account, &placeholder_keys()[0], "").await.is_err(), "{account}");
        }
    }

    #[tokio::test]
    async fn policies_are_those_of_the_table_at_this_moment() {
        let engine = Memory::new(SystemClock);
        let (key, account) = (AccountKey::parse(KEY).unwrap(), AccountName::new("orchardacct").unwrap());
        let table = TableKey { account, name: TableName::new("harvest").unwrap() };
        let unknown = ReasonKind::SasPolicy
            .because("The table has no stored access policy with the identifier in the signature (si).")
            .line(false);
        assert_eq!(scope(&engine, "orchardacct", &key, "pol").await, Err(unknown.clone()), "there is no table");
        engine.create_table(&table).await.unwrap();
        assert_eq!(scope(&engine, "orchardacct", &key, "pol").await, Err(unknown.clone()));
        let mut policy = StoredAccessPolicy::new("pol").unwrap();
        (policy.permissions, policy.expiry) = (Some(model::Permissions::READ), parse_time("9999-12-31"));
        engine.set_policies(&table, StoredAccessPolicies::new(vec![policy]).unwrap()).await.unwrap();
        assert!(matches!(scope(&engine, "orchardacct", &key, "pol").await, Ok(Scope::Table { .. })));
        engine.delete_table(&table).await.unwrap();
        assert_eq!(scope(&engine, "orchardacct", &key, "pol").await, Err(unknown));
    }
}
