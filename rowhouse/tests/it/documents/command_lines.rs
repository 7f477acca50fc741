//! Checks the command lines and the names of variables in every document.

use super::{commands, files, image, parse, read, variables};

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
            for found in invocations(&text) {
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
        for found in invocations(&lines.join("\n")) {
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

#[derive(Debug, PartialEq)]
pub(crate) struct Invocation {
    pub(crate) words: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) is_container: bool,
}

/// Returns the commands in a script that run this program, including commands that run it in a container.
pub(crate) fn invocations(script: &str) -> Vec<Invocation> {
    simple_commands(script).iter().filter_map(|words| invocation(words)).collect()
}

fn invocation(words: &[String]) -> Option<Invocation> {
    let is_assignment = |word: &&String| {
        word.split_once('=')
            .is_some_and(|(name, _)| !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
    };
    let pair = |word: &String| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let assignments = words.iter().take_while(is_assignment).count();
    let mut environment: Vec<_> = words[..assignments].iter().filter_map(pair).collect();
    let mut rest: Vec<_> = words[assignments..].iter().filter(|word| *word != "…").cloned().collect();
    while rest.first().is_some_and(|word| ["sudo", "exec", "$"].contains(&word.as_str())) {
        rest.remove(0);
    }
    let program = rest.first()?.clone();
    let starts = |line: &[&str]| line.iter().zip(&rest).filter(|(a, b)| a == b).count() == line.len();
    let mut is_container = false;
    let arguments = if program.rsplit('/').next() == Some("rowhouse") || program == "\"$binary\"" {
        1
    } else if starts(&["cargo", "run"]) {
        let separator = rest.iter().position(|word| word == "--")?;
        if rest[..separator].iter().any(|word| word == "--example") {
            return None;
        }
        1 + separator
    } else if starts(&["kubectl", "exec"]) {
        let program = 1 + rest.iter().position(|word| word == "--")?;
        rest.get(program).filter(|word| *word == "/usr/bin/rowhouse")?;
        program + 1
    } else if starts(&["docker", "run"]) {
        let image = rest.iter().position(|word| word == "rowhouse" || word.starts_with("rowhouse:"))?;
        environment.extend(rest[..image].windows(2).filter(|two| two[0] == "-e").filter_map(|two| pair(&two[1])));
        is_container = true;
        if rest.len() == image + 1 {
            // The image's own command.
            rest.push("serve".to_owned());
        }
        image + 1
    } else {
        return None;
    };
    Some(Invocation { words: rest[arguments..].to_vec(), environment, is_container })
}

/// Returns the simple commands of a script, each as its words. Redirections end a command; substitutions begin one.
fn simple_commands(script: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let mut chars = script.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&'\n') => {
                chars.next();
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            '\'' => word.get_or_insert_default().extend(chars.by_ref().take_while(|c| *c != '\'')),
            '"' => word.get_or_insert_default().extend(chars.by_ref().take_while(|c| *c != '"')),
            '#' if word.is_none() => {
                while chars.peek().is_some_and(|c| *c != '\n') {
                    chars.next();
                }
            }
            ' ' | '\t' => words.extend(word.take()),
            '\n' | '|' | '>' | '<' | ';' | '&' | '(' | ')' => {
                words.extend(word.take());
                commands.push(std::mem::take(&mut words));
                // The next word is a file name.
                if matches!(c, '<' | '>') && chars.peek() != Some(&'(') {
                    words.push("redirection".to_owned());
                }
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    commands.push(words);
    commands.retain(|words: &Vec<String>| !words.is_empty());
    commands
}

#[test]
fn commands_are_found_as_a_shell_sees_them() {
    let script = "# a remark\nA_B='x y' sudo /usr/bin/rowhouse serve --data \"a b\" \\\n  --in-memory | cat\n\
                  docker run -e C=1 -p 1:2 rowhouse:latest health > /tmp/rowhouse\nsource <(rowhouse completions bash); ls\n\
                  cargo run --release -- serve # so\ncargo run --example patterns -- blog\n";
    let seen: Vec<_> =
        invocations(script).into_iter().map(|found| (found.words.join(","), found.environment)).collect();
    let pair = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let words = |text: &str, environment| (text.to_owned(), environment);
    assert_eq!(
        seen,
        [
            words("serve,--data,a b,--in-memory", pair("A_B", "x y")),
            words("health", pair("C", "1")),
            words("completions,bash", vec![]),
            words("serve", vec![]),
        ]
    );
}
