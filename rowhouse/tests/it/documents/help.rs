//! Checks that the help is complete.

use super::commands;
use crate::PROGRAM;
use rowhouse::cli::ServeArgs;

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
