//! Pages of which every command runs within seconds.

use super::{Runbook, docs, stop};
use serde_json::json;
use std::fs;
use test_support::content::{create_table, fill_with_everything, put, snapshot};
use test_support::{ACCOUNT, KEY, ReservedPort};

#[test]
fn tables_and_entities_are_managed_from_a_shell() {
    let mut book = Runbook::open("commands.md", &[]);
    book.set("ROWHOUSE_ENDPOINT", &format!("http://{}/devstoreaccount1", book.listen));
    let server = book.start("rowhouse serve --in-memory --extensions");
    book.run(0, "rowhouse table create cars sessions");
    book.run_own(5, "rowhouse table create cars");
    book.run(0, "rowhouse table retention sessions --age 7d");
    book.run(0, "rowhouse entity put cars kestrel 0007");
    book.run_own(5, "rowhouse entity put cars kestrel 0007 --insert Doors:Int32=2");
    let found = book.run(0, "rowhouse entity query cars --filter");
    assert!(found.contains("981.5") && !found.contains("Model"), "{found}");
    assert!(book.run(0, "rowhouse entity get cars kestrel 0007").contains("Kestrel"));
    assert_eq!(book.run(0, "rowhouse entity count cars").trim(), "1");
    book.run(0, "rowhouse entity delete cars kestrel 0007");
    book.run_own(4, "rowhouse entity get cars kestrel 0007");
    book.run_own(0, "rowhouse entity put cars kestrel 0008 Doors:Int32=2");
    assert_eq!(book.run(0, "rowhouse entity delete cars --filter").trim(), "1");
    assert_eq!(book.run_own(0, "rowhouse entity count cars").trim(), "1", "--dry-run deletes nothing");
    book.run_own(2, "rowhouse entity count");
    stop(server);
    book.run_own(1, "rowhouse entity count cars");
    book.end();
}

#[test]
fn both_services_are_compared_side_by_side() {
    let ports = [(); 4].map(|()| ReservedPort::new());
    let [cosmos, secure, busy, busy_cosmos] = ports.each_ref().map(ReservedPort::address);
    let mut book = Runbook::open(
        "moving-between-azure-tables-and-cosmos.md",
        &[
            ("127.0.0.1:8902", &cosmos),
            ("127.0.0.1:8903", &secure),
            ("127.0.0.1:10012", &busy),
            ("127.0.0.1:8912", &busy_cosmos),
        ],
    );
    let storage = book.start("rowhouse serve --in-memory --listen 127.0.0.1:10002");
    let cosmos = book.start("rowhouse serve --service cosmos --in-memory --listen 127.0.0.1:8902");
    for _ in 0..2 {
        book.run(0, "rowhouse table create orders");
    }
    for _ in 0..4 {
        book.run(0, "rowhouse entity put orders 2024");
    }
    let secure = book.start("rowhouse serve --service cosmos --data ./rowhouse-data");
    assert!(book.path("rowhouse-data/rowhouse-cert.pem").is_file());
    stop(secure);
    for _ in 0..2 {
        let found = book.run(0, "rowhouse entity query orders --select RowKey");
        assert!(found.contains("0001") && found.contains("0002"), "{found}");
    }
    let tokens = book.run(0, "curl -s -D -");
    assert!(tokens.contains("NextRowKey: 1!8!"), "{tokens}");
    let tokens = book.run(0, "curl -s -D -");
    assert!(tokens.contains(r#"{"token":""#) && tokens.contains("NextRowKey: NA"), "{tokens}");
    for code in ["TableNotFound", "ResourceNotFound"] {
        let command = book.next("rowhouse entity get invoices 2024 0001");
        let answer = book.run_own(4, &format!("{} 2>&1", command.trim_end()));
        assert!(answer.contains(&format!("404 {code}: ")), "{answer}");
    }

    let busy = book.start("rowhouse serve --in-memory");
    let busy_cosmos = book.start("rowhouse serve --service cosmos --in-memory");
    let refused = book.run(0, "curl -s -w");
    assert!(refused.contains("ServerBusy") && refused.ends_with("503\n"), "{refused}");
    let refused = book.run(0, "curl -s -w");
    assert!(refused.contains("TooManyRequests") && refused.ends_with("429\n"), "{refused}");
    stop(busy);
    stop(busy_cosmos);

    assert!(book.run(0, "curl -s").contains("<StorageServiceProperties>"));
    assert!(book.run(0, "curl -s").contains("NotImplemented"));
    assert!(book.run(0, "curl -s").contains("0002"));
    assert!(book.run(0, "curl -s").contains("NotImplemented"));
    book.run(0, "rowhouse entity put orders 2024 ''");
    book.run(1, "rowhouse entity put orders 2024 ''");
    for _ in 0..2 {
        book.run(0, "rowhouse entity put orders 2024 0003 Etag=mine");
    }
    assert!(book.run(0, "rowhouse entity get orders 2024 0003").contains("mine"));
    assert!(!book.run(0, "rowhouse entity get orders 2024 0003").contains("mine"));
    assert!(book.run(0, "curl -s").contains(r#""At":"2024-05-01T08:00:00.5Z""#));
    assert!(book.run(0, "curl -s").contains(r#""At":"2024-05-01T08:00:00.5000000Z""#));
    stop(storage);
    stop(cosmos);
    book.end();
}

#[test]
fn accounts_are_copied() {
    let cloud = "https://orchard.table.core.windows.net";
    let mut book = Runbook::open(
        "copy.md",
        &[
            (cloud, "http://127.0.0.1:10002/devstoreaccount1"),
            ("<account key>", KEY),
            ("127.0.0.1:10002/ACCOUNT", &format!("127.0.0.1:10002/{ACCOUNT}")),
            ("PLACE", "./followed"),
        ],
    );
    fs::write(book.path("orchard.key"), KEY).unwrap();
    let source = book.start_own("rowhouse serve --data ./emulator --keep-log 24h");
    fill_with_everything(&source);
    let all = snapshot(&source);

    book.skip("rowhouse copy --from PLACE --to PLACE", "it shows the form of the command");
    book.run(0, "rowhouse copy --from http://127.0.0.1:10002/devstoreaccount1 --to ./rowhouse-data");
    stop(source);
    let copied = book.start("rowhouse serve --data ./rowhouse-data");
    assert!(snapshot(&copied) == all);
    stop(copied);

    let source = book.start_own("rowhouse serve --data ./emulator --keep-log 24h");
    let from_cloud = format!("--from {cloud} --to /var/lib/rowhouse");
    book.run(0, &format!("ROWHOUSE_FROM_KEY='<account key>' rowhouse copy {from_cloud}"));
    // The page offers two ways. The target must be empty.
    let target = book.path("var/lib/rowhouse");
    book.run_own(1, &format!("rowhouse copy --from-key-file orchard.key {from_cloud}"));
    fs::remove_dir_all(&target).unwrap();
    book.run(0, "rowhouse copy --from https://orchard.table.core.windows.net --from-key-file orchard.key");
    book.run_own(0, &format!("rowhouse copy --verify-only --from-key-file orchard.key {from_cloud}"));

    book.run(0, "rowhouse copy --follow --no-verify");
    put(&mut source.client(), "Harvest", "types", "later", &json!({ "Number": 1 }));
    let all = snapshot(&source);
    book.run(0, "rowhouse copy --follow --from");
    stop(source);
    let followed = book.start_own("rowhouse serve --data ./followed");
    assert!(snapshot(&followed) == all);
    stop(followed);
    book.end();
}

#[test]
fn tables_are_exported_and_imported() {
    let mut book = Runbook::open("export.md", &[]);
    let server = book.start_own("rowhouse serve --data ./rowhouse-data");
    fill_with_everything(&server);
    let mut client = server.client();
    create_table(&mut client, "cars");
    for (row, doors) in [("0007", 4), ("0008", 5)] {
        put(&mut client, "cars", "kestrel", row, &json!({ "Doors": doors }));
    }
    let exported = snapshot(&server).tables();
    stop(server);

    book.run(0, "rowhouse export --from ./rowhouse-data --to ./out");
    assert!(book.path("out/export.json").is_file());
    book.run(0, "rowhouse import --from ./out --to ./other-data");
    book.run(0, "rowhouse export --from ./rowhouse-data --table cars --to - | jq");
    let server = book.start_own("rowhouse serve --data ./rowhouse-data");
    book.run(0, "rowhouse export --from http://127.0.0.1:10002/devstoreaccount1 --table cars --to cars.csv");
    assert_eq!(fs::read_to_string(book.path("cars.csv")).unwrap().lines().count(), 3);
    stop(server);

    let server = book.start_own("rowhouse serve --data ./other-data");
    let mut imported = snapshot(&server).tables();
    let few = imported.remove("fewCars").unwrap();
    assert!(few.contains("0008") && !few.contains("0007"), "{few}");
    assert_eq!(imported, exported);
    stop(server);
    book.run_own(1, "rowhouse export --from ./missing --to ./nothing");
    book.end();
}

#[test]
fn a_server_is_started_with_and_without_tls() {
    let port = ReservedPort::new();
    let mut book = Runbook::open("getting-started.md", &[("0.0.0.0:443", &port.address())]);
    let server = book.start("rowhouse serve");
    let list = |options: &str| format!("rowhouse table list --endpoint {options}");
    book.run_own(0, &list("http://127.0.0.1:10002/devstoreaccount1"));
    stop(server);

    book.run_own(0, "rowhouse accounts new orchard --file accounts.toml");
    book.run_own(0, "rowhouse certificate");
    let server = book.start("rowhouse serve --listen 0.0.0.0:443 --accounts accounts.toml");
    let accounts = fs::read_to_string(book.path("accounts.toml")).unwrap();
    let key = accounts.lines().find_map(|line| line.strip_prefix("key1 = \"")?.strip_suffix('"')).unwrap();
    fs::write(book.path("orchard.key"), key).unwrap();
    let url = format!("https://localhost:{}/orchard --key-file orchard.key", port.number());
    book.run_own(0, &format!("SSL_CERT_FILE=cert.pem {}", list(&url)));
    book.run_own(1, &list(&url));
    stop(server);
    book.end();
}

const PACKAGES: &str = "`scripts/test_packages.sh` builds and installs the packages";
const RELEASE: &str = "nothing is released yet";
const SERVICE: &str = "`documents::unit_file` and `sandbox` test the units";
const IMAGE: &str = "`documents::image` checks the image";
const CLUSTER: &str = "`documents::manifests` checks the manifests";

#[test]
fn the_program_is_installed_from_files() {
    let mut book = Runbook::open("installing.md", &[("sudo ", "")]);
    let skip = |book: &mut Runbook, reason: &str, commands: &[&str]| {
        for command in commands {
            book.skip(command, reason);
        }
    };
    skip(&mut book, "it builds the program", &["cargo install"]);
    stop(book.start("rowhouse serve"));
    let profile = ["rustup component add", "target=", "scripts/profile.sh", "PROFILE_DATA="];
    skip(&mut book, "it builds the program", &profile);
    skip(&mut book, PACKAGES, &["program=", "target=", "scripts/package-npm.sh", "python3 -m venv"]);
    skip(&mut book, PACKAGES, &[".venv-packaging/bin/pip", "PYTHON=", "scripts/package-dotnet.sh"]);
    skip(&mut book, PACKAGES, &["scripts/package-deb.sh", "scripts/package.sh"]);

    // Debian and Ubuntu
    book.run(0, "sudo rowhouse accounts new orchard --file /etc/rowhouse/accounts.toml");
    skip(&mut book, SERVICE, &["sudo systemctl enable"]);
    // The archive
    book.run(0, "rowhouse completions bash");
    book.run_own(0, "mkdir -p /usr/local/share/man/man1 && bash -n /usr/share/bash-completion/completions/rowhouse");
    book.run(0, "rowhouse man --dir");
    assert!(book.path("usr/local/share/man/man1/rowhouse.1").is_file());
    skip(&mut book, RELEASE, &["sha256sum --check", "repository=", "gh attestation verify"]);
    skip(&mut book, PACKAGES, &["rustup target add", "scripts/reproducible.sh"]);

    // systemd
    book.run_own(0, "mkdir -p /etc/systemd/system /usr/bin /usr/lib/sysusers.d deploy/systemd && rm -r /etc/rowhouse && touch rowhouse");
    for file in ["deploy/systemd/rowhouse.service", "deploy/systemd/rowhouse.sysusers"] {
        fs::copy(docs().join("..").join(file), book.path(file)).unwrap();
    }
    book.run(0, "sudo install -m 755 rowhouse /usr/bin/rowhouse");
    book.run(0, "sudo install -d -m 755 /etc/rowhouse");
    book.run(0, "sudo rowhouse accounts new orchard --file /etc/rowhouse/accounts.toml");
    book.run(0, "sudo install -m 644 deploy/systemd/rowhouse.sysusers");
    skip(&mut book, SERVICE, &["sudo systemd-sysusers"]);
    book.run(0, "sudo install -m 644 deploy/systemd/rowhouse.service");
    stop(book.start_own("rowhouse serve --accounts /etc/rowhouse/accounts.toml --data /var/lib/rowhouse"));
    skip(&mut book, SERVICE, &["sudo systemctl daemon-reload", "sudo systemctl enable"]);

    skip(&mut book, IMAGE, &["docker build", "docker run -d", "docker run --rm"]);
    skip(&mut book, CLUSTER, &["kubectl create secret", "kubectl apply", "kubectl create secret", "helm install"]);
    skip(&mut book, CLUSTER, &["kubectl create secret", "openssl rand"]);
    skip(&mut book, CLUSTER, &["kubectl apply", "kubectl exec"]);
    book.end();
}
