//! The error of a request: the code and message for the client, the form of the response, and the cause for the log.
//!
//! Only this module converts the errors of engines, bodies and grants to a [`Failure`].

use engine::{CatalogError, ChangesError, CommitError, Fault, ReadError};
use model::record::DamagedRecord;
use model::{Action, ChangePosition, Denial, Dialect, Grant, MutationError, Scope};
use std::error::Error;
use std::fmt;
use wire::entity_body::BodyError;
use wire::reason::{Reason, ReasonKind};
use wire::{ErrorCode, ServiceError};

/// The part of the service that found the error. It determines the form and the headers of the response (06 §1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    Authentication,
    /// A request without a credential: like [`Self::Authentication`], but the response names the version.
    MissingCredential,
    FrontEnd,
    Format,
    /// URL, query options and table lookup: the response has no `Cache-Control`.
    Query,
    Service,
}

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: ServiceError,
    pub(crate) layer: Layer,
    /// The cause, which is logged and never sent to a client.
    pub(crate) source: Option<Box<dyn Error + Send + Sync>>,
    /// The position after which a reader of the change feed can continue.
    pub(crate) position: Option<ChangePosition>,
    /// The refused operation of a transaction, or `None` if the transaction failed for another reason.
    pub(crate) refused: Option<RefusedOperation>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RefusedOperation {
    pub(crate) index: usize,
    pub(crate) by: Stage,
}

/// The stage in which an operation of a transaction is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The operation could not be decoded or has no table.
    Decoding,
    /// The operation was decoded and its table was found, but the transaction cannot contain it.
    Transaction,
    Storage,
}

impl Failure {
    pub(crate) fn at(layer: Layer, error: impl Into<ServiceError>) -> Self {
        Self { error: error.into(), layer, source: None, position: None, refused: None }
    }

    pub(crate) fn query(error: impl Into<ServiceError>) -> Self {
        Self::at(Layer::Query, error)
    }

    pub(crate) fn service(error: impl Into<ServiceError>) -> Self {
        Self::at(Layer::Service, error)
    }

    /// Creates the failure of an authentication.
    pub(crate) fn authentication(reason: Reason) -> Self {
        Self::at(Layer::Authentication, ServiceError::from(ErrorCode::AuthenticationFailed).because(reason))
    }

    /// Creates the failure for a credential without a principal, in an operation that only principals can request.
    ///
    /// UNVERIFIED (08 §11.1): that signatures in the URL cause this error, as account keys do.
    pub(crate) fn needs_bearer() -> Self {
        Self::authentication(ReasonKind::OperationDenied.because("Only a principal can request a user delegation key."))
    }

    /// Adds a cause that is only for the log.
    pub(crate) fn with_cause(self, cause: impl Into<String>) -> Self {
        Self { source: Some(Box::new(Cause(cause.into()))), ..self }
    }

    /// Adds the reason, unless the error has one.
    pub(crate) fn because(self, reason: wire::reason::Reason) -> Self {
        Self { error: self.error.because(reason), ..self }
    }

    /// Attributes the failure to an operation of a transaction.
    pub(crate) fn of_operation(self, index: usize, by: Stage) -> Self {
        Self { refused: Some(RefusedOperation { index, by }), ..self }
    }

    /// Converts a denial of an action (08 §9).
    ///
    /// UNVERIFIED (08 §6): the error code for a write, other than an insert, outside the key range.
    pub(crate) fn denied(grant: &Grant, action: Action<'_>, denial: Denial) -> Self {
        let (error, kind) = match denial {
            Denial::Source(address) => {
                let text =
                    format!("This request is not authorized to perform this operation using this source IP {address}.");
                (ServiceError::new(ErrorCode::AuthorizationSourceIPMismatch, text), ReasonKind::SourceDenied)
            }
            Denial::Protocol => (ErrorCode::AuthorizationProtocolMismatch.into(), ReasonKind::ProtocolDenied),
            Denial::Service => (ErrorCode::AuthorizationServiceMismatch.into(), ReasonKind::ServiceDenied),
            Denial::ResourceType => {
                (ErrorCode::AuthorizationResourceTypeMismatch.into(), ReasonKind::ResourceTypeDenied)
            }
            Denial::Permission => (ErrorCode::AuthorizationPermissionMismatch.into(), ReasonKind::PermissionDenied),
            Denial::Operation => (ErrorCode::AuthorizationFailure.into(), ReasonKind::OperationDenied),
            Denial::Table => (ErrorCode::AuthorizationFailure.into(), ReasonKind::TableDenied),
            Denial::Range => (ErrorCode::AuthorizationFailure.into(), ReasonKind::RangeDenied),
            Denial::OutsideReadRange => (ErrorCode::ResourceNotFound.into(), ReasonKind::RangeDenied),
        };
        let detail = match denial {
            Denial::Source(address) => {
                format!("The shared access signature (sip) does not allow the address {address}.")
            }
            Denial::ResourceType => missing_letters(action).0,
            Denial::Permission => match grant.scope {
                Scope::Roles(_) | Scope::Delegated { .. } => {
                    "The principal's roles, or the letters of its signature (sp), do not allow this operation."
                        .to_owned()
                }
                _ => missing_letters(action).1,
            },
            // A credential allows this kind of action on every other table.
            Denial::Operation if matches!(action, Action::Entities { .. }) => {
                "Views and the change feed can only be read.".to_owned()
            }
            _ => String::new(),
        };
        Self::service(error.because(kind.because(detail)))
    }

    /// Returns the failure as a dialect words it. A server that limits its clients is busy in one, and the clients are
    /// too fast in the other (11 §5).
    pub(crate) fn in_dialect(self, dialect: Dialect) -> Self {
        let is_throttled = self.error.code == ErrorCode::ServerBusy && self.source.is_none();
        let error = match dialect {
            Dialect::Cosmos if is_throttled => ErrorCode::TooManyRequests.into(),
            _ => self.error.in_dialect(dialect),
        };
        Self { error, ..self }
    }

    /// Returns whether the credential was refused.
    pub(crate) fn is_of_authentication(&self) -> bool {
        matches!(self.layer, Layer::Authentication | Layer::MissingCredential)
    }

    /// Returns whether the request exceeds a limit, so that nothing is wrong with the server.
    pub(crate) fn is_over_limit(&self) -> bool {
        self.error.code == ErrorCode::ServerBusy && self.source.as_ref().is_some_and(|source| source.is::<Cause>())
    }

    fn internal(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..Self::service(ErrorCode::InternalError) }
    }
}

/// Returns what an account SAS lacks if it lacks the resource type, and what a SAS lacks if it lacks the permission.
fn missing_letters(action: Action<'_>) -> (String, String) {
    let Some((resource, alternatives)) = action.required_letters() else { return (String::new(), String::new()) };
    let letters: Vec<_> = alternatives.iter().map(|letters| format!("'{letters}'")).collect();
    (
        format!("The resource type '{resource}' is missing in srt of the shared access signature."),
        format!("The operation needs {} in the permissions (sp) of the signature or its policy.", letters.join(" or ")),
    )
}

#[derive(Debug)]
struct Cause(String);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Cause {}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            // The server is stopping, or its database is unreachable. Nothing was done, so the client may retry.
            Fault::Closed | Fault::Unavailable(_) => {
                Self { source: Some(Box::new(fault)), ..Self::service(ErrorCode::ServerBusy) }
            }
            // The engine logs when it becomes full or suspended, and being busy is no error; logging every request
            // would add nothing.
            Fault::Full | Fault::Suspended | Fault::Busy => Self::service(ErrorCode::ServerBusy),
            // The server logs once that it is a standby or was fenced. The secondary endpoint refuses writes alike.
            Fault::ReadOnly(reason) => {
                let code = ErrorCode::InsufficientAccountPermissions;
                Self::service(ServiceError::new(code, reason))
            }
            // The write may have been executed, and clients that receive this code expect that (02 §9). The engine has
            // already logged the error of an interrupted write, because many requests share it.
            Fault::Interrupted => Self::service(ErrorCode::OperationTimedOut),
            Fault::Unknown(_) => Self { source: Some(Box::new(fault)), ..Self::service(ErrorCode::OperationTimedOut) },
            Fault::Damaged(_) | Fault::Storage(_) => Self::internal(fault),
        }
    }
}

impl From<BodyError> for Failure {
    fn from(error: BodyError) -> Self {
        match error {
            // For errors found before the storage, responses without `Cache-Control` were recorded (02 §3).
            BodyError::Malformed
            | BodyError::KeyNotText
            | BodyError::OutOfRange(..)
            | BodyError::PropertyNameInvalid => Self::query(error),
            BodyError::KeyMissing
            | BodyError::KeyTooLong
            | BodyError::PropertyNameTooLong
            | BodyError::TooManyProperties => Self::service(error),
        }
    }
}

impl From<DamagedRecord> for Failure {
    fn from(damaged: DamagedRecord) -> Self {
        Self::internal(damaged)
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::TableNotFound => Self::query(ErrorCode::TableNotFound),
            ReadError::IndexNotFound => Self::query(ServiceError::new(
                ErrorCode::ResourceNotFound,
                "The table has no index of the property, so entities cannot be listed in its order.",
            )),
            ReadError::IndexNotReady => Self::query(ServiceError::new(
                ErrorCode::ResourceNotFound,
                "The index of the property is still being built. Get Table Indexes tells when it is ready.",
            )),
            ReadError::Fault(fault) => fault.into(),
        }
    }
}

impl From<ChangesError> for Failure {
    fn from(error: ChangesError) -> Self {
        match error {
            ChangesError::Dropped(first) => {
                let oldest = ChangePosition::start_of(first);
                let message =
                    format!("The change feed no longer contains this position. The oldest position is {oldest}.");
                let error = ServiceError::new(ErrorCode::PositionExpired, message);
                Self { position: Some(oldest.previous()), ..Self::query(error) }
            }
            ChangesError::Fault(fault) => fault.into(),
        }
    }
}

impl From<CatalogError> for Failure {
    fn from(error: CatalogError) -> Self {
        match error {
            CatalogError::AlreadyExists => Self::service(ErrorCode::TableAlreadyExists),
            CatalogError::BeingDeleted => Self::service(ErrorCode::TableBeingDeleted),
            CatalogError::NotFound => Self::service(ErrorCode::ResourceNotFound),
            CatalogError::Fault(fault) => fault.into(),
        }
    }
}

impl From<CommitError> for Failure {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::TableNotFound => Self::query(ErrorCode::TableNotFound).of_operation(0, Stage::Decoding),
            CommitError::Refused(_, MutationError::DamagedRecord) => DamagedRecord.into(),
            CommitError::Refused(index, refusal) => {
                Self::service(refusal_code(refusal)).of_operation(index, Stage::Storage)
            }
            CommitError::Fault(fault) => fault.into(),
        }
    }
}

/// Returns the error code for a refused mutation (06 §2).
fn refusal_code(refusal: MutationError) -> ErrorCode {
    match refusal {
        MutationError::AlreadyExists => ErrorCode::EntityAlreadyExists,
        MutationError::NotFound => ErrorCode::ResourceNotFound,
        MutationError::ConditionNotMet => ErrorCode::UpdateConditionNotSatisfied,
        MutationError::TooManyProperties => ErrorCode::TooManyProperties,
        MutationError::EntityTooLarge => ErrorCode::EntityTooLarge,
        MutationError::ValueTooLarge => ErrorCode::PropertyValueTooLarge,
        MutationError::DamagedRecord => ErrorCode::InternalError,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_outcome_has_the_code_that_clients_expect_and_a_certain_one_has_not() {
        let io = || "the disk".into();
        for (fault, code) in [
            (Fault::Interrupted, ErrorCode::OperationTimedOut),
            (Fault::Unknown(io()), ErrorCode::OperationTimedOut),
            (Fault::Suspended, ErrorCode::ServerBusy),
            (Fault::Full, ErrorCode::ServerBusy),
            (Fault::Busy, ErrorCode::ServerBusy),
            (Fault::Closed, ErrorCode::ServerBusy),
            (Fault::Unavailable(io()), ErrorCode::ServerBusy),
            (Fault::ReadOnly("a standby"), ErrorCode::InsufficientAccountPermissions),
            (Fault::Storage(io()), ErrorCode::InternalError),
            (Fault::Damaged(String::new()), ErrorCode::InternalError),
        ] {
            let name = format!("{fault:?}");
            let is_certain = fault.is_without_effect();
            let failure = Failure::from(fault);
            assert_eq!(failure.error.code, code, "{name}");
            assert!(!is_certain || code != ErrorCode::OperationTimedOut, "{name}");
        }
    }
}
