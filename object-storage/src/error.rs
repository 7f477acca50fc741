//! The reasons why a request failed, in words for users.

use crate::address::{Service, StorageAddress};
use http_client::without_credentials;
use std::error::Error as StdError;
use std::fmt;

/// The reason why object storage did not do what was requested. The message includes the cause.
#[derive(Debug)]
#[non_exhaustive]
pub enum StorageError {
    /// The settings in the environment are incomplete or malformed.
    Settings(String),
    /// The bucket or the container does not exist.
    NoBucket(String),
    /// The storage rejects the credentials, or they do not allow the request.
    Denied(String),
    /// No response arrived.
    Unreachable(String),
    /// The storage answered with another error.
    Failed(String),
    /// The object is larger than this limit, in bytes.
    TooLarge(u64),
}

impl StorageError {
    /// Adds an explanation to errors that may be due to missing credentials.
    pub(crate) fn explained(self, explanation: &str) -> Self {
        let add = |text: String| format!("{text} ({explanation})");
        match self {
            Self::Denied(text) => Self::Denied(add(text)),
            Self::Unreachable(text) => Self::Unreachable(add(text)),
            Self::Failed(text) => Self::Failed(add(text)),
            other => other,
        }
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(text)
            | Self::NoBucket(text)
            | Self::Denied(text)
            | Self::Unreachable(text)
            | Self::Failed(text) => f.write_str(&without_credentials(text)),
            Self::TooLarge(bytes_max) => {
                write!(f, "it is larger than {bytes_max} bytes, the maximum for such an object")
            }
        }
    }
}

impl StdError for StorageError {}

/// Returns true if the error says that the object, and not its bucket, does not exist.
pub(crate) fn is_missing(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::NotFound { .. }) && !is_bucket(code(&error.to_string()).unwrap_or_default())
}

/// Returns true if the object is empty, so that it does not contain the requested range.
pub(crate) fn is_empty(error: &object_store::Error) -> bool {
    code(&error.to_string()) == Some("InvalidRange")
}

/// Converts an error of the library.
pub(crate) fn explain(address: &StorageAddress, error: &object_store::Error) -> StorageError {
    let text = error.to_string();
    let code = code(&text);
    if code.is_some_and(is_bucket) {
        let StorageAddress { bucket, .. } = address;
        return StorageError::NoBucket(match address.service {
            Service::S3 => format!("the bucket '{bucket}' does not exist; create it first"),
            Service::AzureBlob => format!("the container '{bucket}' does not exist; create it first"),
        });
    }
    if let Some(error) = find::<http_client::HttpError>(error) {
        return StorageError::Unreachable(format!("the storage does not answer: {error}"));
    }
    let answer = match (code, between(&text, "<Message>", "</Message>")) {
        // Azure adds the ID of the request on the following lines.
        (Some(code), Some(message)) => format!("{code}: {}", message.lines().next().unwrap_or_default()),
        (Some(code), None) => code.to_owned(),
        // Of responses without a body, only the status is known.
        (None, _) => between(&text, "status code: ", ": ").map_or_else(|| text.clone(), str::to_owned),
    };
    let is_denied =
        matches!(error, object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. });
    if is_denied || code.is_some_and(|code| DENIED.contains(&code)) {
        let variables = match address.service {
            Service::S3 => "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION",
            Service::AzureBlob => "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
        };
        return StorageError::Denied(format!(
            "the storage refuses the request ({answer}); check {variables}, and what they allow"
        ));
    }
    StorageError::Failed(format!("the storage refuses the request ({answer})"))
}

/// Codes of wrong credentials that come with other statuses than 401 and 403.
const DENIED: [&str; 3] = ["InvalidAccessKeyId", "ExpiredToken", "AuthorizationHeaderMalformed"];

fn is_bucket(code: &str) -> bool {
    matches!(code, "NoSuchBucket" | "ContainerNotFound" | "ContainerBeingDeleted")
}

/// Returns the code in the XML of an error response, which the library only passes on in its message.
fn code(text: &str) -> Option<&str> {
    between(text, "<Code>", "</Code>")
}

fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(end).map(|(found, _)| found)
}

pub(crate) fn find<E: StdError + 'static>(error: &object_store::Error) -> Option<&E> {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::Error;

    /// The library's message for an answer with this status.
    fn answer(status: &str, body: &str) -> Box<dyn StdError + Send + Sync> {
        let request = "Error performing GET http://127.0.0.1:9/bucket/name?sig=secret in 1.2ms";
        format!("{request} - Server returned non-2xx status code: {status}: {body}").into()
    }

    #[test]
    fn answers_are_explained_without_the_request() {
        let path = || "name".to_owned();
        let xml = |code: &str| format!("<Error><Code>{code}</Code><Message>A text.\nRequestId:1</Message></Error>");
        let (missing, denied) = ("404 Not Found", "403 Forbidden");
        for (service, error, expected) in [
            (
                "s3",
                Error::NotFound { path: path(), source: answer(missing, &xml("NoSuchBucket")) },
                "the bucket 'bucket' does not exist; create it first",
            ),
            (
                "az",
                Error::NotFound { path: path(), source: answer(missing, &xml("ContainerNotFound")) },
                "the container 'bucket' does not exist; create it first",
            ),
            (
                "s3",
                Error::PermissionDenied { path: path(), source: answer(denied, &xml("SignatureDoesNotMatch")) },
                "the storage refuses the request (SignatureDoesNotMatch: A text.); check AWS_ACCESS_KEY_ID, \
                 AWS_SECRET_ACCESS_KEY and AWS_REGION, and what they allow",
            ),
            (
                "az",
                Error::PermissionDenied { path: path(), source: answer(denied, "") },
                "the storage refuses the request (403 Forbidden); check AZURE_STORAGE_ACCOUNT_NAME and \
                 AZURE_STORAGE_ACCOUNT_KEY, and what they allow",
            ),
            (
                "s3",
                Error::Generic { store: "S3", source: answer("503 Slow Down", &xml("SlowDown")) },
                "the storage refuses the request (SlowDown: A text.)",
            ),
        ] {
            let address = format!("{service}://bucket").parse().unwrap();
            assert_eq!(explain(&address, &error).to_string(), expected);
            assert!(!is_missing(&error));
        }
        // What the storage writes may repeat the request.
        let message = "<Error><Code>Odd</Code><Message>GET /n?sv=1&amp;sig=S3CRET&amp;se=2 is odd</Message></Error>";
        for body in [message, r#"{"url":"http://127.0.0.1:9/bucket/name?X-Amz-Signature=S3CRET&X-Amz-Date=1"}"#] {
            for source in
                [answer("400 Bad Request", body), format!("GET http://127.0.0.1:9/?sig=S3CRET: {body}").into()]
            {
                let shown =
                    explain(&"az://bucket".parse().unwrap(), &Error::Generic { store: "S3", source }).to_string();
                assert!(!shown.contains("S3CRET"), "{shown}");
            }
        }
        let object = Error::NotFound { path: path(), source: answer(missing, &xml("NoSuchKey")) };
        assert!(is_missing(&object) && !is_empty(&object));
    }
}
