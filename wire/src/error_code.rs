//! Error codes, their HTTP statuses and messages (specification 06).
//!
//! The table in this file is the only place that assigns a status to a code.
//!
//! This module must not depend on which error a request causes.

macro_rules! error_codes {
    ($($(#[$doc:meta])* $code:ident $(as $name:literal)? $status:literal $message:literal)*) => {
        /// An error code of the Table service.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $code,)*
        }

        impl ErrorCode {
            /// All codes, for tests.
            pub const ALL: &'static [Self] = &[$(Self::$code,)*];

            /// The name in error bodies and in the `x-ms-error-code` header.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$code => code_name!($code $($name)?),)* }
            }

            /// Returns the HTTP status of the code.
            pub fn status(self) -> u16 {
                match self { $(Self::$code => $status,)* }
            }

            /// Returns the default message of the code (06 §2 to §5).
            pub fn message(self) -> &'static str {
                match self { $(Self::$code => $message,)* }
            }
        }
    };
}

/// Returns the name of a code. The name differs from the variant's name if two codes with different statuses share it.
macro_rules! code_name {
    ($code:ident) => {
        stringify!($code)
    };
    ($code:ident $name:literal) => {
        $name
    };
}

error_codes! {
    /// The account does not accept account keys.
    AccountIsDisabled 403 "The specified account is disabled."
    /// The response would be Atom, which versions since 2015-12-11 do not support.
    AtomFormatNotSupported 415 "Atom format is not supported."
    /// The signature, date or account of the request is wrong.
    AuthenticationFailed 403 "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature."
    /// The credential does not cover this operation.
    AuthorizationFailure 403 "This request is not authorized to perform this operation."
    /// The credential lacks the permission.
    AuthorizationPermissionMismatch 403 "This request is not authorized to perform this operation using this permission."
    /// The credential requires HTTPS.
    AuthorizationProtocolMismatch 403 "This request is not authorized to perform this operation using this protocol."
    /// The credential does not cover this kind of resource.
    AuthorizationResourceTypeMismatch 403 "This request is not authorized to perform this operation using this resource type."
    /// The credential is for other services.
    AuthorizationServiceMismatch 403 "This request is not authorized to perform this operation using this service."
    /// The credential is restricted to other client IP addresses; the message contains the client's IP address.
    AuthorizationSourceIPMismatch 403 "This request is not authorized to perform this operation using this source IP."
    /// A transaction refers to two partitions.
    CommandsInBatchActOnDifferentPartitions 400 "All commands in a batch must operate on same entity group."
    /// `If-Match` with a weak `ETag` in a form that this service does not use.
    ConditionNotMet 412 "The condition specified using HTTP conditional header(s) is not met."
    /// No CORS rule matches a preflight request.
    CorsPreflightFailure 403 "CORS not enabled or no matching rule found for this request."
    /// An insert with the key of an existing entity.
    EntityAlreadyExists 409 "The specified entity already exists."
    /// An entity larger than 1 MiB.
    EntityTooLarge 400 "The entity is larger than the maximum allowed size (1MB)."
    /// The `Host` header is missing.
    HostInformationNotPresent 400 "The required host information is not present in the request. You must send a non-empty Host header or include the absolute URI in the request line."
    /// A write to the secondary endpoint.
    InsufficientAccountPermissions 403 "Write operations are not allowed."
    /// The server failed.
    InternalError 500 "Server encountered an internal error. Please try again after some time."
    /// A malformed `Authorization` header.
    InvalidAuthenticationInfo 400 "Authentication information is not given in the correct format. Check the value of Authorization header."
    /// A transaction changes an entity twice.
    InvalidDuplicateRow 400 "The batch request contains multiple changes with same row key. An entity can appear only once in a batch request."
    /// A malformed header.
    InvalidHeaderValue 400 "The value for one of the HTTP headers is not in the correct format."
    /// An unknown HTTP method.
    InvalidHttpVerb 400 "The HTTP verb specified was not recognized by the server."
    /// A malformed request; the message has details.
    InvalidInput 400 "One of the request inputs is not valid."
    /// A `Content-MD5` that is not 128 bits in Base64.
    InvalidMd5 400 "The MD5 value specified in the request is invalid. The MD5 value must be 128 bits and Base64-encoded."
    /// A malformed query parameter.
    InvalidQueryParameterValue 400 "Value for one of the query parameters specified in the request URI is invalid."
    /// A table name with forbidden characters. The misspelling occurs in the service's own message.
    InvalidResourceName 400 "The specifed resource name contains invalid characters."
    /// A path that does not identify a resource.
    InvalidUri 400 "The requested URI does not represent any resource on the server."
    /// A malformed XML body.
    InvalidXmlDocument 400 "XML specified is not syntactically valid."
    /// A value that is not allowed in its XML element. The message is the one that users report (08 §11.1).
    InvalidXmlNodeValue 400 "The value for one of the XML nodes is not in the correct format."
    /// JSON before version 2013-08-15 or with a data service version below 3.0.
    JsonFormatNotSupported 415 "JSON format is not supported."
    /// `odata=verbose`.
    JsonVerboseFormatNotSupported 415 "JSON Verbose format is not supported."
    /// A `Content-MD5` that does not match the body.
    Md5Mismatch 400 "The MD5 value specified in the request did not match the MD5 value calculated by the server."
    /// An unknown media type.
    MediaTypeNotSupported 415 "None of the provided media types are supported"
    /// A method that the resource does not have.
    MethodNotAllowed 405 "The requested method is not allowed on the specified resource."
    /// A body without a length.
    MissingContentLengthHeader 411 "The Content-Length header was not specified."
    /// An XML body that lacks an element required by the operation.
    MissingRequiredXmlNode 400 "A required XML node was not specified in the request body."
    /// A missing query parameter that the operation requires.
    MissingRequiredQueryParameter 400 "A required query parameter was not specified for this request."
    /// A missing header that the operation requires.
    MissingRequiredHeader 400 "A required HTTP header was not specified."
    /// The request has no credential, and the response states where to obtain a token (07 §9).
    NoAuthenticationInformation 401 "Server failed to authenticate the request. Please refer to the information in the www-authenticate header."
    /// A feature that the service does not have.
    NotImplemented 501 "The requested operation is not implemented on the specified resource."
    /// The request exceeded its timeout.
    OperationTimedOut 500 "Operation could not be completed within the specified time."
    /// A value outside its range; the message has details.
    OutOfRangeInput 400 "One of the request inputs is out of range."
    /// A position in the change feed that the log no longer contains, an extension; the message has details.
    PositionExpired 410 "The change feed does not contain this position."
    /// An insert without partition key or row key.
    PropertiesNeedValue 400 "The values are not specified for all properties in the entity."
    /// A property name that is not an identifier.
    PropertyNameInvalid 400 "The property name is invalid."
    /// A property name longer than 255 characters.
    PropertyNameTooLong 400 "The property name exceeds the maximum allowed length (255)."
    /// A value larger than 64 KiB.
    PropertyValueTooLarge 400 "The property value exceeds the maximum allowed size (64KB). If the property value is a string, it is UTF-16 encoded and the maximum number of characters should be 32K or less."
    /// A body larger than 4 MiB.
    RequestBodyTooLarge 413 "The request body is too large and exceeds the maximum permissible limit."
    /// A head that is too large or has too many headers.
    RequestHeadTooLarge as "OutOfRangeInput" 431 "One of the request inputs is out of range."
    /// A target that cannot be parsed.
    RequestUrlFailedToParse 400 "The url in the request could not be parsed."
    /// A target that is too long.
    RequestUrlTooLong as "OutOfRangeInput" 414 "One of the request inputs is out of range."
    /// An entity, or a table of the table list, that does not exist.
    ResourceNotFound 404 "The specified resource does not exist."
    /// The server currently has no capacity for this request.
    ServerBusy 503 "The server is busy."
    /// Create Table with the name of an existing table.
    TableAlreadyExists 409 "The table specified already exists."
    /// Create Table with the name of a table that is being deleted; sent only with `--rehearse deletion`.
    TableBeingDeleted 409 "The specified table is being deleted. Try operation later."
    /// An entity operation on a table that does not exist.
    TableNotFound 404 "The table specified does not exist."
    /// A token was refused, and the response states where to obtain another one (09 §4).
    TokenRefused as "InvalidAuthenticationInfo" 401 "Server failed to authenticate the request. Please refer to the information in the www-authenticate header."
    /// More than 252 custom properties.
    TooManyProperties 400 "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data. Each entity also has 3 system properties."
    /// The throughput of a table is used up; sent only with `--service cosmos` (11 §5).
    TooManyRequests 429 "Message: {\"Errors\":[\"Request rate is large. More Request Units may be needed, so no changes were made. Please retry this request later. Learn more: http://aka.ms/cosmosdb-error-429\"]}"
    /// A method that an operation on policies or properties does not support.
    UnsupportedHttpVerb 405 "The resource doesn't support the specified HTTP verb."
    /// `If-Match` does not match the current version.
    UpdateConditionNotSatisfied 412 "The update condition specified in the request was not satisfied."
    /// `X-HTTP-Method` given more than once.
    XMethodIncorrectCount 400 "More than one X-HTTP-Method is specified."
    /// `X-HTTP-Method` with a method that cannot be tunnelled.
    XMethodIncorrectValue 400 "The specified X-HTTP-Method is invalid."
    /// `X-HTTP-Method` without POST.
    XMethodNotUsingPost 400 "The request uses X-HTTP-Method with an HTTP verb other than POST."
}
