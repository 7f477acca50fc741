//! Authentication: determines which credential a request carries, and checks Shared Key and Shared Key Lite
//! (specification 07).
//!
//! Runs before the body is read, and before a response could reveal whether an account or a table exists.

use super::bearer::{self, TokenVerifier};
use super::{delegation, shared_access};
use crate::accounts::{Accounts, placeholder_keys};
use crate::failure::{Failure, Layer};
use crate::request::{CredentialKind, IncomingRequest, RequestContext};
use engine::Engine;
use http::HeaderValue;
use model::Grant;
use model::limits::CLOCK_SKEW_SECONDS_MAX;
use std::time::{Duration, SystemTime};
use wire::reason::{ReasonKind, rough_duration};
use wire::signing::{AccountKey, Authorization, SignedRequest, any_verifies, parse_date};
use wire::{ErrorCode, ServiceError};

/// Checks the credential of a request and returns its grant. Sets in the context the credential kind, whether or not
/// the credential is valid, and the principal that requests a user delegation key.
///
/// UNVERIFIED (07 §2): that the header takes precedence even if the URL carries a signature, unless that signature is
/// bound to a user; that other fields of a signature without `sig` are no credential.
pub(crate) async fn authenticate(
    engine: &dyn Engine,
    accounts: &Accounts,
    verifier: Option<&TokenVerifier>,
    context: &mut RequestContext<'_>,
) -> Result<Grant, Failure> {
    let incoming = context.incoming;
    let header = incoming.head.authorization;
    let oauth = verifier.and_then(TokenVerifier::oauth);
    if let Some(verifier) = verifier
        && let Some(credential) = header.and_then(bearer::credential)
    {
        if incoming.is_bound_to_user() {
            context.credential = CredentialKind::SharedAccessSignature;
            return shared_access::authenticate(engine, accounts, oauth, context).await;
        }
        context.credential = CredentialKind::Bearer;
        let (token, grant) = bearer::authenticate(accounts, verifier, credential, incoming).await?;
        context.expires = Some(token.expires());
        context.delegator = delegation::delegator(accounts, verifier, &token, &grant.account, incoming);
        return Ok(grant);
    }
    match header {
        // Without a configured issuer, Bearer is an unknown scheme.
        Some(header) => {
            context.credential = CredentialKind::SharedKey;
            shared_key(accounts, incoming, header)
        }
        None if incoming.options.signature.is_some() => {
            context.credential = CredentialKind::SharedAccessSignature;
            shared_access::authenticate(engine, accounts, oauth, context).await
        }
        None => {
            context.credential = CredentialKind::Anonymous;
            Err(bearer::anonymous(verifier, context))
        }
    }
}

fn shared_key(accounts: &Accounts, incoming: &IncomingRequest<'_>, header: &HeaderValue) -> Result<Grant, Failure> {
    let authorization = header.to_str().ok().and_then(Authorization::parse).ok_or_else(|| malformed(header))?;
    let account = incoming.target.account.as_ref();
    let keys = account.and_then(|account| accounts.keys(account));
    let date = request_date(incoming)?;
    let is_signed = is_signed(&authorization, keys, date, incoming);
    // What the request itself shows is told first, so that it does not depend on whether the signature is right.
    let reason = match account {
        None => ReasonKind::AccountNotInUrl.because(
            "The host does not name an account, and the first segment of the path is not the name of an account.",
        ),
        Some(account) if account.as_str() != authorization.account => {
            let detail = format!("The Authorization header does not name '{account}', as the URL does.");
            ReasonKind::AccountDiffers.because(detail).quoting(authorization.account)
        }
        Some(_) if authorization.signature.is_none() => ReasonKind::SignatureMalformed.because(""),
        Some(account) if is_signed => return Ok(Grant::owner(account.clone())),
        Some(_) => ReasonKind::SignatureMismatch.because(""),
    };
    let failure = Failure::authentication(reason);
    Err(if is_signed { failure } else { failure.with_cause(mismatch(&authorization, date, incoming)) })
}

fn malformed(header: &HeaderValue) -> Failure {
    let scheme = header.to_str().ok().and_then(|text| text.split_whitespace().next()).unwrap_or_default();
    let is = |known: &str| scheme.eq_ignore_ascii_case(known);
    let reason = if is("SharedKey") || is("SharedKeyLite") {
        ReasonKind::AuthorizationMalformed
            .because("After the scheme, the Authorization header must have the account, a colon and the signature.")
    } else if is("Bearer") {
        ReasonKind::AuthorizationScheme.because("This server accepts no bearer tokens.")
    } else {
        ReasonKind::AuthorizationScheme.because("")
    };
    Failure::at(Layer::Authentication, ServiceError::from(ErrorCode::InvalidAuthenticationInfo).because(reason))
}

/// Returns true if one of the account's keys made the signature. The check takes as long for an unknown account as for
/// a known one.
fn is_signed(
    authorization: &Authorization<'_>,
    keys: Option<&[AccountKey]>,
    date: &str,
    incoming: &IncomingRequest<'_>,
) -> bool {
    let is_known = keys.is_some() && authorization.signature.is_some();
    let (keys, signature) = (keys.unwrap_or(placeholder_keys()), authorization.signature.unwrap_or_default());
    incoming.target.signed_paths().any(|path| {
        let text = signed(&path, date, incoming).string_to_sign(authorization.scheme);
        any_verifies(keys, &text, &signature) && is_known
    })
}

fn signed<'a>(path: &'a str, date: &'a str, incoming: &'a IncomingRequest<'a>) -> SignedRequest<'a> {
    SignedRequest {
        method: incoming.parts.method.as_str(),
        content_md5: text(incoming.head.content_md5).unwrap_or_default(),
        content_type: text(incoming.head.content_type).unwrap_or_default(),
        date,
        account: incoming.target.account.as_ref().map_or("", |account| account.as_str()),
        path,
        comp: incoming.options.comp.as_deref(),
    }
}

/// Returns the date of the request as sent, if it is within 15 minutes of the server's clock. If a test moved the
/// server's clock, a date near the clients' clock is accepted, too.
///
/// UNVERIFIED (07 §5): that a date in the future is rejected like one in the past.
fn request_date<'a>(incoming: &IncomingRequest<'a>) -> Result<&'a str, Failure> {
    let x_ms_date = text(incoming.head.x_ms_date).filter(|text| !text.is_empty());
    let text = x_ms_date
        .or_else(|| text(incoming.head.date))
        .ok_or_else(|| Failure::authentication(ReasonKind::DateMissing.because("")))?;
    let name = if x_ms_date.is_some() { "x-ms-date" } else { "Date" };
    let date = parse_date(text).ok_or_else(|| {
        let detail = format!("The {name} header is not a date in a form of HTTP.");
        Failure::authentication(ReasonKind::DateMalformed.because(detail).quoting(text))
    })?;
    let apart = |now: SystemTime| now.duration_since(date).unwrap_or_else(|error| error.duration());
    let is_near = |now: SystemTime| apart(now) <= Duration::from_secs(CLOCK_SKEW_SECONDS_MAX);
    if !is_near(incoming.now) && !incoming.now_of_clients.is_some_and(is_near) {
        let direction = if date < incoming.now { "behind" } else { "ahead of" };
        let apart = rough_duration(apart(incoming.now));
        let detail = format!("The {name} header is {apart} {direction} the server's clock; 15 minutes are allowed.");
        return Err(Failure::authentication(ReasonKind::DateSkewed.because(detail).quoting(text)));
    }
    Ok(text)
}

fn text(header: Option<&HeaderValue>) -> Option<&str> {
    header.and_then(|value| value.to_str().ok()).map(str::trim)
}

/// Returns the cause for the log. It contains the string that the server signed, which helps to debug a client, but no
/// secret.
fn mismatch(authorization: &Authorization<'_>, date: &str, incoming: &IncomingRequest<'_>) -> String {
    let text = signed(incoming.target.raw_path, date, incoming).string_to_sign(authorization.scheme);
    format!("Server used following string to sign: {text:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::ConnectionInfo;
    use std::net::Ipv4Addr;

    const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==";
    const DATE_TEXT: &str = "Fri, 14 Mar 2031 08:15:30 GMT";

    struct Attempt {
        path: &'static str,
        header_account: &'static str,
        seconds_later: i64,
        x_ms_date: &'static str,
        date: Option<&'static str>,
        tamper: bool,
    }

    impl Default for Attempt {
        fn default() -> Self {
            Self {
                path: "/orchardacct/Tables",
                header_account: "orchardacct",
                seconds_later: 0,
                x_ms_date: DATE_TEXT,
                date: None,
                tamper: false,
            }
        }
    }

    fn attempt(attempt: &Attempt) -> Result<Grant, Failure> {
        let accounts = Accounts::from_environment_text(&format!("orchardacct:{KEY}")).unwrap();
        let text = format!("GET\n\n\n{}\n/orchardacct{}", attempt.x_ms_date, attempt.path);
        let mut signature = AccountKey::parse(KEY).unwrap().sign(&text);
        if attempt.tamper {
            signature = AccountKey::parse(KEY).unwrap().sign(&format!("{text}x"));
        }
        let value = format!("SharedKey {}:{signature}", attempt.header_account);
        let authorization = HeaderValue::from_str(&value).unwrap();
        let mut request = http::Request::get(attempt.path)
            .header("host", "127.0.0.1")
            .header("authorization", &value)
            .header("x-ms-date", attempt.x_ms_date);
        if let Some(date) = attempt.date {
            request = request.header("date", date);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let signed_at = parse_date(DATE_TEXT).unwrap();
        let step = Duration::from_secs(attempt.seconds_later.unsigned_abs());
        let now = if attempt.seconds_later < 0 { signed_at - step } else { signed_at + step };
        let connection = ConnectionInfo::direct((Ipv4Addr::LOCALHOST, 1024).into(), false);
        let incoming = IncomingRequest::new(&parts, connection, (crate::clock::instant(), now), &[]);
        shared_key(&accounts, &incoming, &authorization)
    }

    #[test]
    fn a_signed_request_is_granted_its_account() {
        assert_eq!(attempt(&Attempt::default()).unwrap().account.as_str(), "orchardacct");
        let overwritten_date = Attempt { date: Some("Fri, 14 Mar 2031 09:00:00 GMT"), ..Attempt::default() };
        assert!(attempt(&overwritten_date).is_ok(), "x-ms-date wins over a Date that a proxy changed");
        let secondary = Attempt { path: "/orchardacct-secondary/Tables", ..Attempt::default() };
        assert!(attempt(&secondary).is_ok());
        // The date is signed as it was sent.
        let older_form = Attempt { x_ms_date: "Friday, 14-Mar-31 08:15:30 GMT", ..Attempt::default() };
        assert!(attempt(&older_form).is_ok());
    }

    #[test]
    fn whatever_is_wrong_is_refused() {
        for (wrong, reason) in [
            (Attempt { tamper: true, ..Attempt::default() }, "signature-mismatch: "),
            (Attempt { path: "/otheracct/Tables", ..Attempt::default() }, "account-differs: "),
            (Attempt { path: "/Tables", ..Attempt::default() }, "account-not-in-url: "),
            (Attempt { header_account: "otheracct", ..Attempt::default() }, "account-differs: "),
            // What the request shows does not depend on whether the signature is right.
            (Attempt { header_account: "otheracct", tamper: true, ..Attempt::default() }, "account-differs: "),
            (Attempt { header_account: "orchardacct-secondary", ..Attempt::default() }, "account-differs: "),
            (Attempt { x_ms_date: "yesterday", ..Attempt::default() }, "date-malformed: The x-ms-date header "),
            (Attempt { x_ms_date: "", ..Attempt::default() }, "date-missing: "),
            (
                Attempt { seconds_later: 7300, ..Attempt::default() },
                "date-skewed: The x-ms-date header is 2 hours behind the server's clock",
            ),
            (
                Attempt { seconds_later: -1200, ..Attempt::default() },
                "date-skewed: The x-ms-date header is 20 minutes ahead of the server's clock",
            ),
        ] {
            let told = attempt(&wrong).unwrap_err().error.reason().unwrap().line(true);
            assert!(told.starts_with(reason), "{told}, expected {reason}");
        }
    }

    #[test]
    fn fifteen_minutes_of_skew_are_allowed() {
        for (seconds_later, allowed) in [(899, true), (900, true), (901, false), (-900, true), (-901, false)] {
            let skewed = Attempt { seconds_later, ..Attempt::default() };
            assert_eq!(attempt(&skewed).is_ok(), allowed, "{seconds_later} s");
        }
    }

    #[test]
    fn the_log_gets_the_string_to_sign_and_no_signature() {
        let cause = attempt(&Attempt { tamper: true, ..Attempt::default() }).unwrap_err().source.unwrap().to_string();
        assert!(cause.contains("/orchardacct/orchardacct/Tables"), "{cause}");
    }
}
