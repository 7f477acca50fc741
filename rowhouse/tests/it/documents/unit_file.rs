//! Checks the systemd unit and its additions: the command lines, and systemd's own verification.

use super::{accept_server, command_lines, files, has, parse, read, root};
use crate::PROGRAM;
use std::process::Command;

const UNIT: &str = "deploy/systemd/rowhouse.service";
/// The maximum exposure level that systemd may report, out of 10.
const EXPOSURE_MAX: f64 = 2.0;

fn values(file: &str, name: &str) -> Vec<String> {
    let text = read(file);
    let lines = text.lines().filter_map(|line| line.split_once('=').filter(|(there, _)| *there == name));
    lines.map(|(_, value)| value.to_owned()).collect()
}

/// Expands a line as systemd does, with test paths for its files.
fn expanded(line: &str) -> String {
    line.replace("%S", "/var/lib")
}

#[test]
fn the_command_lines_of_units_are_ones_that_start() {
    let units = files(".service").into_iter().chain(files(".conf"));
    let mut count = 0;
    for unit in units.filter(|name| name.starts_with("deploy/systemd/")) {
        for line in values(&unit, "ExecStart").iter().filter(|line| !line.is_empty()) {
            let found = command_lines::invocations(&expanded(line));
            assert_eq!(found.len(), 1, "{unit}: {line}");
            let taken = if found[0].words[0] == "serve" {
                accept_server(&found[0].words, &[]).map(|_| ())
            } else {
                parse(&found[0].words, &[]).map(|_| ())
            };
            taken.unwrap_or_else(|error| panic!("{unit}: {error}"));
            count += 1;
        }
    }
    assert_eq!(count, 2);
}

#[test]
fn what_the_command_line_names_is_what_the_unit_provides() {
    let line = values(UNIT, "ExecStart").remove(0);
    let state = values(UNIT, "StateDirectory").remove(0);
    assert!(line.contains(&format!("--data %S/{state}")), "{line}");
    assert_eq!(values(UNIT, "Type"), ["notify"], "the server reports when it is ready");
    // The server reports this through a socket of this family.
    assert!(values(UNIT, "RestrictAddressFamilies")[0].contains("AF_UNIX"));
}

#[test]
fn a_replaced_key_is_refused_because_the_server_reads_the_file_itself() {
    let line = values(UNIT, "ExecStart").remove(0);
    assert!(line.contains("--accounts /etc/rowhouse/"), "{line}");
    assert!(values(UNIT, "LoadCredential").is_empty(), "a credential is a copy that is made at startup");
    let group = values(UNIT, "SupplementaryGroups").remove(0);
    assert!(read("deploy/systemd/rowhouse.sysusers").lines().any(|line| line == format!("g {group} -")));
    for when in ["ExecStartPre", "ExecReload"] {
        let commands = values(UNIT, when);
        assert_eq!(commands[0], format!("-+/bin/chgrp -R {group} /etc/rowhouse"), "{when}");
        assert_eq!(commands[1], "-+/bin/chmod -R g+rX /etc/rowhouse", "{when}");
    }
}

/// Returns a copy of a unit that can be verified here, with an existing program and the given additions.
fn copy_for_verification(folder: &std::path::Path, name: &str, additions: &[&str]) -> String {
    let local = |text: String| text.replace("/usr/bin/rowhouse", PROGRAM.path());
    let path = folder.join(name);
    // No manual page is installed here.
    let unit = read(&format!("deploy/systemd/{name}"));
    let text: Vec<_> = unit.lines().filter(|line| !line.starts_with("Documentation=")).collect();
    std::fs::write(&path, local(text.join("\n"))).unwrap();
    let drop_ins = folder.join(format!("{name}.d"));
    std::fs::create_dir_all(&drop_ins).unwrap();
    for name in additions {
        std::fs::write(drop_ins.join(name), local(read(&format!("deploy/systemd/{name}")))).unwrap();
    }
    path.to_str().unwrap().to_owned()
}

#[test]
fn systemd_takes_the_unit_and_finds_it_little_exposed() {
    if !has("systemd-analyze") {
        return;
    }
    let run = |args: &[&str]| {
        let output =
            Command::new("systemd-analyze").args(args).env("SYSTEMD_COLORS", "0").current_dir(root()).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    for (name, additions) in [
        ("rowhouse.service", &[][..]),
        ("rowhouse.service", &["privileged-port.conf"]),
        ("rowhouse-backup.service", &[]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let unit = copy_for_verification(folder.path(), name, additions);
        let (good, said) = run(&["verify", "--man=no", &unit]);
        let about_it: Vec<_> = said.lines().filter(|line| line.contains("rowhouse")).collect();
        assert!(good && about_it.is_empty(), "{name} {additions:?}: {said}");
    }
    for name in ["rowhouse.service", "rowhouse-backup.service"] {
        let (good, said) = run(&["security", "--offline=true", "--no-pager", &format!("deploy/systemd/{name}")]);
        let mark = format!("exposure level for {name}: ");
        let exposure = said.lines().find_map(|line| line.split_once(&mark)).unwrap().1;
        let exposure: f64 = exposure.split(' ').next().unwrap().parse().unwrap();
        assert!(good && exposure <= EXPOSURE_MAX, "{said}");
    }
}
