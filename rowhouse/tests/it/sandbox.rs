//! A test that the server makes no system calls that the systemd unit would refuse: its actual calls are compared with
//! the filter. The test requires strace, and systemd for the names of its groups. Without them, it is skipped and
//! prints a note.

#![cfg(target_os = "linux")]

use crate::PROGRAM;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use test_support::{ACCOUNT, Client, KEY};

fn output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the calls that a word in a filter stands for: a systemd group including nested groups, or a single call.
fn group(name: &str) -> BTreeSet<String> {
    if !name.starts_with('@') {
        return BTreeSet::from([name.to_owned()]);
    }
    let listed = output("systemd-analyze", &["syscall-filter", name]).unwrap();
    let lines =
        listed.lines().filter(|line| line.starts_with(' ')).map(str::trim).filter(|line| !line.starts_with('#'));
    lines.flat_map(|line| if line.starts_with('@') { group(line) } else { BTreeSet::from([line.to_owned()]) }).collect()
}

fn allowed() -> BTreeSet<String> {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("deploy/systemd/rowhouse.service");
    let mut allowed = BTreeSet::new();
    for line in fs::read_to_string(unit).unwrap().lines() {
        let Some(filter) = line.strip_prefix("SystemCallFilter=") else { continue };
        let groups = filter.trim_start_matches('~').split(' ').flat_map(group);
        if filter.starts_with('~') {
            groups.for_each(|call| {
                allowed.remove(&call);
            });
        } else {
            allowed.extend(groups);
        }
    }
    assert!(allowed.contains("read") && !allowed.contains("mount") && !allowed.contains("setuid"));
    allowed
}

/// Serves some requests under strace, reloads its files, and stops. Returns its system calls, one per line.
fn calls(folder: &Path) -> Vec<String> {
    let accounts = folder.join("accounts.toml");
    fs::write(&accounts, format!("[[account]]\nname = \"{ACCOUNT}\"\nkey1 = \"{KEY}\"\n")).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (data, trace) = (text(&folder.join("data")), text(&folder.join("trace")));
    let ports = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let plain = PROGRAM.serve(&[&ports[..], &["--data", &data, "--accounts", &text(&accounts)]].concat());
    let mut traced = Command::new("strace");
    traced.args(["-f", "-qq", "-o", &trace]).arg(plain.get_program()).args(plain.get_args());
    let mut child = traced.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut ready = String::new();
    out.read_line(&mut ready).unwrap();
    let mut client = Client::connect(ready.trim().strip_prefix("listening on http://").unwrap()).unwrap();
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"tab"}"#).status, 201);
    let body = format!(r#"{{"PartitionKey":"p","RowKey":"r","Text":"{}"}}"#, "x".repeat(30_000));
    assert_eq!(client.request("POST", "/tab", &[], body.as_bytes()).status, 201);
    assert_eq!(client.request("GET", "/tab()", &[], b"").status, 200);
    assert_eq!(client.request("DELETE", "/Tables('tab')", &[], b"").status, 204);
    let admin =
        out.lines().map_while(Result::ok).find_map(|line| line.strip_prefix("admin on http://").map(str::to_owned));
    for path in ["/metrics", "/readyz"] {
        let mut operator = Client::connect(admin.as_ref().unwrap()).unwrap();
        operator.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
        assert_eq!(operator.receive().unwrap().status, 200);
    }
    // The first process in the trace is the server; strace itself does not forward signals.
    let first = fs::read_to_string(&trace).unwrap().split(' ').next().unwrap().to_owned();
    for name in ["-HUP", "-TERM"] {
        assert!(Command::new("kill").args([name, &first]).status().unwrap().success());
    }
    assert!(child.wait().unwrap().success());
    fs::read_to_string(&trace).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_server_calls_nothing_that_the_unit_refuses() {
    if output("strace", &["-f", "true"]).is_none()
        || output("systemd-analyze", &["syscall-filter", "@io-event"]).is_none()
    {
        eprintln!("SKIPPED: strace or systemd-analyze is missing or lacks permissions");
        return;
    }
    let allowed = allowed();
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for line in calls(folder.path()) {
        let call = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        let Some((name, arguments)) = call.split_once('(').filter(|(name, _)| !name.contains(' ')) else { continue };
        count += 1;
        assert!(allowed.contains(name), "{line}");
        // MemoryDenyWriteExecute.
        assert!(!(arguments.contains("PROT_WRITE") && arguments.contains("PROT_EXEC")), "{line}");
        // RestrictAddressFamilies.
        let is_known = ["AF_INET,", "AF_INET6,", "AF_UNIX,"].iter().any(|family| arguments.starts_with(family));
        assert!(name != "socket" || is_known, "{line}");
    }
    assert!(count > 200, "only {count} calls were seen");
}
