//! The error type of all operations.

use crate::account::EndpointError;
use crate::account::TokenError;
use crate::entity::EntityError;
use crate::http::HttpError;
use crate::limits::TRANSACTION_BODY_BYTES_MAX;
use model::ChangePosition;
use model::control_characters::is_control_character;
use std::fmt;

/// The reason why an operation failed after all its attempts.
///
/// Match errors instead of parsing them: [`kind`](Self::kind) returns the class of the failure, and
/// [`code`](Self::code) returns the service's own error code.
///
/// ```
/// use rowhouse_client::{ErrorKind, PropertyBag};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowhouse_testing::TestServer::start().await?;
/// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
/// let orders = service.table("orders");
/// orders.create().await?;
/// let order = PropertyBag::new("2031", "0001")?;
/// orders.insert(&order).await?;
/// let error = orders.insert(&order).await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Conflict);
/// assert_eq!((error.status(), error.code()), (Some(409), Some("EntityAlreadyExists")));
/// assert!(error.request_id().is_some());
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The service refused the request.
    Refused(Box<Refusal>),
    /// The server no longer keeps the changes after the requested position, or the position belongs to another log. A
    /// reader must determine the [`end`](crate::Changes::end) of the feed, read the whole table, and continue from that
    /// end.
    PositionExpired {
        /// The oldest position from which changes can be read; `None` if the service does not name it.
        oldest: Option<ChangePosition>,
        /// The service's response.
        refusal: Box<Refusal>,
    },
    /// No complete response arrived.
    Unreachable {
        /// A description of the operation.
        what: String,
        /// The reason why the last attempt failed.
        source: HttpError,
        /// The ID that the client assigned to the operation and sent with each attempt.
        client_request_id: String,
        /// The number of attempts.
        attempts: u32,
    },
    /// The response is larger than 64 MiB.
    ResponseTooLarge {
        /// A description of the operation.
        what: String,
    },
    /// The response does not follow the protocol.
    Unreadable {
        /// A description of the operation.
        what: String,
        /// What is wrong with the response.
        why: String,
    },
    /// An entity could not be converted to properties, or properties could not be converted to an entity.
    Entity(EntityError),
    /// No bearer token is available, or it must not be sent to this endpoint.
    Token(TokenError),
    /// An operation of a transaction cannot be sent. The transaction had no effect.
    Transaction {
        /// The zero-based index of the operation.
        operation: usize,
        /// What is wrong with the operation.
        source: Box<Error>,
    },
    /// With this operation, the transaction exceeds the maximum size that the service accepts. Nothing was sent.
    TransactionTooLarge {
        /// The zero-based index of the operation.
        operation: usize,
    },
    /// The request would break a rule of the protocol, or the client is not configured for it. Nothing was sent.
    Invalid(String),
    /// The properties of an entity could not be encrypted or decrypted.
    #[cfg(feature = "encryption")]
    Encryption(crate::encryption::EncryptionError),
}

/// The service's response to a request that it refused.
///
/// ```
/// use rowhouse_client::Error;
///
/// fn may_help(error: &Error) -> Option<String> {
///     let Error::Refused(refusal) = error else { return None };
///     Some(format!("{} {}: {}", refusal.status, refusal.code, refusal.message))
/// }
/// # let _ = may_help;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// A description of the operation.
    pub what: String,
    /// The HTTP status of the response.
    pub status: u16,
    /// The service's error code; may be empty.
    pub code: String,
    /// The first line of the service's error message, without the number of the operation with which the service begins
    /// it in a transaction; may be empty.
    pub message: String,
    /// Why the request was refused and what to do, if the service tells it: the name of a kind of mistake, a colon, and
    /// sentences.
    pub reason: Option<String>,
    /// The ID that the service assigned to the request. Operators can use it to find the request in the service's log.
    pub request_id: Option<String>,
    /// The ID that the client assigned to the operation and sent with each attempt.
    pub client_request_id: String,
    /// The zero-based index of the failed operation in a transaction.
    pub operation: Option<usize>,
    /// The number of attempts.
    pub attempts: u32,
    /// The position after which a reader of the change feed can continue.
    pub(crate) position: Option<ChangePosition>,
}

/// The class of a failure, for programs to match on.
///
/// ```
/// use rowhouse_client::{Error, ErrorKind};
///
/// fn is_my_fault(error: &Error) -> bool {
///     matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Entity)
/// }
/// # let _ = is_my_fault;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The entity or table already exists (409), or the table is being deleted.
    Conflict,
    /// The entity's `ETag` does not meet the condition (412).
    PreconditionFailed,
    /// The entity or the table does not exist (404).
    NotFound,
    /// The server no longer keeps the requested changes (410).
    PositionExpired,
    /// The service is too busy (429, 503).
    Throttled,
    /// The credential is wrong, has expired, or does not allow the operation (401, 403).
    Forbidden,
    /// An entity or a transaction is larger than the service accepts (413). A transaction may succeed when split in
    /// two.
    TooLarge,
    /// The request breaks a rule of the protocol (other 4xx), or was not sent because it would break one.
    Invalid,
    /// The service failed or took too long (other 5xx).
    Service,
    /// No complete response arrived.
    Unreachable,
    /// The response does not follow the protocol, or is too large.
    Unreadable,
    /// An entity does not fit its type.
    Entity,
    /// Encryption or decryption failed.
    Encryption,
}

impl Error {
    /// Returns the class of the failure.
    ///
    /// ```
    /// # use rowhouse_client::{Error, ErrorKind};
    /// # fn example(error: &Error) {
    /// match error.kind() {
    ///     ErrorKind::PreconditionFailed => println!("the entity has changed: read it again"),
    ///     ErrorKind::Throttled => println!("the service is busy: try again later"),
    ///     _ => println!("{error}"),
    /// }
    /// # }
    /// ```
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused(refusal) => refusal.kind(),
            Self::PositionExpired { .. } => ErrorKind::PositionExpired,
            Self::Unreachable { .. } => ErrorKind::Unreachable,
            Self::ResponseTooLarge { .. } | Self::Unreadable { .. } => ErrorKind::Unreadable,
            Self::Entity(_) => ErrorKind::Entity,
            Self::Token(_) => ErrorKind::Forbidden,
            Self::Transaction { source, .. } => source.kind(),
            Self::TransactionTooLarge { .. } => ErrorKind::TooLarge,
            Self::Invalid(_) => ErrorKind::Invalid,
            #[cfg(feature = "encryption")]
            Self::Encryption(_) => ErrorKind::Encryption,
        }
    }

    /// Returns the service's response; `None` if the service did not refuse the request.
    ///
    /// ```
    /// # use rowhouse_client::Error;
    /// # fn example(error: &Error) {
    /// if let Some(refusal) = error.refusal() {
    ///     println!("after {} attempts: {}", refusal.attempts, refusal.message);
    /// }
    /// # }
    /// ```
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) | Self::PositionExpired { refusal, .. } => Some(refusal),
            _ => None,
        }
    }

    /// Returns the HTTP status if the service refused the request.
    ///
    /// ```
    /// # fn example(error: &rowhouse_client::Error) -> bool {
    /// error.status() == Some(413)
    /// # }
    /// ```
    pub fn status(&self) -> Option<u16> {
        self.refusal().map(|refusal| refusal.status)
    }

    /// Returns the service's error code, such as `TableNotFound`.
    ///
    /// ```
    /// # fn example(error: &rowhouse_client::Error) -> bool {
    /// error.code() == Some("TableNotFound")
    /// # }
    /// ```
    pub fn code(&self) -> Option<&str> {
        self.refusal().map(|refusal| refusal.code.as_str())
    }

    /// Returns the first line of the service's error message. [`operation_index`](Self::operation_index) is not part of
    /// it.
    ///
    /// ```
    /// # fn example(error: &rowhouse_client::Error) {
    /// println!("{}", error.message().unwrap_or("no message"));
    /// # }
    /// ```
    pub fn message(&self) -> Option<&str> {
        self.refusal().map(|refusal| refusal.message.as_str())
    }

    /// Returns the ID that the service assigned to the request.
    ///
    /// ```
    /// # fn example(error: &rowhouse_client::Error) {
    /// println!("look for {:?} in the server's log", error.request_id());
    /// # }
    /// ```
    pub fn request_id(&self) -> Option<&str> {
        self.refusal()?.request_id.as_deref()
    }

    /// Returns the ID that the client assigned to the operation, if the service refused it or no response arrived.
    /// Operators can use it to find all attempts in the service's log.
    ///
    /// ```
    /// # fn example(error: &rowhouse_client::Error) {
    /// println!("look for {:?} in the server's log", error.client_request_id());
    /// # }
    /// ```
    pub fn client_request_id(&self) -> Option<&str> {
        match self {
            Self::Unreachable { client_request_id, .. } => Some(client_request_id),
            _ => self.refusal().map(|refusal| refusal.client_request_id.as_str()),
        }
    }

    /// Returns the zero-based index of the failed operation if the request was a transaction.
    ///
    /// ```
    /// # fn example(error: &rowhouse_client::Error) {
    /// if let Some(operation) = error.operation_index() {
    ///     println!("operation {operation} failed, so none was executed");
    /// }
    /// # }
    /// ```
    pub fn operation_index(&self) -> Option<usize> {
        match self {
            Self::Refused(refusal) => refusal.operation,
            Self::Transaction { operation, .. } | Self::TransactionTooLarge { operation } => Some(*operation),
            _ => None,
        }
    }
}

impl Refusal {
    /// Returns the reason, in one line, unless it adds nothing to the code because programs cause such refusals on
    /// purpose: an entity or table is missing, exists already, or has changed.
    ///
    /// ```
    /// # fn example(refusal: &rowhouse_client::Refusal) {
    /// println!("{}", refusal.unexpected_reason().unwrap_or(refusal.message.clone()));
    /// # }
    /// ```
    pub fn unexpected_reason(&self) -> Option<String> {
        let is_routine =
            matches!(self.kind(), ErrorKind::NotFound | ErrorKind::Conflict | ErrorKind::PreconditionFailed);
        self.reason.as_ref().filter(|_| !is_routine).map(|reason| in_one_line(reason))
    }

    fn kind(&self) -> ErrorKind {
        match self.status {
            409 => ErrorKind::Conflict,
            412 => ErrorKind::PreconditionFailed,
            404 => ErrorKind::NotFound,
            429 | 503 => ErrorKind::Throttled,
            401 | 403 => ErrorKind::Forbidden,
            413 => ErrorKind::TooLarge,
            _ if matches!(self.code.as_str(), "RequestBodyTooLarge" | "ContentLengthExceeded") => ErrorKind::TooLarge,
            status if status < 500 => ErrorKind::Invalid,
            _ => ErrorKind::Service,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, status, code, message, operation, attempts, .. } = self;
        write!(f, "{what} was refused: {status}")?;
        let details = [code, message].map(|text| in_one_line(text));
        details.iter().filter(|text| !text.is_empty()).try_for_each(|text| write!(f, " {text}"))?;
        if let Some(reason) = self.unexpected_reason() {
            write!(f, " ({reason})")?;
        }
        if let Some(operation) = operation {
            write!(f, " (operation {operation})")?;
        }
        if *attempts > 1 { write!(f, " (after {attempts} attempts)") } else { Ok(()) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) | Self::PositionExpired { refusal, .. } => refusal.fmt(f),
            Self::Unreachable { what, source, attempts: 1, .. } => write!(f, "{what} got no response: {source}"),
            Self::Unreachable { what, source, attempts, .. } => {
                write!(f, "{what} got no response after {attempts} attempts: {source}")
            }
            Self::ResponseTooLarge { what } => write!(f, "the response to {what} is too large"),
            Self::Unreadable { what, why } => write!(f, "the response to {what} cannot be read: {}", in_one_line(why)),
            Self::Entity(error) => f.write_str(&in_one_line(&error.to_string())),
            Self::Token(error) => write!(f, "no bearer token could be sent: {error}"),
            Self::Transaction { operation, source } => write!(f, "operation {operation} of the transaction: {source}"),
            Self::TransactionTooLarge { operation } => {
                write!(
                    f,
                    "with operation {operation}, the transaction is larger than {TRANSACTION_BODY_BYTES_MAX} bytes"
                )
            }
            Self::Invalid(why) => f.write_str(why),
            #[cfg(feature = "encryption")]
            Self::Encryption(error) => error.fmt(f),
        }
    }
}

// There is no source, because every message contains its cause, and a program that prints all sources would repeat it.
// The fields of the variants keep the causes.
impl std::error::Error for Error {}

impl From<EntityError> for Error {
    fn from(error: EntityError) -> Self {
        Self::Entity(error)
    }
}

impl From<EndpointError> for Error {
    fn from(error: EndpointError) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// Replaces control characters, so that a message from a service cannot imitate another message or control a terminal,
/// and hides credentials that the service repeats.
pub(crate) fn in_one_line(text: &str) -> String {
    http_client::without_credentials(&text.replace(is_control_character, " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16) -> Refusal {
        Refusal {
            what: "a query".into(),
            status,
            code: "X\u{7}".into(),
            message: "no\r\nrowhouse: all is well\u{1b}[2J\u{9b}\u{2028}".to_owned(),
            reason: None,
            request_id: None,
            client_request_id: String::new(),
            operation: None,
            attempts: 1,
            position: None,
        }
    }

    #[test]
    fn a_service_cannot_write_messages_of_its_own() {
        let error = Error::Refused(Box::new(refusal(400)));
        assert_eq!(error.to_string(), "a query was refused: 400 X  no  rowhouse: all is well [2J  ");
        let error = Error::Unreadable { what: "a query".into(), why: "a\nb".into() };
        assert_eq!(error.to_string(), "the response to a query cannot be read: a b");
        let repeated = Refusal { message: "GET /t?sv=1&sig=S3CRET&se=2 is odd".into(), ..refusal(400) };
        let shown = Error::Refused(Box::new(repeated)).to_string();
        assert!(shown.ends_with("GET /t?sv=1&sig=…&se=2 is odd"), "{shown}");
        let reasoned =
            |status| Refusal { reason: Some("kind: Because\nof this.".into()), ..refusal(status) }.to_string();
        assert!(reasoned(400).ends_with(" (kind: Because of this.)"), "{}", reasoned(400));
        assert!(!reasoned(404).contains("Because"), "{}", reasoned(404));
    }

    #[test]
    fn a_cause_is_shown_once_by_programs_that_show_all_sources() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let unreachable = Error::Unreachable {
            what: "a query".into(),
            source: HttpError::Connect(refused.into()),
            client_request_id: String::new(),
            attempts: 1,
        };
        let key = crate::PropertyBag::new("a/b", "").unwrap_err();
        for error in [
            Error::Transaction { operation: 1, source: Box::new(unreachable) },
            Error::Token("the identity is unknown".into()),
            Error::from(key),
        ] {
            let mut texts = vec![error.to_string()];
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                texts.push(cause.to_string());
                source = cause.source();
            }
            let repeated = texts.windows(2).find(|two| two[0].contains(&two[1]));
            assert!(repeated.is_none() && texts[0].contains(": "), "{texts:?}");
        }
    }

    #[test]
    fn statuses_have_kinds() {
        for (status, kind) in [
            (400, ErrorKind::Invalid),
            (401, ErrorKind::Forbidden),
            (403, ErrorKind::Forbidden),
            (404, ErrorKind::NotFound),
            (409, ErrorKind::Conflict),
            (412, ErrorKind::PreconditionFailed),
            (413, ErrorKind::TooLarge),
            (429, ErrorKind::Throttled),
            (500, ErrorKind::Service),
            (503, ErrorKind::Throttled),
        ] {
            assert_eq!(refusal(status).kind(), kind, "{status}");
        }
    }
}
