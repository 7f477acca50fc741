//! Generates `docs/configuration.md` from the options. To update it, run `UPDATE_DOCS=1 cargo test -p rowhouse-tables
//! reference`.

use super::{commands, root};
use clap::Arg;
use std::fmt::Write;

const PATH: &str = "docs/configuration.md";

const INTRODUCTION: &str = "\
# Configuration

<!-- Written by a test from the options of the program: UPDATE_DOCS=1 cargo test -p rowhouse-tables reference -->

This page lists every option of the server and of the other commands, with its environment variable. You can set an option of
`rowhouse serve` in three ways, listed in order of precedence:

1. on the command line: `--listen 127.0.0.1:10002`
2. in the environment: `ROWHOUSE_LISTEN=127.0.0.1:10002`
3. in the TOML file that `--config` names: `listen = \"127.0.0.1:10002\"`

Switches also accept a value, so you can turn off on the command line what the environment or the file turns on:
`--in-memory=false`, `ROWHOUSE_IN_MEMORY=false`, `in-memory = false`. If the file contains an unknown name, or if a value
is invalid, the server reports it and does not start.

";

const VARIABLES_SECTION: &str = "
## Variables without an option

The following variables contain secrets, which must not be on a command line, or are set by other programs:

| variable | content |
|---|---|
| `ROWHOUSE_ACCOUNT_KEYS` | the accounts and their keys, as `name:key1` or `name:key1:key2`, separated by semicolons; used instead of `--accounts` |
| `AZURITE_ACCOUNTS` | the same for `rowhouse azurite` and for the emulator's programs that it starts; used instead of `ROWHOUSE_ACCOUNT_KEYS` |
| `PGPASSWORD` | the password for the database that `--store` names, if neither the URL nor `--store-password-file` provides it |
| `SSL_CERT_FILE` | a PEM file of the certificate authorities to trust, instead of the system's authorities, when the server fetches the keys of token issuers |
| `NOTIFY_SOCKET` | set by systemd for services of `Type=notify`: the socket to which the server reports that it is ready or stopping |
| `ROWHOUSE_FROM_KEY`, `ROWHOUSE_TO_KEY`, `ROWHOUSE_INTO_KEY` | for commands that connect to a service: the account key or a shared access signature |
| `ROWHOUSE_KEY` | the same for `rowhouse table` and `rowhouse entity` |
| `ROWHOUSE_CONNECTION_STRING`, `AZURE_STORAGE_CONNECTION_STRING` | for the same two commands: a connection string, which contains the URL and the credential |

Bearer tokens can be configured only in the file, in the section `[oauth]`; see [Bearer tokens](bearer-tokens.md).
[Security](security.md) describes how the server handles settings that are unsafe on a network.
";

fn render() -> String {
    let mut text = String::new();
    let all = commands();
    let (_, serve) = all.iter().find(|(words, _)| words == "rowhouse serve").unwrap();
    text.push_str("## Options of the server\n");
    for arg in serve.get_arguments() {
        option(&mut text, arg, true);
    }
    text.push_str(VARIABLES_SECTION);
    text.push_str("\n## Other commands\n\n");
    text.push_str(
        "`rowhouse COMMAND --help` shows examples; `rowhouse man COMMAND` prints the manual page of a command.\n",
    );
    for (words, command) in all.iter().filter(|(words, _)| words != "rowhouse" && words != "rowhouse serve") {
        write!(text, "\n### {words}\n\n{}.\n", escape(&command.get_about().unwrap().to_string())).unwrap();
        for arg in command.get_arguments() {
            option(&mut text, arg, false);
        }
    }
    format!("{INTRODUCTION}{}{text}", index(&text))
}

/// Returns a table of links: one row for each section, with its options or commands.
fn index(sections: &str) -> String {
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for line in sections.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            rows.push((format!("[{title}](#{})", slug(title)), Vec::new()));
        } else if let (Some(title), Some((_, links))) = (line.strip_prefix("### "), rows.last_mut()) {
            let name = title.trim_matches('`');
            let name = if name.starts_with("--") { name.split([' ', '[']).next().unwrap_or(name) } else { name };
            links.push(format!("[`{name}`](#{})", slug(title)));
        }
    }
    let mut index = "| section | content |\n|---|---|\n".to_owned();
    for (section, links) in rows {
        let content = if links.is_empty() {
            "secrets, and variables that other programs set".to_owned()
        } else {
            links.join(", ")
        };
        writeln!(index, "| {section} | {content} |").unwrap();
    }
    index.push('\n');
    index
}

fn slug(title: &str) -> String {
    let lower = title.to_lowercase();
    let kept = lower.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn option(text: &mut String, arg: &Arg, is_section: bool) {
    let value = arg.get_value_names().filter(|_| arg.get_num_args().is_none_or(|count| count.takes_values()));
    let value = value.map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
    let is_switch = arg.get_num_args().is_some_and(|count| count.min_values() == 0);
    let value = match (&value, arg.is_positional(), is_switch) {
        (Some(name), false, true) => format!("[={name}]"),
        (Some(name), false, false) => format!(" {name}"),
        (Some(name), true, _) => name.clone(),
        (None, ..) => String::new(),
    };
    let name = arg.get_long().map_or(value.clone(), |long| format!("--{long}{value}"));
    if is_section {
        write!(text, "\n### `{name}`\n\n").unwrap();
    } else {
        write!(text, "\n- `{name}`").unwrap();
    }
    let variable = arg.get_env().map(|name| format!("`{}`", name.display()));
    let help = arg.get_long_help().or(arg.get_help()).unwrap().to_string();
    let help = escape(&default_in_code(&in_one_paragraph(&help)));
    match (&variable, is_section) {
        (Some(variable), true) => write!(text, "{help}.\n\nVariable: {variable}").unwrap(),
        (Some(variable), false) => write!(text, " ({variable}): {help}").unwrap(),
        (None, true) => write!(text, "{help}.").unwrap(),
        (None, false) => write!(text, ": {help}").unwrap(),
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| format!("`{}`", value.display())).collect();
    if !defaults.is_empty() {
        write!(text, " (default: {})", defaults.join(", ")).unwrap();
    }
    text.push('\n');
    if value.is_empty() || is_switch {
        return;
    }
    let values = arg.get_possible_values();
    if is_section && !values.is_empty() {
        text.push('\n');
    }
    for value in values.iter().filter(|value| !value.is_hide_set()) {
        let indent = if is_section { "" } else { "  " };
        let help = value.get_help().map(|help| format!(": {}", escape(&help.to_string()))).unwrap_or_default();
        writeln!(text, "{indent}- `{}`{help}", value.get_name()).unwrap();
    }
}

/// Joins the paragraphs of a help text. The first one, the summary, has no final period.
fn in_one_paragraph(help: &str) -> String {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let paragraphs: Vec<_> = help.split("\n\n").map(|text| words(text.trim_end_matches('.'))).collect();
    paragraphs.join(". ")
}

/// Formats the default value, which help shows in brackets, as Markdown code.
fn default_in_code(help: &str) -> String {
    let Some((before, rest)) = help.split_once("[default: ") else { return help.to_owned() };
    let (default, after) = rest.split_once(']').expect("the bracket is closed");
    // Text after the value describes it further.
    let (value, more) = default.split_at(default.find(", ").unwrap_or(default.len()));
    format!("{before}(default: `{value}`{more}){after}")
}

/// Escapes text that Markdown would treat as markup, outside code.
fn escape(text: &str) -> String {
    let plain = |text: &str| text.replace('<', "&lt;").replace('*', "\\*").replace('[', "\\[").replace('_', "\\_");
    let pieces = text
        .split('`')
        .enumerate()
        .map(|(number, piece)| if number % 2 == 0 { plain(piece) } else { piece.to_owned() });
    pieces.collect::<Vec<_>>().join("`")
}

#[test]
fn the_reference_of_options_is_current() {
    let path = root().join(PATH);
    let (current, written) = (render(), std::fs::read_to_string(&path).unwrap_or_default());
    if current != written && std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &current).unwrap();
        return;
    }
    for (number, (now, then)) in current.lines().zip(written.lines()).enumerate() {
        assert_eq!(
            now,
            then,
            "{PATH}:{}: update it with UPDATE_DOCS=1 cargo test -p rowhouse-tables reference",
            number + 1
        );
    }
    assert!(
        current == written,
        "{PATH} is outdated: update it with UPDATE_DOCS=1 cargo test -p rowhouse-tables reference"
    );
}
