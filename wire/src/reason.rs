//! Why a request is refused, in the words of its author: the table of reasons, and the reason of one error.
//!
//! The service's own message is often the same for many causes and cannot change. A reason is what the server adds in
//! its log and in a response header. `docs/errors.md` is generated from this table and from [`crate::error_code`].
//!
//! This module must not depend on who may read a reason, or where it is written.

use crate::error_code::ErrorCode;
use std::borrow::Cow;
use std::fmt::{self, Write};
use std::time::Duration;

macro_rules! reasons {
    ($($kind:ident $name:literal [$($code:ident)+] $cause:literal $remedy:literal)*) => {
        /// A kind of mistake in a request.
        #[allow(clippy::doc_markdown, reason = "the texts are for users, who see them without markup")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ReasonKind {
            $(#[doc = $cause] $kind,)*
        }

        impl ReasonKind {
            /// All kinds, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// The name in logs, in the header and in the documentation.
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// Returns the codes that a request with this mistake can get.
            pub fn codes(self) -> &'static [ErrorCode] {
                match self { $(Self::$kind => &[$(ErrorCode::$code,)+],)* }
            }

            /// Returns what is wrong, as a sentence that holds for every request with this mistake.
            pub fn cause(self) -> &'static str {
                match self { $(Self::$kind => $cause,)* }
            }

            /// Returns what its author can do, as a sentence.
            pub fn remedy(self) -> &'static str {
                match self { $(Self::$kind => $remedy,)* }
            }
        }
    };
}

reasons! {
    TableMissing "table-missing" [TableNotFound]
        "The table does not exist in this account."
        "Create it first, or check the name and the account in the URL."
    TableExists "table-exists" [TableAlreadyExists]
        "A table with this name already exists; names differ only if they differ in more than letter case."
        "Use the table, or treat this answer as success."
    EntityMissing "entity-missing" [ResourceNotFound]
        "The entity or table that the URL names does not exist."
        "Check the keys in the URL, including their letter case, or use an upsert."
    EntityExists "entity-exists" [EntityAlreadyExists]
        "An entity with this PartitionKey and RowKey already exists."
        "Use another key, an update with an ETag, or an upsert."
    EntityChanged "entity-changed" [UpdateConditionNotSatisfied]
        "The entity was changed after the ETag in If-Match was read."
        "Read the entity again, apply the change to it, and retry with the new ETag."
    PositionExpired "position-expired" [PositionExpired]
        "The log no longer contains the changes after this position, or it began again."
        "Read the tables again, and continue with the position in x-ms-rowhouse-position (docs/change-feed.md)."
    RequestHead "request-head" [InvalidHttpVerb RequestUrlFailedToParse RequestUrlTooLong RequestHeadTooLarge InvalidHeaderValue InvalidInput]
        "The request line or a header is not valid HTTP/1.1."
        "Let a client library write requests, or encode the URL and correct the header."

    // Filters, options, formats, bodies and names.
    FilterSyntax "filter-syntax" [InvalidInput]
        "The filter is not a valid expression."
        "Compare a property with a literal by eq, ne, gt, ge, lt or le, and join comparisons with and, or and not, as in Name eq 'x' and Age gt 5. Positions are counted from 0."
    FilterLiteral "filter-literal" [InvalidInput NotImplemented]
        "A literal in the filter is out of range or malformed, or has a type that no property has."
        "Write the literal in the form of the property's type: 'text', 5, 5L, 1.5, true, datetime'2031-03-14T08:15:30Z', guid'...' or X'0A'."
    FilterTypes "filter-types" [InvalidInput]
        "The filter combines operands whose types do not fit."
        "Compare a property with a literal of the property's type; PartitionKey and RowKey are strings, and Timestamp is a time."
    FilterUnsupported "filter-unsupported" [NotImplemented]
        "The filter is valid OData, but uses something that the service does not support."
        "Use only comparisons of a property with a literal, and, or, not and parentheses. Positions are counted from 0."
    FilterTooLarge "filter-too-large" [InvalidInput]
        "The filter is too long or nested too deeply."
        "Send several queries, or select a range of keys and filter in the client."
    FilterProperty "filter-property" [InvalidInput]
        "The list of tables can be filtered only by TableName."
        "Compare TableName with a string, as in TableName ge 'cars' and TableName lt 'cart'."
    SelectInvalid "select-invalid" [InvalidInput]
        "The option $select is not a list of names of properties."
        "Separate at most 255 names with commas, as in $select=PartitionKey,Name, or send no $select to get all properties."
    OptionUnsupported "option-unsupported" [NotImplemented]
        "The service does not support the query option."
        "Omit the option: entities are returned in the order of PartitionKey and RowKey, and continuation tokens lead to further pages."
    OptionRepeated "option-repeated" [InvalidInput]
        "A query option is given more than once; letter case does not distinguish names."
        "Send the option once."
    OptionEncoding "option-encoding" [InvalidInput]
        "The name or value of a query option is not UTF-8 after percent-decoding."
        "Encode the text in UTF-8 before percent-encoding it."
    TopInvalid "top-invalid" [InvalidInput]
        "The option $top is not a whole number from 0 to 1000."
        "Send a number from 1 to 1000, and follow the continuation tokens to get more."
    SkipInvalid "skip-invalid" [InvalidInput]
        "The option $skip is not a whole number from 0 to 1000000."
        "Send a smaller number, or follow the continuation tokens."
    OrderByUnsupported "order-by-unsupported" [InvalidInput NotImplemented ResourceNotFound]
        "The server cannot list entities in the order that $orderby requests."
        "Order by PartitionKey,RowKey, by RowKey within one partition, or by one property with an index."
    CountInvalid "count-invalid" [InvalidInput OperationTimedOut]
        "The option $inlinecount or $count has an invalid value, or the entities cannot be counted in the time of a query."
        "Send $inlinecount=allpages with a filter that selects fewer keys, or count with /TABLE/$count, which continues with tokens."
    TimeoutInvalid "timeout-invalid" [InvalidQueryParameterValue]
        "The timeout is not a whole number of seconds."
        "Send a number of seconds, such as timeout=30, which is the maximum and the default."
    ContinuationInvalid "continuation-invalid" [InvalidInput]
        "The continuation token is malformed or belongs to another list."
        "Send NextPartitionKey, NextRowKey or NextTableName exactly as the headers of the last page gave them, percent-encoded once."
    DeletionRefused "deletion-refused" [InvalidInput MissingRequiredQueryParameter]
        "The deletion by filter has an option that it does not support, or no filter."
        "Send only $filter; $filter=true deletes all entities."
    FormatUnsupported "format-unsupported" [AtomFormatNotSupported JsonFormatNotSupported JsonVerboseFormatNotSupported MediaTypeNotSupported]
        "The version of the service does not support the format that Accept, $format or Content-Type names."
        "Send Accept and Content-Type application/json with x-ms-version 2013-08-15 or later and DataServiceVersion 3.0; Atom needs a version before 2015-12-11."
    ContentTypeMissing "content-type-missing" [InvalidInput]
        "The request has no Content-Type."
        "Send Content-Type: application/json."
    CharsetUnsupported "charset-unsupported" [MediaTypeNotSupported]
        "The charset in Content-Type is not UTF-8, and the body is not ASCII."
        "Send the body in UTF-8."
    BodyMalformed "body-malformed" [InvalidInput]
        "The body is not a valid entity or table in the format that Content-Type names."
        "Send one flat JSON object (or Atom entry) in UTF-8 without repeated names."
    PropertyType "property-type" [InvalidInput]
        "The declared type of a property does not exist."
        "Declare Edm.String, Edm.Binary, Edm.Boolean, Edm.DateTime, Edm.Double, Edm.Guid, Edm.Int32 or Edm.Int64."
    PropertyValue "property-value" [InvalidInput OutOfRangeInput]
        "The value of a property does not fit its type."
        "Correct the value, or declare another type in Name@odata.type."
    PropertyNameWrong "property-name" [PropertyNameInvalid PropertyNameTooLong]
        "The name of a property is not a letter or '_', followed by letters, digits and '_', with at most 255 characters (1,024 with --service cosmos)."
        "Rename the property."
    PropertiesTooMany "properties-too-many" [TooManyProperties]
        "The entity would have more than 252 properties besides PartitionKey, RowKey and Timestamp (255 with --service cosmos). A merge counts the properties that the stored entity keeps."
        "Distribute the properties to several entities, or put several values into one property."
    ValueTooLarge "value-too-large" [PropertyValueTooLarge]
        "A value is larger than 64 KiB; strings count in UTF-16, so at most 32,768 characters."
        "Split the value into several properties, or store it elsewhere."
    EntityTooBig "entity-too-large" [EntityTooLarge]
        "The entity would be larger than 1 MiB, in which strings and names count in UTF-16, or, with --service cosmos, than 2 MiB in UTF-8. A merge counts the properties that the stored entity keeps."
        "Distribute the properties to several entities, or store large values elsewhere."
    KeyMissing "key-missing" [PropertiesNeedValue]
        "The body does not contain both PartitionKey and RowKey, or one of them is null."
        "Send both as strings; the names are case-sensitive, and an empty string is a valid key."
    KeyInvalid "key-invalid" [OutOfRangeInput InvalidInput]
        "A key is not a string, or contains a character that keys cannot have: '/', '\\', '#', '?' or a control character."
        "Replace the character, for example by its percent-encoding as part of the key, or encode the key in Base64url."
    KeysDiffer "keys-differ" [InvalidInput]
        "The keys in the body are not those in the URL."
        "Send the keys of the URL, or none; with --service cosmos, the server does not let the URL win."
    KeyTooLong "key-too-long" [PropertyValueTooLarge]
        "A key is longer than 512 characters, counted in UTF-16."
        "Use a shorter key, such as a hash."
    TableNameWrong "table-name" [InvalidResourceName OutOfRangeInput InvalidInput]
        "The name of a table is not 3 to 63 ASCII letters and digits that begin with a letter, or it is 'tables'."
        "Choose another name; it cannot contain '-', '_' or '.'."
    TableNameMissing "table-name-missing" [PropertiesNeedValue]
        "The body contains no TableName, or it is null."
        "Send {\"TableName\":\"cars\"}; the name of the property is case-sensitive."

    // Credentials, URLs, headers, batches and XML.
    AuthorizationMalformed "authorization-malformed" [InvalidAuthenticationInfo]
        "The Authorization header is malformed."
        "Send 'SharedKey ACCOUNT:SIGNATURE', or let a client library write the header."
    AuthorizationScheme "authorization-scheme" [InvalidAuthenticationInfo]
        "The Authorization header has a scheme that this server does not accept."
        "Sign with SharedKey or SharedKeyLite and the account's key, or put a shared access signature in the URL. Bearer tokens need a server with a section [oauth] in its configuration file."
    CredentialMissing "credential-missing" [NoAuthenticationInformation AuthenticationFailed ResourceNotFound]
        "The request has no credential: neither an Authorization header nor a shared access signature (sig) in the URL."
        "Use a connection string with AccountKey or SharedAccessSignature, or UseDevelopmentStorage=true."
    DateMissing "date-missing" [AuthenticationFailed]
        "The signed request has no date."
        "Send x-ms-date, such as 'Fri, 14 Mar 2031 08:15:30 GMT', and sign the same text."
    DateMalformed "date-malformed" [AuthenticationFailed]
        "The date of the request is malformed."
        "Write it in English and in GMT, as in 'Fri, 14 Mar 2031 08:15:30 GMT'."
    DateSkewed "date-skewed" [AuthenticationFailed]
        "The date of the request differs from the server's clock by more than 15 minutes."
        "Compare the clocks and time zones of client and server, and sign every attempt again."
    AccountNotInUrl "account-not-in-url" [AuthenticationFailed]
        "The URL does not name an account."
        "Begin the path with the account, as in http://127.0.0.1:10002/devstoreaccount1/Tables, or use a host such as account.table.localhost."
    AccountDiffers "account-differs" [AuthenticationFailed]
        "The Authorization header names a different account than the URL."
        "Use the account's name in both; the path begins with the account unless the host names the account."
    SignatureMalformed "signature-malformed" [AuthenticationFailed]
        "The signature is not the Base64 form of 32 bytes."
        "Sign with HMAC-SHA256, encode the result in Base64, and encode '+', '/' and '=' in a URL as %2B, %2F and %3D."
    SignatureMismatch "signature-mismatch" [AuthenticationFailed]
        "The signature matches no key of the account in the URL."
        "Check the account and its key, and compare the string that you sign with the one in the server's log. A proxy must not change path, date, Content-Type or Content-MD5."
    BearerOverHttp "bearer-over-http" [AuthenticationFailed TokenRefused]
        "A bearer token was sent over HTTP."
        "Use https: anyone on the network could read the token."
    TokenRefused "token-refused" [AuthenticationFailed TokenRefused]
        "The bearer token is not valid for this request."
        "Get a new token from the issuer, for an audience that this server accepts."
    AccountUnknown "account-unknown" [AuthenticationFailed]
        "The credential is valid, but the account in the URL does not exist."
        "Check the account in the URL."
    SasIncomplete "sas-incomplete" [AuthenticationFailed]
        "The query string does not contain a complete shared access signature."
        "Copy the whole signature; in a shell, put the URL in quotes, because '&' ends a command."
    SasField "sas-field" [AuthenticationFailed]
        "A field of the shared access signature is malformed or misplaced."
        "Create the signature again with a correct field; fields cannot be changed after signing."
    SasExpired "sas-expired" [AuthenticationFailed]
        "The shared access signature has expired."
        "Create a new signature, and check the clock of the machine that creates it."
    SasNotYetValid "sas-not-yet-valid" [AuthenticationFailed]
        "The shared access signature is not valid yet."
        "Omit the start (st) or set it some minutes earlier, because clocks differ."
    SasPolicy "sas-policy" [AuthenticationFailed]
        "The stored access policy of the shared access signature does not permit the request."
        "Compare the identifier (si) and the signature's fields with the policies of the table (Get Table ACL)."
    SasUser "sas-user" [AuthenticationFailed]
        "The principal or user of the shared access signature is not accepted."
        "Request a new user delegation key, and send the token of the user to whom the signature is bound."
    HostNotLocal "host-not-local" [AuthorizationFailure]
        "A request with the development account's key names a host other than this machine, as a web page that made its own name resolve to this machine would do."
        "Address the server as 127.0.0.1 or localhost, name the host's domain with --domain, or, if no browser runs here, add --allow-development-key-on-network."
    PageNotAllowed "page-not-allowed" [AuthorizationFailure]
        "A web page of another origin tried to write with the development account's key."
        "Allow the origin and the method with a CORS rule of the account."
    SourceDenied "source-denied" [AuthorizationSourceIPMismatch]
        "The shared access signature does not allow the client's IP address (sip)."
        "Use the signature from an allowed address, or create one without sip."
    ProtocolDenied "protocol-denied" [AuthorizationProtocolMismatch]
        "The shared access signature allows only HTTPS (spr=https), and the request came over HTTP."
        "Use https, or create a signature with spr=https,http."
    ServiceDenied "service-denied" [AuthorizationServiceMismatch]
        "The account SAS does not cover the Table service: 't' is missing in ss."
        "Create a signature with ss=t."
    ResourceTypeDenied "resource-type-denied" [AuthorizationResourceTypeMismatch]
        "The account SAS does not cover this kind of resource (srt)."
        "Create a signature whose srt contains the letter: 's' for the service, 'c' for tables, 'o' for entities."
    PermissionDenied "permission-denied" [AuthorizationPermissionMismatch]
        "The credential lacks a permission for this operation."
        "Create a signature or a policy with the permission, or assign the role."
    OperationDenied "operation-denied" [AuthorizationFailure AuthenticationFailed]
        "This kind of credential does not allow the operation."
        "Use the account's key, or, for a user delegation key, a bearer token."
    TableDenied "table-denied" [AuthorizationFailure]
        "The shared access signature is for another table (tn)."
        "Create a signature for the table in the URL."
    RangeDenied "range-denied" [AuthorizationFailure ResourceNotFound]
        "The keys are outside the range of the shared access signature (spk, srk, epk, erk)."
        "Use keys in the range, or create a signature with another range."
    AnalyticsTable "analytics-table" [AuthorizationFailure]
        "The tables of Storage Analytics are written only by the server."
        "Use another table."
    SecondaryReadOnly "secondary-read-only" [InsufficientAccountPermissions]
        "The secondary endpoint accepts no writes."
        "Send writes to the primary endpoint, without '-secondary'."
    SecondaryOff "secondary-off" [InsufficientAccountPermissions]
        "The secondary endpoint of this server is turned off."
        "Read from the primary endpoint, or start the server without --secondary off."
    StatsOnPrimary "stats-on-primary" [InvalidQueryParameterValue]
        "Only the secondary endpoint has statistics (comp=stats)."
        "Send the request to the account with '-secondary', as in /devstoreaccount1-secondary/."
    HostMissing "host-missing" [HostInformationNotPresent]
        "The request has no Host header."
        "Send the host and port that the client connects to."
    HostInvalid "host-invalid" [InvalidHeaderValue]
        "The Host header is given twice, or is neither a name nor an address with an optional port."
        "Send one Host header, such as 127.0.0.1:10002."
    TransferEncoding "transfer-encoding" [InvalidHeaderValue]
        "The Transfer-Encoding header is not exactly 'chunked'."
        "Send Content-Length, or Transfer-Encoding: chunked alone."
    CorsHeaderMissing "cors-header-missing" [InvalidHeaderValue]
        "A preflight request (OPTIONS) needs the headers Origin and Access-Control-Request-Method."
        "Send both headers; the service has no other operation with the method OPTIONS."
    CorsRuleMissing "cors-rule-missing" [CorsPreflightFailure]
        "No CORS rule of the account allows the origin, the method and the headers of the preflight request."
        "Add a rule with Set Table Service Properties; all three must match the same rule."
    VersionUnknown "version-unknown" [InvalidHeaderValue InvalidQueryParameterValue]
        "The service has no such version."
        "Send x-ms-version: 2019-02-02 or another version of the service."
    HeaderText "header-text" [InvalidHeaderValue]
        "A header contains characters other than visible ASCII."
        "Remove the characters, or percent-encode them where the header allows it."
    ClientRequestId "client-request-id" [InvalidHeaderValue]
        "The x-ms-client-request-id is longer than 1,024 characters or contains characters other than visible ASCII."
        "Send a shorter ID, such as a UUID."
    DataServiceVersion "data-service-version" [InvalidHeaderValue]
        "The service does not know the version of OData in the headers."
        "Send 3.0, 2.0 or 1.0 in DataServiceVersion and MaxDataServiceVersion, or omit both."
    LastEventId "last-event-id" [InvalidHeaderValue]
        "The Last-Event-ID header is not a position in the change feed."
        "Send the ID of the last event that was received."
    EtagMalformed "etag-malformed" [InvalidInput]
        "If-Match is neither '*' nor one weak ETag."
        "Send the ETag of a response unchanged, as in W/\"datetime'2031-03-14T08%3A15%3A30.1Z'\", or '*'."
    EtagForeign "etag-foreign" [ConditionNotMet]
        "If-Match contains an ETag in a form that this service never writes, so no entity can match it."
        "Send the ETag of a response unchanged, as in W/\"datetime'2031-03-14T08%3A15%3A30.1Z'\", or '*'."
    IfMatchMissing "if-match-missing" [MissingRequiredHeader]
        "The operation needs an If-Match header."
        "Send If-Match: * to ignore concurrent changes, or the ETag that was read."
    IfNoneMatch "if-none-match" [InvalidInput]
        "The operation does not support If-None-Match."
        "Send If-Match or no condition; to create an entity only if it is new, use Insert Entity (POST)."
    ContentMd5Malformed "content-md5-malformed" [InvalidMd5]
        "Content-MD5 is not the Base64 form of 16 bytes."
        "Encode the bytes of the MD5 hash, not its hexadecimal form, in Base64."
    ContentMd5Differs "content-md5-differs" [Md5Mismatch]
        "The body does not have the MD5 hash in Content-MD5."
        "Compute the hash of exactly the bytes that are sent; a proxy must not change the body."
    ContentLengthMissing "content-length-missing" [MissingContentLengthHeader]
        "The operation needs a body, and the request has neither Content-Length nor Transfer-Encoding."
        "Send Content-Length, even if it is 0."
    BodyTooLarge "body-too-large" [RequestBodyTooLarge]
        "The body is larger than the limit of the operation."
        "Send less at a time; a batch has at most 100 operations and 4 MiB (128 and 2 MiB with --service cosmos)."
    BodyBroken "body-broken" [InvalidInput]
        "The chunks of the body are malformed."
        "Check the chunked encoding of the client or of the proxy in front of the server."
    TunnelledMethod "tunnelled-method" [XMethodIncorrectCount XMethodIncorrectValue XMethodNotUsingPost]
        "X-HTTP-Method is not used correctly."
        "Send one X-HTTP-Method with MERGE, PUT, PATCH or DELETE, in a POST request, or send the method itself."
    MethodUnknown "method-unknown" [InvalidHttpVerb]
        "The service has no such HTTP method."
        "Use GET, POST, PUT, MERGE, PATCH, DELETE or HEAD."
    MethodNotAllowed "method-not-allowed" [MethodNotAllowed UnsupportedHttpVerb]
        "The resource in the URL does not have this method."
        "Use a method that the resource has, and check the URL."
    CompUnknown "comp-unknown" [InvalidQueryParameterValue]
        "The resource in the URL has no such query options comp and restype."
        "Use comp=acl for a table, or restype=service with comp=properties, stats or userdelegationkey for the account."
    CompIncomplete "comp-incomplete" [MissingRequiredQueryParameter]
        "One of the query options comp and restype is missing."
        "Use restype=service with comp=properties, stats or userdelegationkey, as in /account/?restype=service&comp=properties."
    ExtensionsOff "extensions-off" [InvalidQueryParameterValue MethodNotAllowed NotImplemented InvalidInput InvalidResourceName OutOfRangeInput]
        "The operation is an extension, and this server offers only the operations of the service."
        "Start the server with --extensions, or, for the change feed, with --keep-log."
    DocumentMissing "document-missing" [NotImplemented]
        "The service has no service document and no metadata document."
        "List the tables with /account/Tables."
    ServiceLacks "service-lacks" [NotImplemented]
        "Azure Cosmos DB for Table does not have this operation, and the server answers like it."
        "Do without it, or start the server without --service cosmos."
    PathBelowTable "path-below-table" [NotImplemented]
        "The path has a further segment after the name of a table."
        "Remove the name of the table from the endpoint of the client: the endpoint ends with the account."
    UrlMalformed "url-malformed" [InvalidInput]
        "The path is malformed."
        "Write an entity as table(PartitionKey='p',RowKey='r') and a table as Tables('name'), double single quotes in keys, and percent-encode other characters."
    UrlKeys "url-keys" [InvalidInput]
        "The URL does not name exactly the two keys of an entity."
        "Write table(PartitionKey='p',RowKey='r')."
    BatchContentType "batch-content-type" [InvalidInput]
        "The Content-Type of a batch is not multipart/mixed with a boundary."
        "Send Content-Type: multipart/mixed; boundary=batch_1 with the boundary of the body, of 1 to 70 characters."
    BatchMalformed "batch-malformed" [InvalidInput]
        "The body of the batch is malformed."
        "Compare it with the example in the documentation of entity group transactions; lines between headers and bodies must be empty."
    BatchTooLong "batch-too-long" [InvalidInput]
        "A changeset has more than 100 operations (128 with --service cosmos)."
        "Send at most 100 operations of one partition in a batch."
    BatchPartitions "batch-partitions" [CommandsInBatchActOnDifferentPartitions]
        "The operations of a changeset are in different partitions."
        "Send one batch for each PartitionKey."
    BatchTables "batch-tables" [CommandsInBatchActOnDifferentPartitions]
        "The operations of a changeset are in different tables."
        "Send one batch for each table."
    BatchDuplicate "batch-duplicate" [InvalidDuplicateRow InvalidInput]
        "A changeset contains two operations on the same entity."
        "Combine them to one operation, or send a second batch."
    BatchMixed "batch-mixed" [InvalidInput]
        "A batch is either one changeset with writes or one query outside a changeset."
        "Send further changesets and queries as separate requests."
    BatchOperation "batch-operation" [InvalidInput MethodNotAllowed]
        "A batch cannot contain this operation."
        "Send it outside a batch: a changeset contains inserts, updates, merges and deletions of entities."
    BatchPartUrl "batch-part-url" [InvalidInput]
        "The URL of an operation is not in the account of the batch."
        "Use the URL that the operation has outside a batch, with the same account."
    XmlMalformed "xml-malformed" [InvalidXmlDocument]
        "The body is not well-formed XML in UTF-8, has a document type declaration, or has too many elements."
        "Send the elements as a GET of the same URL returns them."
    XmlElement "xml-element" [InvalidXmlDocument MissingRequiredXmlNode]
        "An XML element is missing, unknown, misplaced or repeated."
        "Send the elements as a GET of the same URL returns them; names are case-sensitive."
    XmlValue "xml-value" [InvalidXmlDocument InvalidXmlNodeValue InvalidInput]
        "The value of an XML element is not allowed."
        "Correct the value of the element."
}

/// The maximum length of a reason in a header or a log line, in bytes.
pub const REASON_BYTES_MAX: usize = 1000;
/// The maximum length of a quoted value, in characters.
const VALUE_CHARACTERS_MAX: usize = 64;

impl ReasonKind {
    /// Returns the kind that a code alone tells, or `None` if the code has several causes. A kind whose first code is
    /// another one does not count: where it has this code, its reason is always given.
    pub fn of_code(code: ErrorCode) -> Option<Self> {
        let mut kinds = Self::ALL.iter().filter(|kind| kind.codes().first() == Some(&code));
        kinds.next().copied().filter(|_| kinds.next().is_none())
    }

    /// Returns true for mistakes that programs make on purpose, such as a lookup of an entity that may not exist.
    pub fn is_routine(self) -> bool {
        matches!(
            self,
            Self::TableMissing | Self::TableExists | Self::EntityMissing | Self::EntityExists | Self::EntityChanged
        )
    }

    /// Returns true if the request alone shows the mistake, together with the clock and the options of the server.
    /// Only such reasons are sent to clients that have not proved who they are, so they must not depend on accounts,
    /// keys, policies, or on the result of checking a signature.
    ///
    /// The refusals of web pages follow a valid signature, and those of preflight requests depend on the CORS rules.
    /// Their status and code, which nothing else has, tell as much.
    pub fn is_of_request_alone(self) -> bool {
        matches!(
            self,
            Self::RequestHead
                | Self::AuthorizationMalformed
                | Self::AuthorizationScheme
                | Self::CredentialMissing
                | Self::DateMissing
                | Self::DateMalformed
                | Self::DateSkewed
                | Self::AccountNotInUrl
                | Self::AccountDiffers
                | Self::SignatureMalformed
                | Self::BearerOverHttp
                | Self::SasIncomplete
                | Self::SasField
                | Self::SasExpired
                | Self::SasNotYetValid
                | Self::HostNotLocal
                | Self::PageNotAllowed
                | Self::CorsRuleMissing
                | Self::HostMissing
                | Self::HostInvalid
                | Self::TransferEncoding
                | Self::CorsHeaderMissing
        )
    }

    /// Creates a reason of this kind. The detail is a sentence that says what is wrong with this request; it must not
    /// contain values of entities.
    pub fn because(self, detail: impl Into<Cow<'static, str>>) -> Reason {
        Reason { kind: self, detail: detail.into(), value: None, index: None }
    }
}

/// Why one request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The kind of mistake.
    pub kind: ReasonKind,
    /// What is wrong with this request; empty if the kind says everything.
    detail: Cow<'static, str>,
    /// The wrong value, which may be one of an entity.
    value: Option<String>,
    /// The index of the operation in its batch.
    index: Option<usize>,
}

impl Reason {
    /// Adds the beginning of the wrong value. It is shown only to the author of the request, and in logs only if the
    /// operator asks for it.
    #[must_use]
    pub fn quoting(self, value: &str) -> Self {
        let mut shown: String = value.chars().take(VALUE_CHARACTERS_MAX).collect();
        if shown.len() < value.len() {
            shown.push('…');
        }
        Self { value: Some(shown), ..self }
    }

    /// Attributes the reason to the operation at the given index of a batch, unless it has one.
    #[must_use]
    pub fn at_index(self, index: usize) -> Self {
        Self { index: self.index.or(Some(index)), ..self }
    }

    /// Returns the reason as one line of ASCII, at most [`REASON_BYTES_MAX`] bytes long.
    pub fn line(&self, with_value: bool) -> String {
        let mut text = format!("{}: ", self.kind.name());
        if let Some(index) = self.index {
            // Writing to a string cannot fail.
            _ = write!(text, "operation {index} of the batch: ");
        }
        text.push_str(if self.detail.is_empty() { self.kind.cause() } else { &self.detail });
        if let Some(value) = self.value.as_ref().filter(|_| with_value) {
            _ = write!(text, " Given: '{value}'.");
        }
        text.push(' ');
        text.push_str(self.kind.remedy());
        let mut line = String::with_capacity(text.len());
        for character in text.chars() {
            if matches!(character, ' '..='~') {
                line.push(character);
            } else {
                _ = write!(line, "{}", character.escape_unicode());
            }
            if line.len() > REASON_BYTES_MAX {
                line.truncate(REASON_BYTES_MAX);
                break;
            }
        }
        line
    }
}

/// Shows the reason without the wrong value.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line(false))
    }
}

/// Returns a duration in the largest unit of which it has at least two, for people to read.
pub fn rough_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} minutes", seconds / 60),
        7200..172_800 => format!("{} hours", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const PAGE: &str = "../docs/errors.md";

    const INTRODUCTION: &str = "\
# Errors

<!-- Written by a test from the tables of errors and reasons: UPDATE_DOCS=1 cargo test -p rowhouse-wire errors_page -->

The service answers many mistakes with the same message, and Rowhouse sends the same. To tell what is wrong with one request, it
adds a reason: the name of a kind of mistake, what is wrong, and what to do. You find it

- in the response header `x-ms-rowhouse-reason`, by default in responses to requests for the development account;
  [`--reason-header`](configuration.md#--reason-header-whose) turns the header on for other accounts, or off. A client without a valid
  credential gets only reasons that the request alone shows, except for the development account, whose key is public. In a batch of
  several operations, the header names the index of the refused one.
- in the log, by default for the development account; see [`--log-reasons`](configuration.md#--log-reasons-whose). There, reasons that
  programs cause on purpose (marked \"routine\" below) are left out, and so are values, which may be parts of entities.

A header or line is ASCII: other characters are written as `\\u{e9}`. It has at most 1,000 bytes, and quotes at most 64 characters of
a value.

| code | status | message of the service |
|---|---|---|
";

    fn page() -> String {
        let mut page = INTRODUCTION.to_owned();
        for code in ErrorCode::ALL {
            let has_kinds = ReasonKind::ALL.iter().any(|kind| kind.codes().contains(code));
            let name = if has_kinds {
                format!("[`{0}`](#{1})", code.as_str(), code.as_str().to_lowercase())
            } else {
                format!("`{}`", code.as_str())
            };
            writeln!(page, "| {name} | {} | {} |", code.status(), code.message()).unwrap();
        }
        page.push_str("\nThe message of a request can be more specific than the one in the table.\n");
        let mut names: Vec<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let has_code = |kind: &ReasonKind| kind.codes().iter().any(|code| code.as_str() == name);
            let kinds: Vec<_> = ReasonKind::ALL.iter().filter(|kind| has_code(kind)).collect();
            if kinds.is_empty() {
                continue;
            }
            write!(page, "\n## {name}\n\n| reason | what is wrong | what to do |\n|---|---|---|\n").unwrap();
            for kind in kinds {
                let routine = if kind.is_routine() { " (routine)" } else { "" };
                let text = |text: &str| text.replace('|', "\\|");
                writeln!(page, "| `{}`{routine} | {} | {} |", kind.name(), text(kind.cause()), text(kind.remedy()))
                    .unwrap();
            }
        }
        page
    }

    #[test]
    fn errors_page_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
        let page = page();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &page).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == page, "{PAGE} differs from the tables: run the command in its first comment");
    }

    #[test]
    fn a_line_is_bounded_ascii_and_shows_the_value_only_on_request() {
        let reason = ReasonKind::EntityMissing.because("The row key is missing:\r\n ü.").quoting(&"ß\n".repeat(100));
        let line = reason.line(true);
        assert!(line.is_ascii() && !line.contains(['\r', '\n']), "{line}");
        assert!(line.starts_with("entity-missing: The row key is missing:\\u{d}\\u{a} \\u{fc}. Given: '\\u{df}\\u{a}"));
        assert!(!reason.line(false).contains("\\u{df}"));
        let long = ReasonKind::EntityMissing.because("ü".repeat(10_000));
        assert_eq!(long.line(true).len(), REASON_BYTES_MAX);
        let third = ReasonKind::EntityMissing.because("").at_index(3).at_index(4);
        assert!(third.line(false).starts_with("entity-missing: operation 3 of the batch: The entity"));
    }

    #[test]
    fn names_are_unique_and_texts_are_sentences() {
        let mut names: Vec<_> = ReasonKind::ALL.iter().map(|kind| kind.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ReasonKind::ALL.len());
        for kind in ReasonKind::ALL {
            for text in [kind.cause(), kind.remedy()] {
                assert!(text.ends_with('.') && text.starts_with(|first: char| first.is_ascii_uppercase()), "{text}");
            }
        }
    }
}
