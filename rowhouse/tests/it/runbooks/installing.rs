//! docs/installing.md. Other tests cover what builds programs or needs an installed system.

use super::{Runbook, docs, stop};
use std::fs;

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
    skip(&mut book, PACKAGES, &["program=", "target=", "scripts/package-npm.sh", "python3 -m venv"]);
    skip(&mut book, PACKAGES, &[".venv-packaging/bin/pip", "PYTHON=", "scripts/package-deb.sh", "scripts/package.sh"]);

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
    skip(&mut book, CLUSTER, &["kubectl create secret", "kubectl apply", "kubectl create secret", "openssl rand"]);
    skip(&mut book, CLUSTER, &["kubectl apply", "kubectl exec"]);
    book.end();
}
