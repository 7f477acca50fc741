//! Preflight requests and the CORS headers of other responses (10 §3 to §5).

use crate::Layer::{Authentication, FrontEnd, Query};
use crate::{Case, Server, check, get, post, put};

const FRIEND: &str = "https://friend.example";
const STRANGER: &str = "https://stranger.example";

fn rule(origins: &str, methods: &str, exposed: &str) -> String {
    format!(
        "<CorsRule><AllowedOrigins>{origins}</AllowedOrigins><AllowedMethods>{methods}</AllowedMethods><MaxAgeInSeconds>60</MaxAgeInSeconds><ExposedHeaders>{exposed}</ExposedHeaders><AllowedHeaders>accept,x-ms-*</AllowedHeaders></CorsRule>"
    )
}

/// Starts a server with the table `cars` and the given rules.
fn server(rules: &str) -> Server {
    let server = Server::with_tables(&["cars"]);
    let body = format!("<StorageServiceProperties><Cors>{rules}</Cors></StorageServiceProperties>");
    check(&server, [put("/?restype=service&comp=properties", &body).answers(202, None)]);
    server
}

fn preflight(path: &str, origin: &str, method: &str, headers: &str) -> Case {
    let case = Case::new("OPTIONS", path, "").authorized("");
    [("Origin", origin), ("Access-Control-Request-Method", method), ("Access-Control-Request-Headers", headers)]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .fold(case, |case, (name, value)| case.with(name, value))
}

fn allowed(case: Case, origin: &str, method: &str) -> Case {
    case.ok(200)
        .layer(FrontEnd)
        .header("access-control-allow-origin", origin)
        .header("access-control-allow-methods", method)
        .header("access-control-max-age", "60")
        .header("access-control-allow-credentials", "true")
}

#[test]
fn preflight_requests() {
    let missing = "A required CORS header is not present.";
    let none = "CORS not enabled or no matching rule found for this request.";
    let refused = |case: Case| case.fails(403, "CorsPreflightFailure", FrontEnd).says(none);
    let incomplete = |case: Case| case.fails(400, "InvalidHeaderValue", FrontEnd).says(missing);
    check(
        // The first rule for origin and method is selected, even if a later one would allow the headers (10 §3).
        &server(&(rule(FRIEND, "GET,PUT", "") + &rule("*", "GET,DELETE", "").replace("accept,x-ms-*", "*"))),
        [
            allowed(preflight("/cars", FRIEND, "PUT", ""), FRIEND, "PUT"),
            // The table need not exist, and a credential is ignored.
            allowed(preflight("/other", FRIEND, "GET", "X-MS-Date, accept"), FRIEND, "GET")
                .authorized("SharedKey x:y")
                .header("access-control-allow-headers", "X-MS-Date, accept"),
            allowed(preflight("/cars", STRANGER, "DELETE", "color"), "*", "DELETE")
                .header("access-control-allow-headers", "color"),
            refused(preflight("/cars", FRIEND, "GET", "color")),
            refused(preflight("/cars", STRANGER, "PUT", "")),
            refused(preflight("/cars", FRIEND, "POST", "")),
            incomplete(preflight("/cars", "", "GET", "")),
            incomplete(preflight("/cars", FRIEND, "", "")),
        ],
    );
    // Not even a rule for the method OPTIONS adds headers to a refusal (10 §4).
    check(&server(&rule(FRIEND, "GET,OPTIONS", "etag")), [refused(preflight("/cars", FRIEND, "PUT", ""))]);
    check(&Server::start(), [refused(preflight("/cars", FRIEND, "GET", ""))]);
}

#[test]
fn other_requests() {
    // The table of 10 §5; `Vary` only for GET.
    let query = || get("/Tables").level("nometadata").ok(200).json(r#"{"value":[{"TableName":"cars"}]}"#);
    let from = |case: Case, origin: &str| case.with("Origin", origin);
    let exact = |case: Case| {
        case.header("access-control-allow-origin", FRIEND).header("access-control-allow-credentials", "true")
    };
    let any = |case: Case| case.header("access-control-allow-origin", "*");
    let exposed = |case: Case, names: &str| case.header("access-control-expose-headers", names);
    let vary = |case: Case| case.header("vary", "Origin");
    let missing = || get("/other()").fails(404, "TableNotFound", Query);
    // Accounts with the well-known key refuse writes of other origins, so a failing write stands for all of them.
    let write = || post("/other", "{").fails(400, "InvalidInput", Query);
    check(
        &server(&rule(FRIEND, "GET,POST", "etag")),
        [
            vary(query()),
            vary(exposed(exact(from(query(), FRIEND)), "etag")),
            vary(from(query(), STRANGER)),
            vary(exposed(exact(from(missing(), FRIEND)), "etag")),
            write(),
            exposed(exact(from(write(), FRIEND)), "etag"),
        ],
    );
    check(
        &server(&rule("*", "GET", "x-ms-v*")),
        [exposed(any(query()), "x-ms-version"), exposed(any(from(query(), STRANGER)), "x-ms-version"), write()],
    );
    let server = Server::with_tables(&["cars"]);
    check(&server, [query(), from(query(), STRANGER)]);
}

#[test]
fn requests_without_a_valid_credential() {
    // Only an allowed origin sees that there are rules (10 §5).
    let refused = || {
        get("/cars").authorized("SharedKey devstoreaccount1:AAAA").fails(403, "AuthenticationFailed", Authentication)
    };
    let seen = refused().with("Origin", FRIEND).header("access-control-allow-origin", FRIEND);
    check(
        &server(&rule(FRIEND, "GET", "")),
        [
            refused(),
            refused().with("Origin", STRANGER),
            seen.header("access-control-allow-credentials", "true").header("vary", "Origin"),
        ],
    );
}
