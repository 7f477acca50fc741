//! Checks commands that install Rowhouse: they must not request unpublished packages from a registry, and the names of
//! packages and files must be right.

use super::{files, read};
use std::collections::BTreeSet;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The note in a paragraph or heading that something requires a release.
const NOTE: &str = "after the first release";

/// Placeholders, which no shell understands, and package names that belong to other projects.
const NEVER: [&str; 7] = [
    "OWNER/REPOSITORY",
    "rowhouse-VERSION",
    "rowhouse_VERSION",
    "tables-VERSION",
    "tables_VERSION",
    "npx rowhouse ",
    "pip install rowhouse ",
];

struct Paragraph {
    line: usize,
    headline: String,
    text: String,
}

fn paragraphs(document: &str) -> Vec<Paragraph> {
    let (mut found, mut headline, mut is_code, mut is_open) = (Vec::<Paragraph>::new(), String::new(), false, false);
    for (number, line) in document.lines().enumerate() {
        let is_fence = line.trim_start().starts_with("```");
        if !is_code && line.starts_with('#') {
            line.clone_into(&mut headline);
            is_open = false;
            continue;
        }
        if !is_code && line.trim().is_empty() {
            is_open = false;
            continue;
        }
        let belongs = is_open || is_code || is_fence && found.last().is_some_and(|last| last.headline == headline);
        if !belongs {
            found.push(Paragraph { line: number + 1, headline: headline.clone(), text: String::new() });
        }
        is_open = true;
        is_code ^= is_fence;
        if let Some(last) = found.last_mut() {
            last.text.push_str(line);
            last.text.push('\n');
        }
    }
    found
}

/// Returns the commands in a paragraph: each line of a block, and each piece of text between backticks, as words.
fn commands(text: &str) -> Vec<Vec<&str>> {
    let (mut found, mut is_code) = (Vec::new(), false);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code ^= true;
        } else if is_code {
            found.push(line);
        } else {
            found.extend(line.split('`').skip(1).step_by(2));
        }
    }
    found.into_iter().map(|command| command.split_whitespace().collect()).collect()
}

/// Returns true if a command requests something that exists only after a release.
fn requires_release(words: &[&str]) -> bool {
    let begins = |beginning: &str| beginning.split(' ').zip(words).filter(|(a, b)| a == *b).count() >= 2;
    let names = |name: &str| words.iter().any(|word| word.split(['@', '=']).next() == Some(name));
    let is_of_cargo = (begins("cargo add") || begins("cargo install")) && !words.contains(&"--path");
    let is_dependency = words.first().is_some_and(|word| word.starts_with("rowhouse-"))
        && words.get(1) == Some(&"=")
        && !words.contains(&"path");
    is_of_cargo && words.iter().any(|word| word.starts_with("rowhouse"))
        || is_dependency
        || words.contains(&"attestation")
        || begins("git checkout") && words.get(2).is_some_and(|tag| tag.starts_with('v'))
        || ["npm", "npx", "yarn", "pnpm", "pip"].iter().any(|tool| words.contains(tool)) && names("rowhouse-tables")
}

const ENDINGS: [&str; 6] = [".tgz", ".whl", ".deb", ".tar.gz", ".zip", ".cdx.json"];

fn package_files(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "._-*".contains(c)));
    words.filter(|word| word.starts_with("rowhouse") && ENDINGS.iter().any(|ending| word.ends_with(ending)))
}

#[test]
fn commands_work_before_anything_is_published() {
    let (mut notes, mut named) = (0, BTreeSet::new());
    for name in files(".md").into_iter().filter(|name| name != "CHANGELOG.md") {
        let document = read(&name);
        for wrong in NEVER {
            assert!(!document.contains(wrong), "{name} contains {wrong}");
        }
        for Paragraph { line, headline, text } in paragraphs(&document) {
            let is_note = [&headline, &text].iter().any(|text| text.replace('\n', " ").to_lowercase().contains(NOTE));
            for words in commands(&text).iter().filter(|words| requires_release(words)) {
                assert!(is_note, "{name}:{line}: note that this works {NOTE}: {}", words.join(" "));
                notes += 1;
            }
            for file in package_files(&text) {
                assert!(file.contains(VERSION), "{name}:{line}: {file} does not have version {VERSION}");
                named.insert(file.to_owned());
            }
        }
    }
    assert!(notes >= 5, "only {notes} commands that need a release were found");
    assert!(named.len() >= 5, "only these names of packages were found: {named:?}");
}

#[test]
fn what_needs_a_release_is_recognised() {
    let found = |text: &str| -> Vec<String> {
        let all = paragraphs(text);
        let text: String = all.iter().map(|one| one.text.as_str()).collect();
        commands(&text).into_iter().filter(|words| requires_release(words)).map(|words| words.join(" ")).collect()
    };
    let refused = [
        "cargo add rowhouse-client",
        "cargo install rowhouse-tables --locked",
        "git checkout v0.1.0",
        "gh attestation verify file",
        "npm install --save-dev rowhouse-tables@1",
        "npx rowhouse-tables serve",
        "pip install rowhouse-tables",
        "rowhouse-client = \"0.1\"",
    ];
    for command in refused {
        assert_eq!(found(&format!("Text `{command}`, text.\n")), [command]);
        assert_eq!(found(&format!("Text\n\n```sh\n{command}\n```\n")), [command]);
    }
    for command in [
        "cargo add rowhouse-client --path ../rowhouse/client",
        "cargo add tokio --features full",
        "npm install ./rowhouse-tables-0.1.0.tgz",
        "git checkout main",
        "rowhouse-client = { path = \"../rowhouse/client\" }",
    ] {
        assert_eq!(found(&format!("`{command}`")), Vec::<String>::new());
    }
    let two = paragraphs("# A\none\ntwo\n\n```sh\nthree\n\nfour\n```\n\n## B\nfive\n");
    let texts: Vec<_> = two.iter().map(|one| (one.headline.as_str(), one.text.as_str())).collect();
    assert_eq!(texts, [("# A", "one\ntwo\n```sh\nthree\n\nfour\n```\n"), ("## B", "five\n")]);
}

/// A cargo command that names a missing package would fail.
#[test]
fn commands_of_cargo_name_packages_that_are_there() {
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let members = manifest["workspace"]["members"].as_array().unwrap().iter().map(|member| member.as_str().unwrap());
    let packages: BTreeSet<String> = members
        .map(|member| {
            let manifest: toml::Table = read(&format!("{member}/Cargo.toml")).parse().unwrap();
            manifest["package"]["name"].as_str().unwrap().to_owned()
        })
        .collect();
    let mut seen = BTreeSet::new();
    for ending in [".md", ".sh", ".py", ".rs", ".yml", "Dockerfile", "justfile", ".ci/run"] {
        for name in files(ending) {
            for line in read(&name).lines().filter(|line| line.contains("cargo")) {
                let words: Vec<_> = line
                    .split(|c: char| c.is_whitespace() || "\"'`,;)".contains(c))
                    .filter(|word| !word.is_empty())
                    .collect();
                for pair in words.windows(2) {
                    if ["-p", "--package"].contains(&pair[0]) && pair[1].starts_with("rowhouse") {
                        assert!(packages.contains(pair[1]), "{name}: there is no package {}: {line}", pair[1]);
                        seen.insert(pair[1].to_owned());
                    }
                }
            }
        }
    }
    assert!(seen.contains(env!("CARGO_PKG_NAME")) && seen.len() > 3, "only {seen:?} were found");
}

/// If a clone is next to the project, the paths in cargo commands lead to the packages that the commands name.
#[test]
fn crates_are_added_from_a_clone() {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("project");
    std::fs::create_dir_all(project.join("src")).unwrap();
    std::fs::write(project.join("src/lib.rs"), "").unwrap();
    std::os::unix::fs::symlink(super::root(), folder.path().join("rowhouse")).unwrap();
    let mut count = 0;
    for name in ["docs/getting-started.md", "docs/testing-with-rowhouse.md"] {
        for words in paragraphs(&read(name)).iter().flat_map(|one| commands(&one.text)) {
            if !words.starts_with(&["cargo", "add"]) || !words.contains(&"--path") {
                continue;
            }
            let manifest = "[package]\nname = \"project\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
            std::fs::write(project.join("Cargo.toml"), manifest).unwrap();
            let output = std::process::Command::new(env!("CARGO"))
                .args(&words[1..])
                .arg("--offline")
                .current_dir(&project)
                .output()
                .unwrap();
            assert!(output.status.success(), "{name}: {words:?}: {}", String::from_utf8_lossy(&output.stderr));
            count += 1;
        }
    }
    assert_eq!(count, 2, "the client library, and the server for tests");
}
