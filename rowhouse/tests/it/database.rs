//! Tests of the server with a PostgreSQL database: successful and refused starts, several servers that share one
//! database, and servers, connections or databases that die under load.

use crate::PROGRAM;
use crate::load::{Load, Watch};
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};
use test_support::cluster::Cluster;
use test_support::writers::{EntityWriter, Until, Writer};
use test_support::{Client, Random, Server, TIMEOUT, eventually};

const SEED: &str = "ROWHOUSE_DATABASE_SEED";

fn refusal(arguments: &[&str], password: &str) -> String {
    let mut command = PROGRAM.serve(&[&["--listen", "127.0.0.1:0"], arguments].concat());
    let output = command.env("PGPASSWORD", password).stdin(Stdio::null()).output().unwrap();
    assert!(!output.status.success());
    assert!(output.stdout.is_empty(), "nothing must be announced");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn an_unusable_database_is_refused_with_advice() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let (server, name) = database.rsplit_once('/').unwrap();
    let nobody = refusal(&["--store", "postgres://rowhouse@127.0.0.1:1/tables"], "");
    assert!(nobody.contains("cannot connect to the database 'tables' at 127.0.0.1:1"), "{nobody}");
    assert!(nobody.contains("check that PostgreSQL is running there"), "{nobody}");
    let missing = refusal(&["--store", &format!("{server}/missing")], "");
    assert!(missing.contains("there is no database 'missing'") && missing.contains("createdb"), "{missing}");
    let citus = refusal(&["--store", &database, "--distribute"], "");
    assert!(citus.contains("Citus is not installed"), "{citus}");
    assert_eq!(cluster.sql(name, "SELECT count(*) FROM pg_class WHERE relname LIKE 'rowhouse%'").trim(), "0");

    cluster.sql(
        "postgres",
        &format!("CREATE ROLE guarded LOGIN PASSWORD 'right'; GRANT ALL ON DATABASE {name} TO guarded"),
    );
    cluster.sql(name, "GRANT ALL ON SCHEMA public TO guarded");
    let guarded = database.replace("rowhouse@", "guarded@");
    let wrong = refusal(&["--store", &guarded], "wrong");
    assert!(wrong.contains("refuses this user") && wrong.contains("--store-password-file"), "{wrong}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "right\n").unwrap();
    let server = PROGRAM.start(&["--store", &guarded, "--store-password-file", file.to_str().unwrap()]);
    assert_eq!(server.client().request("GET", "/Tables", &[], b"").status, 200);
    // The password is rotated, and all connections are lost afterwards.
    cluster.sql(name, "ALTER ROLE guarded PASSWORD 'later'");
    std::fs::write(&file, "later\n").unwrap();
    cluster.sql(name, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'guarded'");
    eventually("a connection with the new password", || {
        (server.client().request("GET", "/Tables", &[], b"").status == 200).then_some(())
    });
    server.signal("HUP");
    assert_eq!(server.client().request("GET", "/Tables", &[], b"").status, 200);
    let (status, log) = server.stop();
    assert!(status.success() && !log.iter().any(|line| line.contains("right") || line.contains("later")), "{log:?}");

    cluster.sql(name, "UPDATE rowhouse_meta SET value = 99 WHERE name = 'version'");
    let newer = refusal(&["--store", &database], "");
    assert!(newer.contains("schema 99") && newer.contains("use the newer version"), "{newer}");
}

fn ask(server: &Server, path: &str) -> (u16, String) {
    let mut client = Client::connect(&server.admin).unwrap();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
    let answer = client.receive().unwrap();
    (answer.status, String::from_utf8(answer.body).unwrap())
}

#[test]
fn operators_see_the_database_and_whether_it_can_be_reached() {
    // A separate cluster, because the test damages it.
    let Some(cluster) = Cluster::start() else { return };
    let database = cluster.database();
    let server = PROGRAM.start(&["--store", &database, "--store-connections", "3", "--admin", "127.0.0.1:0"]);
    let mut client = server.client();
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"tab"}"#).status, 201);
    assert_eq!(ask(&server, "/readyz?verbose"), (200, "[+] stage: ok\n[+] storage: ok\n[+] disk: ok\nready\n".into()));
    let node = database.split_once('@').and_then(|(_, address)| address.split_once('/')).unwrap().0;
    let idle = format!(r#"rowhouse_store_connections{{node="{node}",state="idle"}}"#);
    // The only open connection may be in use by the server's background work.
    let page = eventually("an idle connection", || {
        let (_, page) = ask(&server, "/metrics");
        (!page.contains(&format!("{idle} 0\n"))).then_some(page)
    });
    let value = |sample: &str| {
        let value = page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{sample} is missing in {page}")).parse::<f64>().unwrap()
    };
    assert!((value("rowhouse_store_connections_limit") - 3.0).abs() < 0.1);
    assert!(value(&idle) >= 1.0);
    assert!(value(&format!(r#"rowhouse_store_step_seconds_count{{node="{node}"}}"#)) >= 1.0);
    assert!((value(&format!(r#"rowhouse_store_node_up{{node="{node}"}}"#)) - 1.0).abs() < 0.1);
    assert!(!page.contains("rowhouse_commit_"), "a database has no committer");
    assert!(!page.contains("rowhouse_cluster_"), "the database is not a cluster");
    let frozen = cluster.freeze();
    let began = Instant::now();
    let (status, said) = ask(&server, "/readyz");
    assert_eq!(status, 503);
    assert!(said.contains("not ready: the storage did not respond within 2 s"), "{said}");
    assert!(began.elapsed() < TIMEOUT, "the check must have a deadline");
    assert_eq!(ask(&server, "/livez").0, 200);
    assert_eq!(ask(&server, "/metrics").0, 200);
    drop(frozen);
    eventually("the return of the database", || (ask(&server, "/readyz").0 == 200).then_some(()));
    // A statement waits for a lock, so it is in progress when the database dies.
    let held = cluster.open_transaction(&database, "LOCK TABLE rowhouse_entities IN ACCESS EXCLUSIVE MODE");
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                   AND application_name = 'rowhouse' AND wait_event_type = 'Lock'";
    thread::scope(|scope| {
        scope.spawn(|| {
            // The database is restarted, and the server waits for it.
            let mut look = || client.request("GET", "/tab(PartitionKey='p',RowKey='r')", &[], b"").status;
            eventually("a response", || (look() == 404).then_some(()));
        });
        eventually("a wait for the lock", || (cluster.sql(&database, waiting).trim() != "0").then_some(()));
        cluster.kill();
    });
    drop(held);
    let retries = r#"rowhouse_store_retries_total{reason="connection"} "#;
    let (_, page) = ask(&server, "/metrics");
    let retried = page.lines().find_map(|line| line.strip_prefix(retries)).unwrap();
    assert_ne!(retried, "0", "statements must be retried");
}

fn start(store: &str) -> Server {
    PROGRAM.start(&["--store", store, "--store-connections", "6"])
}

#[test]
fn nothing_acknowledged_is_lost_when_servers_connections_and_the_database_die() {
    // A separate cluster, because the test damages it.
    let Some(cluster) = Cluster::start() else { return };
    let database = cluster.database();
    let mut random = Random::from_environment(SEED);
    let servers = vec![start(&database), start(&database)];
    let mut client = servers[0].client();
    let mut load = Load::on(servers, &mut random);
    let mut pause = |watch: &Watch<'_>| {
        thread::sleep(Duration::from_millis(200 + random.below(300)));
        watch.wait_for_all_writers();
    };
    load.work_during(|watch| {
        for number in 0..3 {
            let killed = start(&database);
            let mut writer = EntityWriter::new(100 + number, number);
            thread::scope(|scope| {
                scope.spawn(|| writer.write(&killed.address, &channel().0, Until::Crash));
                pause(watch);
                killed.signal("KILL");
            });
            pause(watch);
            writer.check(&mut client, number);
            assert_eq!(watch.faults(), 0, "the death of a server must not affect the other servers");
        }
        for _ in 0..4 {
            cluster.sql(
                &database,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE datname = current_database() AND pid <> pg_backend_pid()",
            );
            pause(watch);
        }
        for _ in 0..3 {
            // It starts again by itself.
            cluster.kill();
            pause(watch);
        }
    });
    load.stop();
}

/// The primary is lost, and its synchronous replica replaces it.
#[test]
fn a_failover_to_a_synchronous_replica_loses_nothing_and_service_resumes_by_itself() {
    let Some(cluster) = Cluster::start_with_standby() else { return };
    let mut random = Random::from_environment(SEED);
    let store = cluster.either(&cluster.database());
    let mut load = Load::on(vec![start(&store), start(&store)], &mut random);
    load.work_during(|watch| {
        thread::sleep(Duration::from_millis(1000 + random.below(1000)));
        cluster.kill();
        // It takes some time until the loss is noticed and the standby is promoted.
        thread::sleep(Duration::from_millis(9000 + random.below(3000)));
        cluster.promote();
        watch.wait_for_all_writers();
        assert!(watch.faults() > 0, "writes without a primary must fail with ServerBusy");
    });
    load.stop();
}

/// A certificate of the kind that Citus generates for each node (X.509 version 1), and its key. Nothing else uses them.
const CITUS_CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBLjCB1QIUQfwzDOYFT1ZN7FdRo7/IA8TFf4AwCgYIKoZIzj0EAwIwGTEXMBUG
A1UEAwwOY2l0dXMtYXV0by1zc2wwIBcNMjYxMTIzMTEwNjA0WhgPMjEyNjEwMzAx
MTA2MDRaMBkxFzAVBgNVBAMMDmNpdHVzLWF1dG8tc3NsMFkwEwYHKoZIzj0CAQYI
KoZIzj0DAQcDQgAE8d6h4W4qdimaQYGGTw9Ccq3SGW9TJHitRvgEwjifoVvbueeH
CpvOxrfxm0I3CuR+spBZxS4sswl4SyPPGq0WDDAKBggqhkjOPQQDAgNIADBFAiEA
tLvHvGd0FLsy6O55JwAleqXG4t+I+STOe1I03EflVrUCIGhunjWs1rRlDAs5JIFg
zCCViV2VYcPJe0JQY241vJD9
-----END CERTIFICATE-----";
const CITUS_KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgWHtoyLdrJQviTyHE
TCc2rJ/xN76LI59jRR69j+P51wahRANCAATx3qHhbip2KZpBgYZPD0JyrdIZb1Mk
eK1G+ATCOJ+hW9u554cKm87Gt/GbQjcK5H6ykFnFLiyzCXhLI88arRYM
-----END PRIVATE KEY-----";

fn encrypt(cluster: &Cluster) -> String {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    encrypt_with(cluster, &made.cert.pem(), &made.signing_key.serialize_pem());
    eventually("TLS of the database", || (cluster.sql("postgres", "SHOW ssl").trim() == "on").then_some(()));
    made.cert.pem()
}

#[test]
fn the_change_feed_of_each_server_shows_the_changes_of_all() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let start = || PROGRAM.start(&["--store", &database, "--keep-log", "1h", "--admin", "127.0.0.1:0"]);
    let (one, other) = (start(), start());
    let without = PROGRAM.start(&["--store", &database]);
    assert_eq!(one.client().request("POST", "/Tables", &[], br#"{"TableName":"tab"}"#).status, 201);
    for (row, server) in [("1", &one), ("2", &other), ("3", &without)] {
        let entity = format!(r#"{{"PartitionKey":"p","RowKey":"{row}","value":1}}"#);
        assert_eq!(server.client().request("POST", "/tab", &[], entity.as_bytes()).status, 201);
    }
    for server in [&one, &other] {
        let feed = eventually("the last change in the feed", || {
            let response = server.client().request("GET", "/$ChangesTab()", &[], b"");
            assert_eq!(response.status, 200);
            let body = String::from_utf8(response.body).unwrap();
            body.contains(r#""Entity_RowKey":"3""#).then_some(body)
        });
        let at = |text: &str| feed.find(text).unwrap_or_else(|| panic!("{text} is not in {feed}"));
        assert!(at(r#""Operation":"CreateTable""#) < at(r#""Entity_RowKey":"1""#), "{feed}");
        assert!(at(r#""Entity_RowKey":"1""#) < at(r#""Entity_RowKey":"2""#), "{feed}");
        assert!(at(r#""Entity_RowKey":"2""#) < at(r#""Entity_RowKey":"3""#), "{feed}");
        let (_, page) = ask(server, "/metrics");
        assert!(page.contains("rowhouse_change_log_next_position "), "{page}");
    }
    let decoding =
        [&one, &other].map(|server| ask(server, "/metrics").1.contains("rowhouse_change_log_undecoded_bytes"));
    assert_ne!(decoding[0], decoding[1], "one of the servers decodes");
}

fn encrypt_with(cluster: &Cluster, certificate: &str, key: &str) {
    for (name, content) in [("server.crt", certificate), ("server.key", key)] {
        let content = content.trim().replace('\n', "\\n");
        // The database writes the file, so that it owns the file.
        let write = format!("COPY (SELECT E'{content}') TO PROGRAM 'umask 077; sed \"s/\\\\\\\\n/\\n/g\" > {name}'");
        cluster.sql("postgres", &write);
    }
    cluster.sql("postgres", "ALTER SYSTEM SET ssl = on");
    cluster.sql("postgres", "SELECT pg_reload_conf()");
}

#[test]
fn tls_to_the_database_follows_the_ssl_mode() {
    let Some(cluster) = Cluster::start() else { return };
    let database = cluster.database();
    let plain = refusal(&["--store", &format!("{database}?sslmode=require")], "");
    assert!(plain.contains("TLS to the database") && plain.contains("ssl = on"), "{plain}");
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let right = file("right.pem", &encrypt(&cluster));
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let wrong = file("wrong.pem", &other.cert.pem());
    let named = database.replace("127.0.0.1", "localhost");
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE ssl AND application_name = 'rowhouse'";
    for address in [
        format!("{database}?sslmode=require"),
        format!("{database}?sslmode=verify-ca&sslrootcert={right}"),
        format!("{named}?sslmode=verify-full&sslrootcert={right}"),
    ] {
        let server = PROGRAM.start(&["--store", &address, "--keep-log", "1h"]);
        assert_eq!(server.client().request("GET", "/Tables", &[], b"").status, 200, "{address}");
        assert_ne!(cluster.sql("postgres", encrypted).trim(), "0", "{address}");
        // The change log is decoded over an encrypted connection too.
        let decoding = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_replication USING (pid) WHERE ssl";
        eventually("a server that decodes", || (cluster.sql("postgres", decoding).trim() == "1").then_some(()));
        server.stop_cleanly();
    }
    for address in [
        format!("{named}?sslmode=verify-full&sslrootcert={wrong}"),
        format!("{named}?sslmode=require&sslrootcert={wrong}"),
        // The certificate is not valid for this name.
        format!("{database}?sslmode=verify-full&sslrootcert={right}"),
        format!("{named}?sslmode=verify-full"),
    ] {
        let refused = refusal(&["--store", &address], "");
        assert!(refused.contains("certificate"), "{address}: {refused}");
    }
    encrypt_with(&cluster, CITUS_CERTIFICATE, CITUS_KEY);
    let server = PROGRAM.start(&["--store", &format!("{database}?sslmode=require")]);
    assert_eq!(server.client().request("GET", "/Tables", &[], b"").status, 200);
    assert_ne!(cluster.sql("postgres", encrypted).trim(), "0");
    server.stop_cleanly();
    let refused = refusal(&["--store", &format!("{named}?sslmode=verify-ca&sslrootcert={wrong}")], "");
    assert!(refused.contains("certificate"), "{refused}");
}
