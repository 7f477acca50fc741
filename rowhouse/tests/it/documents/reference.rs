//! Generates `docs/configuration.md` from the options. To update it, run `UPDATE_DOCS=1 cargo test -p rowhouse-tables
//! reference`.

use super::{commands, read, root};
use clap::builder::StyledStr;
use clap::{Arg, Command};
use std::fmt::Write;

const PATH: &str = "docs/configuration.md";

const INTRODUCTION: &str = "\
# Configuration

<!-- Written by a test from the options of the program: UPDATE_DOCS=1 cargo test -p rowhouse-tables reference -->

You can set an option of `rowhouse serve` in three ways, listed in order of precedence. The name of the variable follows from the name of
the option:

1. on the command line: `--cache-mib 512`
2. in the environment: `ROWHOUSE_CACHE_MIB=512`
3. in the TOML file that `--config` names: `cache-mib = 512`

Switches also accept a value, so you can turn off on the command line what the environment or the file turns on:
`--in-memory=false`, `ROWHOUSE_IN_MEMORY=false`, `in-memory = false`. If the file contains an unknown name, or if a value
is invalid, the server reports it and does not start.

`rowhouse serve -h` shows one line for each option, and `rowhouse serve --help` everything, in the same groups. [The index](#index) lists
the options by name, with their variables and defaults.

";

/// The heading of the options without a group.
const FIRST: &str = "Options that matter first";

/// The groups of options, each with the pages that explain more.
const PAGES: [(&str, &str); 11] = [
    (FIRST, "docs/installing.md, docs/security.md"),
    ("Data folder", "docs/embedded-engine.md, docs/backup.md"),
    ("Database", "docs/scaling.md"),
    ("Change feed and standbys", "docs/change-feed.md, docs/standby.md"),
    ("Network", "docs/installing.md"),
    ("Security", "docs/security.md"),
    ("Limits", "docs/security.md"),
    ("Quotas and throttling", "docs/throttling.md"),
    ("Features", "docs/explorer.md, docs/extensions.md, docs/analytics.md"),
    ("Observability", "docs/observability.md"),
    ("Tests", "docs/testing-with-rowhouse.md, docs/test-controls.md, docs/rehearsing.md"),
];

/// The name of the command whose options have sections.
const SERVE: &str = "rowhouse serve";

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
    let all = commands();
    let (_, serve) = all.iter().find(|(words, _)| words == SERVE).unwrap();
    let group = |arg: &Arg| arg.get_help_heading().unwrap_or(FIRST).to_owned();
    let mut groups: Vec<(String, Vec<&Arg>)> = Vec::new();
    for arg in serve.get_arguments() {
        match groups.iter_mut().find(|(heading, _)| *heading == group(arg)) {
            Some((_, args)) => args.push(arg),
            None => groups.push((group(arg), vec![arg])),
        }
    }
    let mut overview = "| group | options | more |\n|---|---|---|\n".to_owned();
    let mut sections = String::new();
    for ((heading, args), (expected, pages)) in groups.iter().zip(PAGES) {
        assert_eq!(heading, expected, "the groups of options differ from PAGES");
        let names: Vec<_> = args.iter().map(|arg| format!("`{}`", name(arg))).collect();
        writeln!(overview, "| {} | {} | {} |", link(heading, heading), names.join(", "), linked(pages)).unwrap();
        write!(sections, "\n## {heading}\n").unwrap();
        for arg in args {
            server_option(&mut sections, arg);
        }
    }
    assert_eq!(groups.len(), PAGES.len(), "the groups of options differ from PAGES");
    let names = all.iter().filter(|(words, _)| words.matches(' ').count() == 1 && words != SERVE);
    let links: Vec<_> = names.map(|(words, _)| link(&format!("`{}`", &words["rowhouse ".len()..]), words)).collect();
    writeln!(overview, "| {} | {} | |", link("Other commands", "Other commands"), links.join(", ")).unwrap();
    format!("{INTRODUCTION}{overview}{sections}{VARIABLES_SECTION}{}{}", other_commands(&all), index(serve))
}

/// The maximum length of the description of an option that each command repeats, in bytes.
const REPEATED_LENGTH_MAX: usize = 80;

/// Describes the options of the other commands, each only once if that takes space.
fn other_commands(all: &[(String, Command)]) -> String {
    let mut text = "\n## Other commands\n\n".to_owned();
    text.push_str(
        "`rowhouse COMMAND --help` shows examples; `rowhouse man COMMAND` prints the manual page of a command.\n",
    );
    // What was described, and for which command.
    let mut described: Vec<(String, &str)> = Vec::new();
    for (words, command) in all.iter().filter(|(words, _)| words != "rowhouse") {
        let mut options = String::new();
        let mut repeated: Vec<(&str, Vec<String>)> = Vec::new();
        for arg in command.get_arguments() {
            let description = description(arg);
            let known = described.iter().find(|(known, _)| *known == description);
            let known = known.filter(|(known, source)| *source == SERVE || known.len() > REPEATED_LENGTH_MAX);
            let Some((_, source)) = known else {
                writeln!(options, "- {description}").unwrap();
                described.push((description, words.as_str()));
                continue;
            };
            match repeated.iter_mut().find(|(known, _)| known == source) {
                Some((_, names)) => names.push(name(arg)),
                None => repeated.push((*source, vec![name(arg)])),
            }
        }
        // The options of the server have their own sections.
        if words == SERVE {
            continue;
        }
        write!(text, "\n### {words}\n\n{}.\n", escape(&command.get_about().unwrap().to_string())).unwrap();
        for (source, names) in repeated {
            if source == SERVE && names.len() > 10 {
                writeln!(options, "- {}", link("all options of the server", FIRST)).unwrap();
            } else {
                let target =
                    if source == SERVE { link("the server", FIRST) } else { link(&format!("`{source}`"), source) };
                writeln!(options, "- `{}`: as for {target}", names.join("`, `")).unwrap();
            }
        }
        if !options.is_empty() {
            write!(text, "\n{options}").unwrap();
        }
    }
    text
}

/// Returns a table of the server's options by name.
fn index(serve: &Command) -> String {
    let mut args: Vec<_> = serve.get_arguments().collect();
    args.sort_by_key(|arg| arg.get_long());
    let mut text = "\n## Index\n\n| option | variable | default |\n|---|---|---|\n".to_owned();
    for arg in args {
        let variable = arg.get_env().unwrap().display();
        let help = arg.get_help().unwrap().to_string();
        let default = help.split_once("[default: ").and_then(|(_, rest)| rest.split_once(']'));
        let default = default.map(|(value, _)| format!("`{}`", value.split(", ").next().unwrap())).unwrap_or_default();
        writeln!(text, "| {} | `{variable}` | {default} |", option_link(arg)).unwrap();
    }
    text
}

/// Returns a link to a section of the page.
fn link(text: &str, title: &str) -> String {
    let kept = title.to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>();
    format!("[{text}](#{})", kept.replace(' ', "-"))
}

fn option_link(arg: &Arg) -> String {
    link(&format!("`{}`", name(arg)), &name_and_value(arg))
}

fn name(arg: &Arg) -> String {
    arg.get_long().map_or_else(|| name_and_value(arg), |long| format!("--{long}"))
}

/// Returns the name of an option with its value, such as `--data DIR`.
fn name_and_value(arg: &Arg) -> String {
    let values =
        arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let Some(long) = arg.get_long() else { return values };
    if !arg.get_action().takes_values() {
        return format!("--{long}");
    }
    let is_optional = arg.get_num_args().is_some_and(|count| count.min_values() == 0);
    if is_optional { format!("--{long}[={values}]") } else { format!("--{long} {values}") }
}

fn server_option(text: &mut String, arg: &Arg) {
    write!(text, "\n### `{}`\n\n{}.\n", name_and_value(arg), help(arg)).unwrap();
    let values = values(arg);
    if !values.is_empty() {
        text.push('\n');
    }
    for (value, meaning) in values {
        writeln!(text, "- `{value}`: {meaning}").unwrap();
    }
}

/// Describes an option of another command in one paragraph.
fn description(arg: &Arg) -> String {
    let mut text = format!("`{}`", name_and_value(arg));
    if let Some(variable) = arg.get_env() {
        write!(text, " (`{}`)", variable.display()).unwrap();
    }
    write!(text, ": {}", help(arg)).unwrap();
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| format!("`{}`", value.display())).collect();
    if !defaults.is_empty() && arg.get_action().takes_values() && !text.contains("(default: ") {
        write!(text, " (default: {})", defaults.join(", ")).unwrap();
    }
    let values = values(arg).into_iter().map(|(value, meaning)| match meaning.as_str() {
        "" => format!("`{value}`"),
        meaning => format!("`{value}` ({meaning})"),
    });
    let values: Vec<_> = values.collect();
    if !values.is_empty() {
        write!(text, ": {}", values.join(", ")).unwrap();
    }
    text
}

/// Returns the possible values of an option that is no switch, each with its meaning.
fn values(arg: &Arg) -> Vec<(String, String)> {
    if !arg.get_action().takes_values() || arg.get_num_args().is_some_and(|count| count.min_values() == 0) {
        return Vec::new();
    }
    let values = arg.get_possible_values().into_iter().filter(|value| !value.is_hide_set());
    let meaning = |help: Option<&StyledStr>| help.map(|help| escape(&help.to_string())).unwrap_or_default();
    values.map(|value| (value.get_name().to_owned(), meaning(value.get_help()))).collect()
}

fn help(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).unwrap().to_string();
    linked(&escape(&default_in_code(&in_one_paragraph(&help))))
}

/// Turns the names of pages, such as `docs/standby.md`, into links.
fn linked(text: &str) -> String {
    let mut pieces = text.split("docs/");
    let mut linked = pieces.next().unwrap().to_owned();
    for piece in pieces {
        let (page, rest) = piece.split_once(".md").expect("the name of a page");
        let content = read(&format!("docs/{page}.md"));
        let title = content.lines().next().and_then(|line| line.strip_prefix("# ")).expect("a title");
        write!(linked, "[{title}]({page}.md){rest}").unwrap();
    }
    linked
}

/// Joins the paragraphs of a help text. The first one, the summary, has no final period.
fn in_one_paragraph(help: &str) -> String {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let paragraphs: Vec<_> = help.split("\n\n").map(|text| words(text.trim_end_matches('.'))).collect();
    paragraphs.join(". ")
}

/// Formats default values, which help shows in brackets, as Markdown code.
fn default_in_code(help: &str) -> String {
    let mut pieces = help.split("[default: ");
    let mut text = pieces.next().unwrap().to_owned();
    for piece in pieces {
        let (default, after) = piece.split_once(']').expect("the bracket is closed");
        // Text after the value describes it further.
        let (value, more) = default.split_at(default.find(", ").unwrap_or(default.len()));
        write!(text, "(default: `{value}`{more}){after}").unwrap();
    }
    text
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
