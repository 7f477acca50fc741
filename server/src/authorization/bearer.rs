//! Requests with `Authorization: Bearer`: grants for valid tokens, errors for invalid or missing ones (specification
//! 09 §1, §4).

use super::oauth::{AcceptedToken, OAuth, OAuthConfig, TokenError};
use super::unverified_tokens;
use crate::accounts::Accounts;
use crate::failure::{Failure, Layer};
use crate::request::{IncomingRequest, RequestContext};
use http::HeaderValue;
use model::roles::RoleScope;
use model::{AccountName, Grant, Scope};
use tracing::debug;
use wire::reason::ReasonKind;
use wire::{ErrorCode, ServiceError, Version};

/// Returns the part of the header after the scheme Bearer, which may be empty, or `None` for a different scheme.
pub(crate) fn credential(header: &HeaderValue) -> Option<&str> {
    let header = header.to_str().ok()?.trim();
    let (scheme, rest) = header.split_once(' ').unwrap_or((header, ""));
    scheme.eq_ignore_ascii_case("Bearer").then(|| rest.trim())
}

/// The bearer tokens that a server accepts.
#[derive(Debug, Clone)]
pub enum BearerTokens {
    /// Tokens of the configured issuers.
    OAuth(Box<OAuthConfig>),
    /// Every token whose claims are valid, whoever signed it, like the emulator with `--oauth basic`. Such a server
    /// protects nothing, because anyone can write such a token.
    Unverified,
}

/// The verifier of bearer tokens, which decides about everything that depends on how tokens are checked.
#[derive(Debug)]
pub(crate) enum TokenVerifier {
    OAuth(OAuth),
    /// See [`unverified_tokens`].
    Unverified,
}

impl TokenVerifier {
    pub(crate) async fn start(tokens: BearerTokens) -> anyhow::Result<Self> {
        match tokens {
            BearerTokens::OAuth(config) => OAuth::start(*config).await.map(Self::OAuth),
            BearerTokens::Unverified => Ok(Self::Unverified),
        }
    }

    /// Returns the verifier of user delegation keys. Without issuers, there are no such keys.
    pub(crate) fn oauth(&self) -> Option<&OAuth> {
        match self {
            Self::OAuth(oauth) => Some(oauth),
            Self::Unverified => None,
        }
    }

    pub(crate) fn challenge(&self) -> Option<&HeaderValue> {
        self.oauth().and_then(OAuth::challenge)
    }

    async fn verify(&self, credential: &str, incoming: &IncomingRequest<'_>) -> Result<AcceptedToken, Failure> {
        match self {
            Self::OAuth(oauth) => verify(oauth, credential, incoming).await,
            Self::Unverified => unverified_tokens::verify(token(credential).ok_or_else(malformed)?, incoming),
        }
    }

    fn check_operation(&self, incoming: &IncomingRequest<'_>) -> Result<(), Failure> {
        match self {
            Self::OAuth(_) => Ok(()),
            Self::Unverified => unverified_tokens::check_operation(incoming),
        }
    }

    fn roles(&self, token: &AcceptedToken, account: &AccountName) -> RoleScope {
        match self {
            Self::OAuth(oauth) => oauth.roles(token, account),
            Self::Unverified => unverified_tokens::roles(token),
        }
    }
}

pub(crate) async fn authenticate(
    accounts: &Accounts,
    verifier: &TokenVerifier,
    credential: &str,
    incoming: &IncomingRequest<'_>,
) -> Result<(AcceptedToken, Grant), Failure> {
    let accepted = verifier.verify(credential, incoming).await?;
    // Checked after the token, so that only the owner of a valid token learns whether an account exists.
    let account = incoming.target.account.as_ref().filter(|account| accounts.keys(account).is_some());
    let account = account.ok_or_else(|| Failure::authentication(ReasonKind::AccountUnknown.because("")))?;
    verifier.check_operation(incoming)?;
    let roles = verifier.roles(&accepted, account);
    debug!("a token was accepted for {account}: {}", roles.caller);
    Ok((accepted, Grant { account: account.clone(), scope: Scope::Roles(roles) }))
}

/// UNVERIFIED (09 §9): that the date of the request is not checked.
pub(crate) async fn verify(
    oauth: &OAuth,
    credential: &str,
    incoming: &IncomingRequest<'_>,
) -> Result<AcceptedToken, Failure> {
    let token = token(credential).ok_or_else(malformed)?;
    if !incoming.connection.is_tls && !oauth.allows_plain_http() {
        return Err(Failure::authentication(ReasonKind::BearerOverHttp.because("")));
    }
    let addressed = incoming.target.account.as_ref().map_or("", AccountName::as_str);
    oauth.verify(token, addressed, incoming.now).await.map_err(|error| refusal(error, incoming))
}

/// Returns the error for a request without any credential (07 §9). In versions with challenges, it says where to get a
/// token, if there is an issuer. In earlier versions, nothing seems to exist.
///
/// UNVERIFIED (07 §9): that without an issuer no version gets the challenge; that requests on anything but batches get
/// the error "not found", and since which version.
pub(crate) fn anonymous(verifier: Option<&TokenVerifier>, context: &mut RequestContext<'_>) -> Failure {
    let version = context.incoming.version().ok().flatten();
    let code = match version {
        Some(version) if version < Version::TABLE_SAS => None,
        Some(version) if version < Version::CHALLENGE => Some(ErrorCode::ResourceNotFound),
        Some(_) => verifier.map(|_| ErrorCode::NoAuthenticationInformation),
        None => None,
    };
    let reason = ReasonKind::CredentialMissing.because("");
    let Some(code) = code else { return Failure::authentication(reason) };
    context.version = version;
    Failure::at(Layer::MissingCredential, ServiceError::from(code).because(reason))
}

fn token(credential: &str) -> Option<&str> {
    let is_one = !credential.is_empty() && !credential.contains(|c: char| c.is_whitespace() || c == ',');
    is_one.then_some(credential)
}

/// UNVERIFIED (09 §9): the error code for a scheme without a token.
fn malformed() -> Failure {
    let reason = ReasonKind::AuthorizationMalformed.because("One token must follow the scheme Bearer.");
    Failure::at(Layer::Authentication, ServiceError::from(ErrorCode::InvalidAuthenticationInfo).because(reason))
}

fn refusal(error: TokenError, incoming: &IncomingRequest<'_>) -> Failure {
    if error == TokenError::KeysUnavailable {
        return Failure { source: Some(Box::new(error)), ..Failure::at(Layer::Authentication, ErrorCode::ServerBusy) };
    }
    // 401 in versions that have the challenge, and 403 in earlier ones (09 §3, recorded).
    let code = match incoming.version().ok().flatten() {
        Some(version) if version >= Version::CHALLENGE => ErrorCode::TokenRefused,
        _ => ErrorCode::AuthenticationFailed,
    };
    let refused = ServiceError::from(code).because(ReasonKind::TokenRefused.because(""));
    Failure { source: Some(Box::new(error)), ..Failure::at(Layer::Authentication, refused) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_token_after_the_scheme() {
        for (header, expected) in [
            ("Bearer a.b.c", Some(Some("a.b.c"))),
            ("bEARER   a.b.c ", Some(Some("a.b.c"))),
            ("Bearer", Some(None)),
            ("Bearer ", Some(None)),
            ("Bearer a, b", Some(None)),
            ("Bearer a b", Some(None)),
            ("Bearer a,b", Some(None)),
            ("Bearera.b.c", None),
            ("SharedKey a:b", None),
            ("", None),
        ] {
            let header = HeaderValue::from_static(header);
            assert_eq!(credential(&header).map(token), expected, "{header:?}");
        }
    }
}
