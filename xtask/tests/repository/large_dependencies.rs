//! Checks that the workspace's manifest gives a reason for every large crate that the program compiles: in a comment
//! above the dependency, or in its table of crates that only other crates use.

use super::{read, root};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The number of lines, without blank lines and comments, above which a crate needs a reason.
const LINES_MAX: usize = 5_000;

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(arguments).arg("--locked").current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn lines_below(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let count = |path: &Path| {
        let text = std::fs::read(path).unwrap();
        let text = String::from_utf8_lossy(&text);
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
    };
    let is_rust = |path: &Path| path.extension().is_some_and(|extension| extension == "rs");
    entries.map(|path| if is_rust(&path) { count(&path) } else { lines_below(&path) }).sum()
}

#[test]
fn every_large_crate_has_a_reason() {
    let tree = cargo(&["tree", "--package", "rowhouse-tables", "--edges", "normal,build", "--prefix", "none"]);
    let used: BTreeSet<&str> = tree.lines().map(|line| line.split(' ').next().unwrap()).collect();
    let metadata: Value = serde_json::from_str(&cargo(&["metadata", "--format-version", "1"])).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let libraries = packages.filter(|package| package["source"].is_string());
    let large: BTreeSet<&str> = libraries
        .filter(|package| {
            let manifest = Path::new(package["manifest_path"].as_str().unwrap());
            lines_below(&manifest.with_file_name("src")) > LINES_MAX
        })
        .map(|package| package["name"].as_str().unwrap())
        .filter(|name| used.contains(name))
        .collect();
    let table = metadata["metadata"]["large-crates"].as_object().unwrap();
    let manifest = read("Cargo.toml");
    let lines: Vec<&str> = manifest.lines().collect();
    let is_explained = |name: &str| {
        let start = format!("{name} = ");
        lines.windows(2).any(|pair| pair[0].starts_with('#') && pair[1].starts_with(&start)) || table.contains_key(name)
    };
    let missing: Vec<_> = large.iter().filter(|name| !is_explained(name)).collect();
    assert!(missing.is_empty(), "add the reason for these crates to Cargo.toml, or drop them: {missing:?}");
    let unused: Vec<_> = table.keys().filter(|name| !large.contains(name.as_str())).collect();
    assert!(unused.is_empty(), "these crates are gone or small, so remove their reason from Cargo.toml: {unused:?}");
}
