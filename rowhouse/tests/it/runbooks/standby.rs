//! docs/standby.md.

use super::{Runbook, stop};
use serde_json::json;
use test_support::content::{create_table, exact_snapshot, fill_with_everything, put};
use test_support::{ReservedPort, Server, eventually};

/// The exit code of a promotion whose former primary cannot be told.
const FORMER_NOT_TOLD: i32 = 3;

fn wait_until_same(primary: &Server, standby: &Server) {
    eventually("the standby has everything", || (exact_snapshot(primary) == exact_snapshot(standby)).then_some(()));
}

#[test]
fn a_standby_takes_over() {
    let port = ReservedPort::new();
    let mut book = Runbook::open("standby.md", &[("127.0.0.1:10012", &port.address()), ("authority.pem", "cert.pem")]);
    let primary_port = book.listen.rsplit_once(':').unwrap().1.to_owned();
    book.replace("tables.example.org:10002", &format!("localhost:{primary_port}"));
    book.run(0, "openssl rand -hex 32");
    book.run(0, "chmod 600 token");
    let primary = book.start("rowhouse serve --data ./primary");
    fill_with_everything(&primary);
    let standby = book.start("rowhouse standby --of http://127.0.0.1:10002");
    create_table(&mut primary.client(), "Cars");
    wait_until_same(&primary, &standby);
    // It continues where it stopped.
    stop(standby);
    put(&mut primary.client(), "Cars", "kestrel", "0007", &json!({ "Doors": 4 }));
    let follow = format!("--token-file token --listen {}", port.address());
    let standby = book.start_own(&format!("rowhouse standby --of http://127.0.0.1:10002 --data ./standby {follow}"));
    wait_until_same(&primary, &standby);
    let all = exact_snapshot(&primary);

    // With TLS, and with a second standby
    stop(standby);
    stop(primary);
    book.run_own(0, "rowhouse certificate");
    let tls = "--standby-token-file token --tls-cert cert.pem --tls-key key.pem";
    let primary = book.start_own(&format!("rowhouse serve --data ./primary --keep-log 24h {tls}"));
    book.set("ROWHOUSE_LISTEN", "127.0.0.1:0");
    let standby = book.start("SSL_CERT_FILE=authority.pem rowhouse standby");
    let of = "--of https://tables.example.org:10002 --token-file token --data ./second";
    let second = book.start_own(&format!("SSL_CERT_FILE=authority.pem rowhouse standby {of}"));
    book.set("ROWHOUSE_LISTEN", &book.listen.clone());
    for standby in [&standby, &second] {
        eventually("the standby has everything", || (exact_snapshot(standby) == all).then_some(()));
    }
    stop(second);

    // Taking over
    primary.kill9();
    stop(standby);
    book.run(FORMER_NOT_TOLD, "rowhouse promote --data ./standby --former");
    let serve = "--keep-log 24h --standby-token-file token";
    let promoted = book.start_own(&format!("rowhouse serve --data ./standby {serve} --listen {}", port.address()));
    assert!(exact_snapshot(&promoted) == all);
    put(&mut promoted.client(), "Cars", "kestrel", "0008", &json!({ "Doors": 5 }));
    let of = format!("rowhouse standby --of http://{} --token-file token --listen 127.0.0.1:0", port.address());
    let next = book.start_own(&format!("{of} --data ./next"));
    wait_until_same(&promoted, &next);
    // The former primary hears of the promotion when the command is repeated.
    let former = book.start_own(&format!("rowhouse serve --data ./primary {serve}"));
    stop(next);
    stop(promoted);
    book.run_own(0, "rowhouse promote --data ./standby --former http://127.0.0.1:10002 --token-file token");
    let refused = former.client().request("POST", "/Tables", &[], br#"{"TableName":"Late"}"#);
    assert_eq!(refused.status, 403, "{refused:?}");
    stop(former);
    book.run_own(1, &format!("{of} --data ./primary"));

    // A fenced server
    book.run(0, "rowhouse promote --data ./primary --despite-loss");
    let primary = book.start_own(&format!("rowhouse serve --data ./primary {serve}"));
    assert!(exact_snapshot(&primary) == all);
    create_table(&mut primary.client(), "Late");
    stop(primary);
    book.end();
}
