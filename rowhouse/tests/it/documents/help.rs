//! Checks that the help is complete.

use super::{commands, read, root};
use crate::PROGRAM;
use rowhouse::cli::ServeArgs;
use std::path::{Path, PathBuf};

#[test]
fn every_command_and_every_option_says_what_it_is_for() {
    for (words, command) in commands() {
        assert!(command.get_about().is_some(), "{words} has no help");
        let about = command.get_about().unwrap().to_string();
        assert!(!about.ends_with('.'), "the first line of {words} must not end with a period");
        for arg in command.get_arguments() {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.len() > 10, "{words} --{} has no help", arg.get_id());
        }
    }
}

#[test]
fn every_command_that_does_something_has_examples() {
    for (words, command) in commands().into_iter().filter(|(_, command)| !command.has_subcommands()) {
        let text = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        assert!(text.starts_with("Examples:\n"), "{words} has no examples");
        assert!(text.contains("rowhouse "), "{words} has no examples");
    }
}

#[test]
fn a_paragraph_of_the_help_is_wrapped_by_the_terminal_alone() {
    // A paragraph must be one line here, or the terminal would wrap each of its lines again. Text has no indentation,
    // or the indentation of a remark about an example; commands and files have other indentations.
    let indent = |line: &str| line.len() - line.trim_start().len();
    for (words, command) in commands() {
        let text = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        for (line, next) in text.lines().zip(text.lines().skip(1)) {
            let is_text = [0, 6].contains(&indent(line)) && !line.is_empty() && !next.is_empty();
            assert!(!is_text || indent(line) != indent(next), "{words} --help breaks a paragraph after: {line}");
        }
    }
}

#[test]
fn the_short_help_of_the_server_has_one_line_for_each_option() {
    let (_, serve) = commands().into_iter().find(|(words, _)| words == "rowhouse serve").unwrap();
    let output = PROGRAM.command(&["serve", "-h"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter(|line| line.starts_with("  ")).count();
    // With --help and --version.
    assert_eq!(lines, serve.get_arguments().count() + 2, "{text}");
    let important = serve.get_arguments().filter(|arg| arg.get_help_heading().is_none()).count();
    assert_eq!(important, 10, "ten options matter first; the others need a help_heading");
}

#[test]
fn the_help_omits_only_variables_that_follow_from_the_names_of_options() {
    for (words, command) in commands() {
        for arg in command.get_arguments().filter(|arg| arg.is_hide_env_set()) {
            let variable = format!("ROWHOUSE_{}", arg.get_id().as_str().to_uppercase());
            assert_eq!(
                arg.get_env().and_then(|name| name.to_str()),
                Some(variable.as_str()),
                "{words} {}",
                arg.get_id()
            );
        }
    }
}

/// Options of `serve` that cannot be set in a file.
const NOT_IN_A_FILE: [&str; 1] = ["config"];

#[test]
fn every_option_of_the_server_has_its_twins() {
    let (_, serve) = commands().into_iter().find(|(words, _)| words == "rowhouse serve").unwrap();
    let mut count = 0;
    for arg in serve.get_arguments() {
        count += 1;
        let long = arg.get_long().unwrap();
        let variable = format!("ROWHOUSE_{}", long.replace('-', "_").to_uppercase());
        assert_eq!(arg.get_env().and_then(|name| name.to_str()), Some(variable.as_str()), "--{long}");
        if NOT_IN_A_FILE.contains(&long) {
            continue;
        }
        // One of these values fits any option; none of the options may be unknown in the file.
        let values = ["\"1\"", "1", "true", "[\"1\"]"];
        let known = values.iter().any(|value| match toml::from_str::<ServeArgs>(&format!("{long} = {value}")) {
            Ok(_) => true,
            Err(error) => !error.to_string().contains("unknown field"),
        });
        assert!(known, "{long} cannot be set in the options file");
    }
    assert!(count > 20, "only {count} options were found");
}

/// Returns true if a test or a module of tests exists. `name` consists of a crate, a space, and the path in the crate.
fn exists(name: &str) -> bool {
    let Some((package, path)) = name.split_once(' ') else { return false };
    let parts: Vec<&str> = path.split("::").collect();
    [root().join(package).join("src"), root().join(package).join("tests/it")]
        .into_iter()
        .any(|folder| is_in(&folder, &parts))
}

fn is_in(folder: &Path, parts: &[&str]) -> bool {
    let Some((first, rest)) = parts.split_first() else { return true };
    let file = folder.join(format!("{first}.rs"));
    let is_found = |file: PathBuf, rest: &[&str]| {
        std::fs::read_to_string(file).is_ok_and(|text| {
            rest.iter().all(|part| text.contains(&format!("mod {part} {{")) || text.contains(&format!("fn {part}(")))
        })
    };
    is_found(file, rest)
        || folder.join(first).is_dir() && is_in(&folder.join(first), rest)
        || is_found(folder.join("mod.rs"), parts)
}

#[test]
fn every_test_that_holds_a_claim_exists() {
    let document = read("docs/security.md");
    let (_, table) = document.split_once("## Which test verifies which claim").unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ") && line.contains('`')).collect();
    assert!(rows.len() > 15, "{rows:?}");
    for row in rows {
        let (_, tests) = row.trim_end_matches(" |").rsplit_once(" | ").unwrap();
        for name in tests.split(", ").map(|name| name.trim_matches('`')) {
            assert!(exists(name), "{name} is not a test");
        }
    }
    assert!(!exists("rowhouse overload::no_such_test") && !exists("nowhere overload"));
}
