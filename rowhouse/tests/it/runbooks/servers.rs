//! Pages that start a server with certain options, and use what these options offer.

use super::{Runbook, stop};
use std::fs;
use test_support::eventually;

/// Commands use the server of the page without being told its address, as on the default port.
fn use_server(book: &mut Runbook) {
    book.set("ROWHOUSE_ENDPOINT", &format!("http://{}/devstoreaccount1", book.listen));
}

#[test]
fn extensions_are_used_from_a_shell() {
    let mut book = Runbook::open("extensions.md", &[]);
    use_server(&mut book);
    let server = book.start("rowhouse serve --in-memory --extensions");
    book.run(0, "rowhouse table create orders");
    book.run(0, "rowhouse entity put orders 2031 0001");
    book.run(0, "rowhouse entity put orders 2031 0002");
    assert_eq!(book.run(0, "rowhouse entity count orders").trim(), "2");
    let found = book.run(0, "rowhouse entity query orders --filter \"contains(");
    assert!(found.contains("Kestrel") && !found.contains("Heron"), "{found}");
    let listed = book.run(0, "rowhouse entity query orders --filter \"RowKey in (");
    assert!(listed.contains("Kestrel") && !listed.contains("Heron"), "{listed}");
    book.run(0, "rowhouse table index add orders Total");
    let ordered = book.run(0, "rowhouse entity query '$ByTotalDescendingOforders'");
    assert!(ordered.find("Kestrel").unwrap() < ordered.find("Heron").unwrap(), "{ordered}");
    assert_eq!(book.run(0, "rowhouse entity delete orders --filter").trim(), "1");
    book.run(0, "rowhouse table retention orders");
    assert!(book.run_own(0, "rowhouse table retention orders").contains("604800 s"));
    stop(server);
    book.end();
}

#[test]
fn changes_are_delivered_to_programs() {
    let mut book = Runbook::open("change-feed.md", &[]);
    use_server(&mut book);
    let server = book.start("rowhouse serve --data ./data --keep-log 24h");
    book.run(0, "rowhouse table create orders");
    book.run(0, "rowhouse entity put orders customer-17 order-3");
    let changes = book.run(0, "rowhouse follow --table orders --from start --until-end");
    assert_eq!(changes.lines().count(), 2, "{changes}");

    book.skip("rowhouse follow --table orders --state orders.json --webhook", "`conformance/python` runs the webhook");
    book.run(0, "printf");
    let mut put = 0;
    let mut delivered = |book: &mut Runbook, file: &str| {
        eventually("a change", || {
            // A change before the command began to follow is not delivered.
            put += 1;
            book.run_own(0, &format!("rowhouse entity put orders customer-18 order-{put} Total:Double=1.5"));
            let text = fs::read_to_string(book.path(file)).unwrap_or_default();
            text.contains("order-").then_some(())
        });
    };
    let following = book.start_running("rowhouse follow --table orders --state processed.json --exec");
    delivered(&mut book, "orders.log");
    drop(following);
    let piped = book.next("rowhouse follow --table orders | jq").replace(" |", " --from start --until-end |");
    assert!(book.run_own(0, &piped).contains("order-3\n"));

    for command in ["signature=", "curl -N"] {
        book.skip(command, "`conformance/python` reads the stream");
    }

    book.run(0, "rowhouse follow --table orders --state new.json --until-end > /dev/null");
    book.run(0, "rowhouse export --from http://127.0.0.1:10002/devstoreaccount1 --table orders --to orders.jsonl");
    assert!(fs::read_to_string(book.path("orders.jsonl")).unwrap().contains("order-3"));
    fs::remove_file(book.path("orders.log")).unwrap();
    let following = book.start_running("rowhouse follow --table orders --state new.json --exec");
    delivered(&mut book, "orders.log");
    drop(following);
    stop(server);
    book.end();
}

#[test]
fn accounts_keys_and_certificates_are_created_and_used() {
    let mut book = Runbook::open("security.md", &[]);
    book.run(0, "rowhouse accounts new orchard --file accounts.toml");
    let server = book.start("rowhouse serve --accounts accounts.toml");
    let printed = book.run(0, "rowhouse accounts connection-string orchard --file accounts.toml --endpoint");
    assert!(printed.starts_with("DefaultEndpointsProtocol=http;AccountName=orchard;AccountKey="), "{printed}");
    // The default port is not the port of this server.
    book.replace("--file accounts.toml)", &format!("--file accounts.toml --endpoint http://{})", book.listen));
    assert_eq!(book.run(0, "ROWHOUSE_CONNECTION_STRING=$(rowhouse accounts connection-string"), "");
    stop(server);

    book.run(0, "rowhouse sas table Harvest --permissions r");
    book.run(0, "rowhouse sas table Harvest --policy mobile");
    book.run(0, "rowhouse certificate tables.example.net");
    let server = book.start("rowhouse serve --tls-cert cert.pem --tls-key key.pem");
    let port = book.listen.rsplit_once(':').unwrap().1.to_owned();
    book.replace("localhost:10002", &format!("localhost:{port}"));
    book.run(0, "SSL_CERT_FILE=cert.pem rowhouse table list");
    stop(server);
    let server = book.start("rowhouse serve --tls-self-signed");
    book.run(0, "SSL_CERT_FILE=rowhouse-data/rowhouse-cert.pem rowhouse table list");
    stop(server);
    book.end();
}

#[test]
fn a_test_server_begins_with_the_tables_of_a_folder() {
    let mut book = Runbook::open("test-controls.md", &[]);
    book.run(0, "mkdir seed");
    book.run(0, "echo");
    let server = book.start("rowhouse serve --listen 127.0.0.1:0 --in-memory --test-controls --seed ./seed");
    let endpoint = format!("http://{}/devstoreaccount1", server.address);
    assert_eq!(book.run_own(0, &format!("rowhouse entity count cars --endpoint {endpoint}")).trim(), "1");
    stop(server);
    book.end();
}

#[test]
fn the_tables_of_tests_are_exported_and_loaded() {
    let mut book = Runbook::open("testing-with-rowhouse.md", &[]);
    book.skip("mvn", "`packages/java` tests it");
    book.skip("go mod edit", "`packages/go` tests it");
    book.skip("rowhouse serve --in-memory --listen 127.0.0.1:0 --stop-with-stdin", "the fixtures start such servers");
    use_server(&mut book);
    let server = book.start_own("rowhouse serve --in-memory");
    book.run_own(0, "rowhouse table create cars && rowhouse entity put cars kestrel 0007 Doors:Int32=4");
    book.run(0, "rowhouse export --from http://127.0.0.1:10002/devstoreaccount1 --to tests/fixtures");
    let copy = book.start("rowhouse serve --in-memory --listen 127.0.0.1:0 --seed tests/fixtures");
    let endpoint = format!("http://{}/devstoreaccount1", copy.address);
    assert_eq!(book.run_own(0, &format!("rowhouse entity count cars --endpoint {endpoint}")).trim(), "1");
    stop(copy);
    stop(server);
    book.end();
}

#[test]
fn the_log_of_a_running_server_is_changed() {
    let mut book = Runbook::open("observability.md", &[]);
    let admin = test_support::ReservedPort::new();
    book.replace("127.0.0.1:10003", &admin.address());
    let server = book.start_own(&format!("rowhouse serve --in-memory --admin {}", admin.address()));
    book.run(0, "curl -X PUT -d 'info,rowhouse::access=debug'");
    assert!(book.run(0, "curl http").contains("rowhouse::access=debug"));
    book.run(0, "curl -X PUT -d ''");
    assert!(!book.run_own(0, "curl http://127.0.0.1:10003/log").contains("access"));
    stop(server);
    for command in ["for name in", "printf", "sed", "done"] {
        book.skip(command, "it needs Kubernetes; `documents::monitoring` tests the rules");
    }
    stop(book.start("OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 rowhouse serve"));
    book.end();
}

#[test]
fn servers_of_other_pages_start() {
    for (page, commands) in [
        ("analytics.md", &["rowhouse serve --analytics"][..]),
        ("explorer.md", &["rowhouse serve"]),
        (
            "rehearsing.md",
            &["rowhouse serve --in-memory --rehearse all", "rowhouse serve --in-memory --rehearse partition"],
        ),
        ("throttling.md", &["rowhouse serve --throttle", "rowhouse serve --throttle --account-entities-per-second"]),
    ] {
        let mut book = Runbook::open(page, &[]);
        for command in commands {
            stop(book.start(command));
        }
        book.end();
    }
}
