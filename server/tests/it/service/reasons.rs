//! The header that tells why a request is refused: one case for each family of reasons, and what clients without a valid
//! credential get. The rules are tested where they are implemented.

use crate::case::{check, get, post, put, signature};
use crate::server::Server;
use rowhouse_server::{ReasonAudience, ReasonSettings};
use test_support::{ACCOUNT, Response};

const REASON: &str = "x-ms-rowhouse-reason";
const DATE: &str = "Fri, 14 Mar 2031 08:15:30 GMT";
const NO_SIGNATURE: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

fn send(server: &Server, path: &str, headers: &[(&str, &str)]) -> Response {
    let mut request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-version: 2019-02-02\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    let mut client = server.client();
    client.send((request + "\r\n").as_bytes()).unwrap();
    client.receive().unwrap()
}

#[test]
fn refused_credentials() {
    let server = Server::with_tables(&["cars"]);
    let authorized = |value: &str| get("/Tables").authorized(value);
    let outdated = signature("r", |fields| fields.expiry = "2031-03-13".into());
    let restricted = |permissions| signature(permissions, |fields| fields.start_partition = "m".into());
    check(
        &server,
        [
            authorized("SharedKey devstoreaccount1")
                .answers(400, "InvalidAuthenticationInfo")
                .because("authorization-malformed: "),
            authorized("Basic x")
                .answers(400, "InvalidAuthenticationInfo")
                .because("authorization-scheme: The Authorization"),
            authorized("Bearer x")
                .answers(400, "InvalidAuthenticationInfo")
                .because("authorization-scheme: This server"),
            authorized("").answers(403, "AuthenticationFailed").because("credential-missing: "),
            get("/Tables").without("x-ms-date").answers(403, "AuthenticationFailed").because("date-missing: "),
            get("/Tables")
                .with("x-ms-date", "Fri, 14 Mar 2031 07:15:30 GMT")
                .answers(403, "AuthenticationFailed")
                .because("date-skewed: The x-ms-date header is 60 minutes behind the server's clock"),
            get("/cars()").signed(&outdated).answers(403, "AuthenticationFailed").because("sas-expired: "),
            post("/cars", "{}")
                .signed(&signature("r", |_| {}))
                .answers(403, "AuthorizationPermissionMismatch")
                .because("permission-denied: The operation needs 'a' "),
            get("/bikes()")
                .signed(&signature("r", |_| {}))
                .answers(403, "AuthorizationFailure")
                .because("table-denied: "),
            get("/cars(PartitionKey='a',RowKey='b')")
                .signed(&restricted("r"))
                .answers(404, "ResourceNotFound")
                .because("range-denied: "),
            get("/?restype=service&comp=properties")
                .signed(&signature("r", |_| {}))
                .answers(403, "AuthorizationFailure")
                .because("operation-denied: "),
        ],
    );
    server.wait_for_log("sas-expired: The shared access signature expired 32 hours ago");
}

/// Whoever has no valid credential must not learn from a reason whether an account, a key or a policy exists.
#[test]
fn reasons_do_not_depend_on_accounts_and_signatures() {
    let everyone = ReasonSettings { header: ReasonAudience::Everyone, ..ReasonSettings::default() };
    let server = Server::with(|settings| settings.reasons = everyone);
    server.create(&["cars"]);
    let told = |account: &str, query: &str, headers: &[(&str, &str)]| {
        let response = send(&server, &format!("/{account}/cars(){query}"), headers);
        (response.status, response.header(REASON).map(|told| told.replace(account, "ACCOUNT")))
    };
    let signed = |change: &str| format!("SharedKey {change}:{NO_SIGNATURE}");
    for (query, signer, date, is_told) in [
        ("", None, DATE, true),
        ("", Some("another"), DATE, true),
        ("", Some("same"), "Fri, 14 Mar 2031 07:15:30 GMT", true),
        ("", Some("same"), DATE, false),
        ("?sv=2019-02-02&tn=cars&sp=r&se=2031-03-13&sig=x", None, DATE, true),
        (
            "?sv=2019-02-02&tn=cars&sp=r&se=2031-03-13&sig=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA%3D",
            None,
            DATE,
            true,
        ),
        (
            "?sv=2019-02-02&tn=cars&sp=r&se=2031-03-15&sig=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA%3D",
            None,
            DATE,
            false,
        ),
        ("?sv=2019-02-02&tn=cars&si=pol&sig=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA%3D", None, DATE, false),
    ] {
        let [existing, missing] = [ACCOUNT, "missingaccount1"].map(|account| {
            let authorization = signer.map(|signer| signed(if signer == "same" { account } else { signer }));
            let mut headers = vec![("x-ms-date", date)];
            headers.extend(authorization.as_deref().map(|value| ("Authorization", value)));
            told(account, query, &headers)
        });
        assert_eq!(existing, missing, "{query} {signer:?}");
        assert_eq!(existing.1.is_some(), is_told, "{query} {signer:?}: {existing:?}");
    }
    // A signature that is right, except that its policy does not exist, is told nothing either.
    let by_policy = signature("", |fields| (fields.policy, fields.expiry) = ("pol".into(), "".into()));
    assert_eq!(told(ACCOUNT, &format!("?{by_policy}"), &[]), (403, None));
    server.wait_for_log("sas-policy: The table has no stored access policy");
    // An expired signature is told the same, whether it is right or not.
    let outdated = signature("r", |fields| fields.expiry = "2031-03-13".into());
    let forged = outdated.replace("sp=r", "sp=ra");
    let [right, wrong] = [outdated, forged].map(|query| told(ACCOUNT, &format!("?{query}"), &[]));
    assert_eq!(right, wrong);
    assert!(right.1.unwrap().starts_with("sas-expired: "));
}
