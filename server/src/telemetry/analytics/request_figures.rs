//! What is counted for a request, and in which property (specification 10 §8).

use super::request_totals::{CallerKind, RequestFigures, ResultKind};
use crate::request::{CredentialKind, OperationKind};
use crate::telemetry::summary::{Outcome, RequestSummary};
use std::time::Duration;
use wire::ErrorCode;

impl RequestFigures {
    pub(super) fn from_summary(summary: &RequestSummary<'_>) -> Self {
        Self {
            result: result(summary.outcome, summary.operation, summary.has_own_timeout),
            caller: caller(summary.credential),
            ingress_bytes: summary.request_bytes,
            egress_bytes: summary.response_bytes,
            end_to_end_milliseconds: milliseconds(summary.duration),
            server_milliseconds: milliseconds(summary.duration.saturating_sub(summary.body_wait)),
        }
    }
}

/// UNVERIFIED (10 §8): that a batch with refused operations counts by the error of the failed operation, because the
/// status of a batch is always 202; that a refused preflight request does not count as an authorization error.
fn result(outcome: Outcome, operation: OperationKind, has_own_timeout: bool) -> ResultKind {
    let Outcome::Responded { status, code } = outcome else { return ResultKind::NetworkError };
    match (code.map_or(status, ErrorCode::status), code) {
        (..=299, _) => ResultKind::Success,
        (503, _) => ResultKind::ThrottlingError,
        (_, Some(ErrorCode::OperationTimedOut)) if has_own_timeout => ResultKind::ClientTimeoutError,
        (_, Some(ErrorCode::OperationTimedOut)) => ResultKind::ServerTimeoutError,
        (401 | 403, _) if operation != OperationKind::PreflightRequest => ResultKind::AuthorizationError,
        (300..=499, _) => ResultKind::ClientOtherError,
        _ => ResultKind::ServerOtherError,
    }
}

/// UNVERIFIED (10 §8): that requests with a token count like requests that are signed with a key.
fn caller(credential: CredentialKind) -> CallerKind {
    match credential {
        CredentialKind::Anonymous => CallerKind::Anonymous,
        CredentialKind::SharedKey | CredentialKind::Bearer => CallerKind::Authenticated,
        CredentialKind::SharedAccessSignature => CallerKind::Sas,
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results() {
        let failed = |code: ErrorCode| Outcome::Responded { status: code.status(), code: Some(code) };
        let responded = |status| Outcome::Responded { status, code: None };
        let of_batch = |code| Outcome::Responded { status: 202, code: Some(code) };
        let insert = OperationKind::InsertEntity;
        for (outcome, operation, has_own_timeout, expected) in [
            (responded(200), OperationKind::QueryEntities, false, ResultKind::Success),
            (responded(204), insert, false, ResultKind::Success),
            (responded(200), OperationKind::PreflightRequest, false, ResultKind::Success),
            (responded(202), OperationKind::EntityGroupTransaction, false, ResultKind::Success),
            (
                of_batch(ErrorCode::EntityAlreadyExists),
                OperationKind::EntityGroupTransaction,
                false,
                ResultKind::ClientOtherError,
            ),
            (
                of_batch(ErrorCode::ServerBusy),
                OperationKind::EntityGroupTransaction,
                false,
                ResultKind::ThrottlingError,
            ),
            (
                of_batch(ErrorCode::OperationTimedOut),
                OperationKind::EntityGroupTransaction,
                true,
                ResultKind::ClientTimeoutError,
            ),
            (Outcome::Aborted, insert, false, ResultKind::NetworkError),
            (failed(ErrorCode::ServerBusy), insert, false, ResultKind::ThrottlingError),
            (failed(ErrorCode::OperationTimedOut), insert, false, ResultKind::ServerTimeoutError),
            (failed(ErrorCode::OperationTimedOut), insert, true, ResultKind::ClientTimeoutError),
            (failed(ErrorCode::AuthenticationFailed), OperationKind::Unknown, false, ResultKind::AuthorizationError),
            (failed(ErrorCode::TokenRefused), OperationKind::Unknown, false, ResultKind::AuthorizationError),
            (failed(ErrorCode::AuthorizationFailure), insert, false, ResultKind::AuthorizationError),
            (
                failed(ErrorCode::CorsPreflightFailure),
                OperationKind::PreflightRequest,
                false,
                ResultKind::ClientOtherError,
            ),
            (failed(ErrorCode::EntityAlreadyExists), insert, true, ResultKind::ClientOtherError),
            (failed(ErrorCode::UpdateConditionNotSatisfied), insert, false, ResultKind::ClientOtherError),
            (failed(ErrorCode::InternalError), insert, false, ResultKind::ServerOtherError),
            (failed(ErrorCode::NotImplemented), insert, false, ResultKind::ServerOtherError),
        ] {
            assert_eq!(result(outcome, operation, has_own_timeout), expected, "{outcome:?} {operation:?}");
        }
    }
}
