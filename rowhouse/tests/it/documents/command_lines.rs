//! Checks the command lines and the names of variables in every document.

use super::{commands, files, image, parse, read, shell, variables};

/// Returns the fenced blocks of a document, each with its language, the number of its first line, and its text.
pub(crate) fn blocks(document: &str) -> Vec<(String, usize, String)> {
    let (mut found, mut open) = (Vec::new(), None::<(String, usize, String)>);
    for (number, line) in document.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(language), None) => open = Some((language.trim().to_owned(), number + 1, String::new())),
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some((_, _, text))) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fenced block is not closed");
    found
}

fn names<'a>(text: &'a str, beginning: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(beginning).map(move |(at, _)| {
        let rest = &text[at..];
        let end = rest.find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
        &rest[..end.unwrap_or(rest.len())]
    })
}

#[test]
fn every_command_line_in_a_document_is_one_that_the_program_takes() {
    let mut checked = 0;
    for name in files(".md") {
        for (language, line, text) in blocks(&read(&name)) {
            // A note for tests may follow.
            if !language.split(' ').next().is_some_and(|language| ["sh", "bash", "console"].contains(&language)) {
                continue;
            }
            for found in shell::invocations(&text) {
                checked += 1;
                let taken = if found.is_container {
                    image::container(&found.words, &found.environment)
                } else {
                    parse(&found.words, &found.environment).map(|_| ())
                };
                if let Err(error) = taken {
                    panic!("{name}:{line}: rowhouse {}\n{error}", found.words.join(" "));
                }
            }
        }
    }
    assert!(checked > 20, "only {checked} command lines were found");
}

#[test]
fn every_example_in_the_help_is_one_that_the_program_takes() {
    for (words, command) in commands() {
        let Some(text) = command.get_after_long_help() else { continue };
        let text = text.to_string();
        // Remarks are indented further than commands.
        let lines = text.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let lines: Vec<_> = lines.filter(|line| line.contains("rowhouse ")).collect();
        for found in shell::invocations(&lines.join("\n")) {
            if let Err(error) = parse(&found.words, &found.environment) {
                panic!("{words} --help: rowhouse {}\n{error}", found.words.join(" "));
            }
        }
    }
}

#[test]
fn every_variable_that_is_named_anywhere_is_one_that_the_program_reads() {
    // Variables of the suites and the build, and a common prefix.
    let others = [
        "ROWHOUSE_",
        "ROWHOUSE_BINARY",
        "ROWHOUSE_CRASH_ROUNDS",
        "ROWHOUSE_HISTORY_OPERATIONS",
        "ROWHOUSE_HISTORY_ROUNDS",
        "ROWHOUSE_LARGE_MODEL",
        "ROWHOUSE_LOG_SEED",
        "ROWHOUSE_REVISION",
        "ROWHOUSE_SCHEDULES",
        "ROWHOUSE_SOAK_SECONDS",
    ];
    let known = variables();
    let mut seen = 0;
    for ending in [".md", ".yaml", ".service", ".conf", ".sh", "Dockerfile", ".toml"] {
        for file in files(ending) {
            // In the generated reference, an underscore may be escaped.
            for name in names(&read(&file).replace("\\_", "_"), "ROWHOUSE_") {
                assert!(known.contains(name) || others.contains(&name), "{file} mentions {name}, which nothing reads");
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "only {seen} names were found");
}

/// Options of other programs that the documents mention.
const FOREIGN_OPTIONS: [&str; 6] =
    ["--ignore-scripts", "--no-install", "--omit", "--profile", "--rowhouse-options", "--skipApiVersionCheck"];

#[test]
fn every_option_that_a_document_speaks_of_is_there() {
    let known: Vec<_> = commands()
        .into_iter()
        .flat_map(|(_, command)| {
            command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect::<Vec<_>>()
        })
        .collect();
    let mut count = 0;
    let is_about_the_program = |name: &String| name == "README.md" || name.starts_with("docs/");
    // The load generator, and the script that compares programs with it, have their own options.
    let is_about_measuring = |name: &String| {
        ["docs/benchmarks.md", "docs/comparison.md"].contains(&name.as_str()) || name.starts_with("docs/lab/")
    };
    for name in files(".md").into_iter().filter(|name| is_about_the_program(name) && !is_about_measuring(name)) {
        for line in read(&name).lines() {
            let spans = line.split('`').skip(1).step_by(2).filter_map(|span| span.strip_prefix("--"));
            for option in
                spans.map(|span| span.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).next().unwrap())
            {
                let is_foreign = FOREIGN_OPTIONS.iter().any(|foreign| foreign.strip_prefix("--") == Some(option));
                assert!(
                    is_foreign || known.iter().any(|known| known == option),
                    "{name} mentions --{option}, which does not exist: {line}"
                );
                count += 1;
            }
        }
    }
    assert!(count > 100, "only {count} options were found");
}
