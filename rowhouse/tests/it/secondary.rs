//! Tests of the secondary endpoint with settings that require a separate server.

use crate::PROGRAM;
use test_support::Client;

const STATS: &str = "/?restype=service&comp=stats";
/// The request path starts after the account, so this suffix selects the secondary endpoint.
const SECONDARY: &str = "-secondary";

/// Returns the status and code of the response to a request; the code is empty if there is no error.
fn answer(client: &mut Client, method: &str, path: &str) -> (u16, String, String) {
    let body: &[u8] = if method == "POST" { br#"{"TableName":"tab"}"# } else { b"" };
    let answer = client.request(method, path, &[], body);
    let code = answer.header("x-ms-error-code").unwrap_or_default().to_owned();
    (answer.status, code, String::from_utf8(answer.body).unwrap())
}

fn assert_refused(client: &mut Client, method: &str, path: &str, message: &str) {
    let (status, code, body) = answer(client, method, path);
    assert_eq!((status, code.as_str()), (403, "InsufficientAccountPermissions"), "{method} {path}");
    assert!(body.contains(message), "{method} {path}: {body}");
}

#[test]
fn a_secondary_that_is_switched_off_refuses_everything() {
    let server = PROGRAM.start(&["--in-memory", "--secondary", "off", "--stats-on-primary"]);
    let mut client = server.client();
    let disabled = "Read operations are currently disabled.";
    for path in ["/Tables", "/tab()", "/?restype=service&comp=properties", STATS] {
        assert_refused(&mut client, "GET", &format!("{SECONDARY}{path}"), disabled);
    }
    assert_refused(&mut client, "GET", STATS, disabled);
    assert_refused(&mut client, "POST", &format!("{SECONDARY}/Tables"), "Write operations are not allowed.");
    assert_eq!(answer(&mut client, "GET", "/Tables").0, 200);
}

#[test]
fn an_option_allows_statistics_on_the_primary() {
    let server = PROGRAM.start(&["--in-memory", "--stats-on-primary"]);
    let mut client = server.client();
    for path in [STATS, "-secondary/?restype=service&comp=stats"] {
        let (status, _, body) = answer(&mut client, "GET", path);
        assert_eq!(status, 200, "{path}");
        assert!(body.contains("<Status>live</Status>"), "{body}");
    }
}
