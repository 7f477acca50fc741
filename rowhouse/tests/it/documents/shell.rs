//! Splits command lines in documents and scripts as a shell does.

#[derive(Debug, PartialEq)]
pub(super) struct Invocation {
    pub(super) words: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) is_container: bool,
}

/// Returns the commands in a script that run this program, including commands that run it in a container.
pub(super) fn invocations(script: &str) -> Vec<Invocation> {
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
