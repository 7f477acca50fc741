//! In which column a request is counted (specification 10 §8).

use super::tally::{Counted, Ending, Party};
use crate::request::{CredentialKind, OperationKind};
use crate::telemetry::summary::{Outcome, RequestSummary};
use std::time::Duration;
use wire::ErrorCode;

impl Counted {
    /// What is counted of a request.
    pub(super) fn of(summary: &RequestSummary<'_>) -> Self {
        Self {
            ending: ending(summary.outcome, summary.operation, summary.has_own_timeout),
            party: party(summary.credential),
            ingress_bytes: summary.request_bytes,
            egress_bytes: summary.response_bytes,
            end_to_end_milliseconds: milliseconds(summary.duration),
            server_milliseconds: milliseconds(summary.duration.saturating_sub(summary.receiving)),
        }
    }
}

/// How a request ended.
///
/// UNVERIFIED (10 §8): that a batch whose operations were refused counts as the operation that was at fault, since its own
/// status is always 202; and that a preflight request which is refused is no matter of authorization.
fn ending(outcome: Outcome, operation: OperationKind, has_own_timeout: bool) -> Ending {
    let Outcome::Answered { status, code } = outcome else { return Ending::NetworkError };
    match (code.map_or(status, ErrorCode::status), code) {
        (..=299, _) => Ending::Success,
        (503, _) => Ending::ThrottlingError,
        (_, Some(ErrorCode::OperationTimedOut)) if has_own_timeout => Ending::ClientTimeoutError,
        (_, Some(ErrorCode::OperationTimedOut)) => Ending::ServerTimeoutError,
        (401 | 403, _) if operation != OperationKind::PreflightRequest => Ending::AuthorizationError,
        (300..=499, _) => Ending::ClientOtherError,
        _ => Ending::ServerOtherError,
    }
}

/// UNVERIFIED (10 §8): that requests with a token are counted with those that are signed with a key.
fn party(credential: CredentialKind) -> Party {
    match credential {
        CredentialKind::Anonymous => Party::Anonymous,
        CredentialKind::SharedKey | CredentialKind::Bearer => Party::Authenticated,
        CredentialKind::SharedAccessSignature => Party::Sas,
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings() {
        let failed = |code: ErrorCode| Outcome::Answered { status: code.status(), code: Some(code) };
        let answered = |status| Outcome::Answered { status, code: None };
        let of_batch = Outcome::Answered { status: 202, code: Some(ErrorCode::EntityAlreadyExists) };
        let insert = OperationKind::InsertEntity;
        for (outcome, operation, has_own_timeout, expected) in [
            (answered(200), OperationKind::QueryEntities, false, Ending::Success),
            (answered(204), insert, false, Ending::Success),
            (answered(200), OperationKind::PreflightRequest, false, Ending::Success),
            (answered(202), OperationKind::EntityGroupTransaction, false, Ending::Success),
            (of_batch, OperationKind::EntityGroupTransaction, false, Ending::ClientOtherError),
            (Outcome::Aborted, insert, false, Ending::NetworkError),
            (failed(ErrorCode::ServerBusy), insert, false, Ending::ThrottlingError),
            (failed(ErrorCode::OperationTimedOut), insert, false, Ending::ServerTimeoutError),
            (failed(ErrorCode::OperationTimedOut), insert, true, Ending::ClientTimeoutError),
            (failed(ErrorCode::AuthenticationFailed), OperationKind::Unknown, false, Ending::AuthorizationError),
            (failed(ErrorCode::AuthenticationNeeded), OperationKind::Unknown, false, Ending::AuthorizationError),
            (failed(ErrorCode::AuthorizationFailure), insert, false, Ending::AuthorizationError),
            (failed(ErrorCode::CorsPreflightFailure), OperationKind::PreflightRequest, false, Ending::ClientOtherError),
            (failed(ErrorCode::EntityAlreadyExists), insert, true, Ending::ClientOtherError),
            (failed(ErrorCode::UpdateConditionNotSatisfied), insert, false, Ending::ClientOtherError),
            (failed(ErrorCode::InternalError), insert, false, Ending::ServerOtherError),
            (failed(ErrorCode::NotImplemented), insert, false, Ending::ServerOtherError),
        ] {
            assert_eq!(ending(outcome, operation, has_own_timeout), expected, "{outcome:?} {operation:?}");
        }
    }
}
