//! User delegation (specification 08 §11): who requests a key, which keys may have made a signature, and whether the
//! request has a token of the user to whom it is bound.
//!
//! The server does not store issued keys. A signature names its principal but not the principal's issuer, so the
//! server derives and tries the key of that principal at each issuer.

use super::bearer::{self, TokenVerifier};
use super::oauth::{AcceptedToken, OAuth, Subject};
use crate::accounts::Accounts;
use crate::failure::Failure;
use crate::request::IncomingRequest;
use model::AccountName;
use model::limits::USER_DELEGATION_FIELD_BYTES_MAX;
use wire::reason::ReasonKind;
use wire::sas::Delegation;
use wire::sas::user_delegation::{Delegator, KeyOwner, KeyTerms, SubjectClaim};
use wire::signing::AccountKey;

/// Returns the principal of a token and the inputs for its user delegation key, or `None` if the request does not ask
/// for such a key.
///
/// The key is derived from the first key of the account.
pub(crate) fn delegator(
    accounts: &Accounts,
    verifier: &TokenVerifier,
    token: &AcceptedToken,
    account: &AccountName,
    incoming: &IncomingRequest<'_>,
) -> Option<Delegator> {
    if incoming.options.comp.as_deref() != Some("userdelegationkey") {
        return None;
    }
    // A signature could not contain a longer ID.
    let Subject { issuer, claim, id, tenant } = token
        .subject()
        .filter(|subject| subject.id.len().max(subject.tenant.len()) <= USER_DELEGATION_FIELD_BYTES_MAX)?;
    Some(Delegator {
        account_key: accounts.keys(account)?.first()?.clone(),
        account: account.clone(),
        // Without issuers, no signature with the key is accepted.
        issuer: verifier.oauth().map_or("", |oauth| oauth.name(issuer)).to_owned(),
        claim,
        id: id.to_owned(),
        tenant: tenant.to_owned(),
    })
}

/// Returns an account's keys for the given terms: by issuer, then by the claim that may hold the ID, then by account
/// key. [`signer`] depends on this order.
pub(crate) fn keys(
    oauth: Option<&OAuth>,
    account: &str,
    account_keys: &[AccountKey],
    terms: &KeyTerms<'_>,
) -> Vec<AccountKey> {
    let Some(oauth) = oauth else { return Vec::new() };
    let owners = candidate_owners(oauth).map(|(issuer, claim)| KeyOwner { account, issuer: oauth.name(issuer), claim });
    owners.flat_map(|owner| account_keys.iter().map(move |key| terms.key(key, owner))).collect()
}

/// Returns the principal whose key made a signature, or `None` if the principal's issuer no longer has the signature's
/// tenant.
pub(crate) fn signer<'d>(
    oauth: &OAuth,
    account_keys: &[AccountKey],
    delegation: &'d Delegation<'_>,
) -> Option<Subject<'d>> {
    let (issuer, claim) = candidate_owners(oauth).nth(delegation.signer.checked_div(account_keys.len())?)?;
    let (id, tenant) = (&delegation.key.delegator, &delegation.key.tenant);
    oauth.accepts_tenant(issuer, tenant).then_some(Subject { issuer, claim, id, tenant })
}

fn candidate_owners(oauth: &OAuth) -> impl Iterator<Item = (usize, SubjectClaim)> {
    (0..oauth.issuers()).flat_map(|issuer| SubjectClaim::ALL.map(|claim| (issuer, claim)))
}

/// Checks that the request has a token of the user to whom the signature is bound, if it is bound to one.
///
/// UNVERIFIED (08 §11.4): the error codes for a missing token and for a different user's token; that the user needs no
/// role.
pub(crate) async fn check_user(
    oauth: &OAuth,
    signer: Subject<'_>,
    delegation: &Delegation<'_>,
    incoming: &IncomingRequest<'_>,
) -> Result<(), Failure> {
    if delegation.user.is_empty() {
        return Ok(());
    }
    let credential = incoming.head.authorization.and_then(bearer::credential);
    let credential =
        credential.ok_or_else(|| {
            Failure::authentication(ReasonKind::SasUser.because(
                "The signature is bound to a user (sduoid), but the request has no bearer token of that user.",
            ))
        })?;
    let token = bearer::verify(oauth, credential, incoming).await?;
    if token.subject().is_some_and(|subject| is_bound_user(oauth, signer, delegation, subject)) {
        return Ok(());
    }
    let detail = "The bearer token does not belong to the user to whom the signature is bound (sduoid).";
    Err(Failure::authentication(ReasonKind::SasUser.because(detail)))
}

/// A user of a different issuer is accepted only if the configuration lists that issuer's tenants, because any issuer
/// can write any tenant into its tokens. The cloud service, too, accepts users of other tenants only if the account
/// allows it.
fn is_bound_user(oauth: &OAuth, signer: Subject<'_>, delegation: &Delegation<'_>, subject: Subject<'_>) -> bool {
    let user_tenant = &*delegation.key.delegated_tenant;
    let tenant = if user_tenant.is_empty() { signer.tenant } else { user_tenant };
    let is_of_signer = subject.issuer == signer.issuer && subject.claim == signer.claim;
    let is_of_listed_tenant = subject.claim == SubjectClaim::Oid && oauth.has_tenant(subject.issuer, tenant);
    subject.id == delegation.user && subject.tenant == tenant && (is_of_signer || is_of_listed_tenant)
}
