//! `docs/configuration.md` is written from the options themselves. `UPDATE_DOCS=1 cargo test -p rowhouse-tables reference` writes it
//! anew.

use super::{commands, root};
use clap::Arg;
use std::fmt::Write;

const PATH: &str = "docs/configuration.md";

const BEGINNING: &str = "\
# Configuration

<!-- Written by a test from the options of the program: UPDATE_DOCS=1 cargo test -p rowhouse-tables reference -->

Every option of `rowhouse serve` can be given in three ways, and the first that says something wins:

1. on the command line: `--listen 127.0.0.1:10002`
2. in the environment: `ROWHOUSE_LISTEN=127.0.0.1:10002`
3. in the TOML file that `--config` names: `listen = \"127.0.0.1:10002\"`

Switches take a value too, so that a way that wins can turn them off: `--in-memory=false`, `ROWHOUSE_IN_MEMORY=false`,
`in-memory = false`. A name in the file that is not known is an error, and so is a value that makes no sense; the server
then says which, and does not start.

";

const FURTHER: &str = "
## What no option stands for

These hold secrets, which have no place on a command line, or are taken from the surroundings:

| variable | what it holds |
|---|---|
| `ROWHOUSE_ACCOUNT_KEYS` | accounts and keys: `name:key1` or `name:key1:key2`, several separated by semicolons; in place of `--accounts` |
| `AZURITE_ACCOUNTS` | the same for `rowhouse azurite`, and for the emulator's programs that it starts; in place of `ROWHOUSE_ACCOUNT_KEYS` |
| `PGPASSWORD` | the password of the database of `--store`, where no file holds it |
| `SSL_CERT_FILE` | a PEM file of the authorities that are trusted, in place of those of the system, when keys of token issuers are fetched |
| `NOTIFY_SOCKET` | set by systemd for services of `Type=notify`: the server says there when it is ready and when it stops |
| `ROWHOUSE_FROM_KEY`, `ROWHOUSE_TO_KEY`, `ROWHOUSE_INTO_KEY` | for commands that reach a service: the account key or shared access signature |
| `ROWHOUSE_KEY` | the same for `rowhouse table` and `rowhouse entity` |
| `ROWHOUSE_CONNECTION_STRING`, `AZURE_STORAGE_CONNECTION_STRING` | for these two: a connection string, which says where and as whom |

Bearer tokens are set up in the file alone, in the section `[oauth]`: see [Bearer tokens](bearer-tokens.md).
What the server does with a setting that is unsafe on a network is in [Security](security.md).
";

fn render() -> String {
    let mut text = BEGINNING.to_owned();
    let all = commands();
    let (_, serve) = all.iter().find(|(words, _)| words == "rowhouse serve").unwrap();
    text.push_str("## Options of the server\n");
    for arg in serve.get_arguments() {
        option(&mut text, arg, true);
    }
    text.push_str(FURTHER);
    text.push_str("\n## Other commands\n\n`rowhouse COMMAND --help` has examples; `rowhouse man COMMAND` is the same as a manual page.\n");
    for (words, command) in all.iter().filter(|(words, _)| words != "rowhouse" && words != "rowhouse serve") {
        write!(text, "\n### {words}\n\n{}.\n", escape(&command.get_about().unwrap().to_string())).unwrap();
        for arg in command.get_arguments() {
            option(&mut text, arg, false);
        }
    }
    text
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
    let help = escape(&default_in_code(&help.split_whitespace().collect::<Vec<_>>().join(" ")));
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

/// A default, which help shows between brackets, as Markdown shows values.
fn default_in_code(help: &str) -> String {
    let Some((before, rest)) = help.split_once("[default: ") else { return help.to_owned() };
    let (default, after) = rest.split_once(']').expect("a bracket is closed");
    // What follows the value says more about it.
    let (value, more) = default.split_at(default.find(", ").unwrap_or(default.len()));
    format!("{before}(default: `{value}`{more}){after}")
}

/// Text that Markdown would take for markup, outside of code.
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
            "{PATH}:{}: write it anew with UPDATE_DOCS=1 cargo test -p rowhouse-tables reference",
            number + 1
        );
    }
    assert!(
        current == written,
        "{PATH} is not current: write it anew with UPDATE_DOCS=1 cargo test -p rowhouse-tables reference"
    );
}
