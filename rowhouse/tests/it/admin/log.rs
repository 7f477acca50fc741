//! Tests of the log: its filter, the event of a request, and the absence of secrets.

use super::page::{ask, get, text};
use crate::PROGRAM;
use model::control_characters::is_control_character;
use serde_json::Value;
use test_support::{ACCOUNT, KEY, Server, head};
use wire::sas::Fields;
use wire::signing::AccountKey;

fn put(server: &Server, filter: &str) -> (u16, String) {
    let answer = ask(&server.admin, "PUT", "/log", "", filter);
    (answer.status, text(&answer).to_owned())
}

fn events(lines: &[String]) -> Vec<Value> {
    let events = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.filter(|event| event["target"] == "rowhouse::access").collect()
}

#[test]
fn the_filter_changes_while_the_server_runs() {
    let server = PROGRAM.start(&["--in-memory", "--admin", "127.0.0.1:0", "--log", "warn", "--log-format", "json"]);
    let mut client = server.client();
    let mut query = || assert_eq!(client.request("GET", "/Tables", &[], b"").status, 200);
    query();
    assert_eq!(text(&get(&server, "/log")), "warn\n");
    let filter = "info,rowhouse::access=debug";
    assert_eq!(put(&server, &format!("{filter}\n")), (200, format!("{filter}\n")));
    query();
    server.wait_for_log("rowhouse::access");
    assert_eq!(text(&get(&server, "/log")), format!("{filter}\n"));
    for bad in ["loud", "info,,", "store=very", "info,store"] {
        let (status, said) = put(&server, bad);
        assert!(status == 400 && said.contains(bad) && said.contains("info,store=debug"), "{said}");
    }
    assert_eq!(ask(&server.admin, "PUT", "/log", "", "\u{0}").status, 400);
    assert_eq!(text(&get(&server, "/log")), format!("{filter}\n"), "an invalid filter changes nothing");
    assert_eq!(put(&server, ""), (200, "warn\n".to_owned()));
    server.new_log();
    query();
    let (_, log) = server.stop();
    assert_eq!(events(&log), [] as [Value; 0], "the initial filter");
}

/// The HTTP library refuses the request before the service sees it.
#[test]
fn a_request_that_is_not_valid_http_is_logged_and_counted() {
    let log = ["--admin", "127.0.0.1:0", "--log", "info,rowhouse::access=debug", "--log-format", "json"];
    let server = PROGRAM.start(&[&["--in-memory"], &log[..]].concat());
    let heads = [
        "GET /acct/a b?sig=secret HTTP/1.1\r\nUser-Agent: tester/1\r\n\r\n",
        "GET /acct/a?b HTTP/1.1\r\nAuthorization\r\n\r\n",
        "GET /acct/a?b HTTP/1.1\r\nContent-Length: x\r\n\r\nPUT /secret HTTP/1.1\r\n\r\n",
    ];
    let ids = heads.map(|head| {
        let mut client = server.client();
        client.send(head.as_bytes()).unwrap();
        client.receive().unwrap().header("x-ms-request-id").unwrap().to_owned()
    });
    let page = super::page::page(&server);
    for (code, count) in [("RequestUrlFailedToParse", 1), ("InvalidHeaderValue", 2)] {
        let sample = format!(r#"rowhouse_requests_total{{operation="Unknown",status="400",code="{code}"}}"#);
        assert_eq!(page.count(&sample), count, "{code}");
    }
    assert_eq!(page.count("rowhouse_requests_in_flight"), 0);
    let (_, log) = server.stop();
    assert!(!log.iter().any(|line| line.contains("secret")), "{log:?}");
    let events = events(&log);
    let described = events.iter().map(|event| {
        (event["method"].as_str(), event["path"].as_str(), event["code"].as_str(), event["request_id"].as_str())
    });
    let described: Vec<_> = described.collect();
    let [url, header, length] = ids.each_ref().map(|id| Some(id.as_str()));
    let invalid = Some("InvalidHeaderValue");
    assert_eq!(
        described,
        [
            (Some("GET"), Some("/acct/a%20b"), Some("RequestUrlFailedToParse"), url),
            (Some("GET"), Some("/acct/a"), invalid, header),
            // The library has dropped the head.
            (Some("-"), Some("/"), invalid, length),
        ]
    );
    assert_eq!(events[0]["user_agent"], "tester/1");
}

#[test]
fn a_request_is_logged_as_one_event_with_its_details() {
    let log = ["--log", "info,rowhouse::access=debug", "--log-format", "json"];
    let server = PROGRAM.start(&[&["--in-memory"], &log[..]].concat());
    let mut client = server.client();
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"Cars"}"#).status, 201);
    let body = br#"{"PartitionKey":"p","RowKey":"r"}"#;
    let headers = [("x-ms-client-request-id", "mine"), ("User-Agent", "tester/1")];
    let answer = client.request("POST", "/Cars?timeout=7", &headers, body);
    let claimed = [("X-Forwarded-For", "198.51.100.7"), ("X-Forwarded-Proto", "https")];
    assert_eq!(client.request("POST", "/Cars", &claimed, body).status, 409);
    assert_eq!(client.request("GET", "/Cars()", &[("Authorization", "SharedKey a:b")], b"").status, 403);
    assert_eq!(client.request("POST", "/Cars", &[], br#"{"PartitionKey":"p","RowKey":"s"}"#).status, 201);
    assert_eq!(client.request("GET", "/Cars()?$filter=RowKey%20eq%20's'", &[], b"").status, 200);
    let (_, log) = server.stop();
    let events = events(&log);
    assert_eq!(events.len(), 6, "{log:?}");
    assert_eq!((&events[0]["operation"], &events[0]["table"]), (&"CreateTable".into(), &"Cars".into()));
    let event = &events[1];
    for (field, expected) in [
        ("method", Value::from("POST")),
        ("path", format!("/{ACCOUNT}/Cars").into()),
        ("operation", "InsertEntity".into()),
        ("account", ACCOUNT.into()),
        ("table", "Cars".into()),
        ("status", 201.into()),
        ("code", Value::Null),
        ("request_bytes", body.len().into()),
        ("response_bytes", answer.body.len().into()),
        ("entities_examined", 0.into()),
        ("entities_returned", 0.into()),
        ("entities_written", 1.into()),
        ("request_id", answer.header("x-ms-request-id").unwrap().into()),
        ("client_request_id", "mine".into()),
        ("user_agent", "tester/1".into()),
        ("credential", "shared_key".into()),
        ("authenticated", true.into()),
        ("tls", false.into()),
        ("secondary", false.into()),
        ("level", "DEBUG".into()),
    ] {
        assert_eq!(event[field], expected, "{field} of {event}");
    }
    assert!(event["microseconds"].as_u64().unwrap() >= event["receiving_microseconds"].as_u64().unwrap());
    assert!(event["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert_eq!(event["client"], "127.0.0.1");
    // Without a trusted proxy, what a request claims about its client does not count.
    assert_eq!((&events[2]["client"], &events[2]["tls"]), (&"127.0.0.1".into(), &false.into()));
    assert_eq!((&events[2]["status"], &events[2]["code"]), (&409.into(), &"EntityAlreadyExists".into()));
    assert_eq!((&events[3]["status"], &events[3]["authenticated"]), (&403.into(), &false.into()));
    assert_eq!((&events[3]["operation"], &events[3]["table"]), (&"Unknown".into(), &Value::Null));
    let counts =
        |event: &Value| ["examined", "returned", "written"].map(|kind| event[format!("entities_{kind}")].clone());
    assert_eq!(counts(&events[2]), [0, 0, 0], "nothing was written");
    assert_eq!(counts(&events[5]), [2, 1, 0], "the filter matches one of two entities");
}

#[test]
fn requests_are_not_logged_by_default() {
    let server = PROGRAM.start(&["--in-memory", "--log-format", "json"]);
    assert_eq!(server.client().request("GET", "/Tables", &[], b"").status, 200);
    assert_eq!(events(&server.stop().1), [] as [Value; 0]);
}

fn signature(permissions: &str, key: &AccountKey) -> String {
    let fields = Fields {
        version: "2019-02-02".into(),
        table: "Cars".into(),
        permissions: permissions.into(),
        expiry: "9999-12-31".into(),
        ..Fields::default()
    };
    fields.sign(ACCOUNT, key).unwrap()
}

#[test]
fn no_level_shows_a_key_a_signature_or_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("rowhouse.toml");
    // No server responds there, so every token is refused.
    let issuer = "[oauth]\nallow-bearer-over-plain-http = true\nallow-plain-http-issuer-on-loopback = true\n\
                  [[oauth.issuers]]\nissuer = \"http://127.0.0.1:9/tenant\"\njwks-uri = \"http://127.0.0.1:9/keys\"\n";
    std::fs::write(&config, issuer).unwrap();
    for format in ["text", "json"] {
        let config = config.to_str().unwrap();
        let fixed = ["--in-memory", "--admin", "127.0.0.1:0", "--config", config, "--log", "trace", "--log-format"];
        let server = PROGRAM.start(&[&fixed[..], &[format]].concat());
        let mut client = server.client();
        let mut secrets = vec![KEY.to_owned()];
        assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"Cars"}"#).status, 201);
        for (key, status) in [(KEY, 200), ("AAECAwQFBgcICQoLDA0ODw==", 403)] {
            let query = signature("r", &AccountKey::parse(key).unwrap());
            let sig = query.split('&').find_map(|pair| pair.strip_prefix("sig=")).unwrap().to_owned();
            let request = format!(
                "GET /{ACCOUNT}/Cars()?{query} HTTP/1.1\r\nHost: localhost\r\nx-ms-version: 2019-02-02\r\n\
                 Accept: application/json\r\n\r\n"
            );
            client.send(request.as_bytes()).unwrap();
            assert_eq!(client.receive().unwrap().status, status);
            secrets.extend([sig.replace("%3D", "=").replace("%2B", "+").replace("%2F", "/"), sig]);
        }
        let shared = "c2lnbmF0dXJlLW9mLXNvbWVib2R5LWVsc2U9PT09PT09PQ==";
        let token =
            "eyJhbGciOiJSUzI1NiIsImtpZCI6ImsxIn0.eyJpc3MiOiJodHRwOi8vMTI3LjAuMC4xOjkvdGVuYW50In0.c2VjcmV0c2VjcmV0";
        for authorization in [
            format!("SharedKey {ACCOUNT}:{shared}"),
            format!("SharedKeyLite {ACCOUNT}:{shared}"),
            format!("Unheard-Of {shared}"),
            format!("Bearer {token}"),
            format!("Bearer {token},{shared}"),
            "Bearer opaque-secret-token".to_owned(),
        ] {
            let answer = client.request("GET", "/Cars()", &[("Authorization", &authorization)], b"");
            assert!((400..=503).contains(&answer.status), "{authorization}: {}", answer.status);
        }
        secrets.extend([shared.to_owned(), token.to_owned(), "opaque-secret-token".to_owned()]);
        secrets.push("c2VjcmV0c2VjcmV0".to_owned());
        let metrics = text(&get(&server, "/metrics")).to_owned();
        let (_, log) = server.stop();
        assert!(log.iter().any(|line| line.contains("rowhouse::access")), "everything is logged");
        for secret in &secrets {
            let shown = log.iter().find(|line| line.contains(secret.as_str()));
            assert_eq!(shown, None, "{secret} is in the log");
            assert!(!metrics.contains(secret.as_str()), "{secret} is in the metrics");
        }
    }
}

const FORGED: &str = "ERROR server: forged";

#[test]
fn a_request_does_not_forge_a_line_of_the_log() {
    for format in ["text", "json"] {
        // Without reasons, the log has the message.
        let options = ["--in-memory", "--log", "debug", "--log-format", format, "--log-reasons", "none"];
        let server = PROGRAM.start(&options);
        let mut client = server.client();
        assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"tab"}"#).status, 201);
        // The literal is out of range, and the message quotes the whole filter.
        let filter =
            "A%20eq%2099999999999%20or%20B%20eq%20'%0AERROR%20server:%20forged%0D%1B[2J%C2%9B%E2%80%A8%E2%80%AE'";
        let answer = client.request("GET", &format!("/tab()?$filter={filter}"), &[], b"");
        assert_eq!(answer.status, 400);
        drop(client);
        let (_, log) = server.stop();
        assert!(log.iter().any(|line| line.contains(FORGED)), "the filter is not logged: {log:#?}");
        for line in &log {
            assert!(!line.starts_with(FORGED) && !line.contains(is_control_character), "{line:?}");
            if format == "json" {
                assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
            }
        }
    }
}

fn denied(path: &str) -> String {
    let authorization = format!("SharedKey {ACCOUNT}:{}=", "A".repeat(43));
    head("GET", path, &[("Authorization", &authorization)])
}

#[test]
fn a_failed_signature_logs_a_short_line() {
    for format in ["text", "json"] {
        let server = PROGRAM.start(&["--in-memory", "--log", "debug", "--log-format", format]);
        let mut client = server.client();
        for path in ["/x".repeat(30_000), format!("/{}", "%0a".repeat(20_000))] {
            client.send(denied(&path).as_bytes()).unwrap();
            assert_eq!(client.receive().unwrap().status, 403);
        }
        drop(client);
        let (_, log) = server.stop();
        assert!(log.iter().any(|line| line.contains("string to sign") && line.contains("left out")), "{log:#?}");
        assert!(log.iter().all(|line| line.len() < 8 * 1024), "{log:#?}");
    }
}

#[test]
fn denied_requests_do_not_fill_the_log_and_are_counted() {
    const REQUESTS: usize = 1000;
    let server = PROGRAM.start(&["--in-memory", "--log-format", "json", "--admin", "127.0.0.1:0"]);
    let mut client = server.client();
    for _ in 0..REQUESTS {
        client.send(denied("/tab").as_bytes()).unwrap();
        assert_eq!(client.receive().unwrap().status, 403);
    }
    let metrics = text(&get(&server, "/metrics")).to_owned();
    drop(client);
    let (_, log) = server.stop();
    let events = log.iter().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let (counts, denials): (Vec<_>, Vec<_>) = events
        .filter(|event| event["count"].is_u64() || event["code"] == "AuthenticationFailed")
        .partition(|event| event["count"].is_u64());
    let left_out: u64 = counts.iter().filter_map(|event| event["count"].as_u64()).sum();
    assert!(denials.len() < REQUESTS / 2, "{}", denials.len());
    assert_eq!(denials.len() as u64 + left_out, REQUESTS as u64);
    let counted = metrics.lines().filter(|line| line.starts_with("rowhouse_requests_total{"));
    let counted: u64 = counted.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum();
    assert_eq!(counted, REQUESTS as u64, "{metrics}");
}
