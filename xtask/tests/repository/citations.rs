//! Checks citations of the specification (`docs/spec`): every citation in code and documents names an existing
//! section.
//!
//! `docs/spec/README.md` describes their format.

use super::{files, read, unfenced};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The number of steps in the numbered list of each section, by section number. The whole document has an empty number.
type Sections = BTreeMap<Vec<u32>, u32>;

/// The document is identified by two digits. The section is empty if the whole document is cited.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Citation {
    document: u32,
    section: Vec<u32>,
    steps: Vec<u32>,
}

impl fmt::Display for Citation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}", self.document)?;
        if !self.section.is_empty() {
            write!(f, " §{}", dotted(&self.section))?;
        }
        self.steps.iter().try_for_each(|step| write!(f, " step {step}"))
    }
}

fn dotted(section: &[u32]) -> String {
    section.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token<'t> {
    /// `§` and the number of a section, which is empty if none follows.
    Section(Vec<u32>),
    Word(&'t str),
    Other(char),
}

/// Returns the tokens of a text, each with its line number. A word consists of letters, digits and the characters that
/// may occur between digits, so `2014-02-14` and `10.5` are one word each.
fn tokens(text: &str) -> Vec<(usize, Token<'_>)> {
    let (mut found, mut rest, mut line) = (Vec::new(), text, 1);
    while let Some(first) = rest.chars().next() {
        let is_inner = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | ':' | '_' | '%' | '/');
        let length = if first == '§' {
            let after = rest[first.len_utf8()..].trim_start_matches(' ');
            let digits = after.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(after.len());
            let number = after[..digits].trim_end_matches('.');
            let parts = number.split('.').map(str::parse).collect::<Result<_, _>>().unwrap_or_default();
            found.push((line, Token::Section(parts)));
            rest.len() - after.len() + number.len()
        } else if first.is_alphanumeric() {
            let end = rest.find(|c| !is_inner(c)).unwrap_or(rest.len());
            let word = rest[..end].trim_end_matches(|c: char| !c.is_alphanumeric());
            found.push((line, Token::Word(word)));
            word.len()
        } else {
            if !first.is_whitespace() {
                found.push((line, Token::Other(first)));
            }
            line += usize::from(first == '\n');
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    found
}

fn document(word: &str) -> Option<u32> {
    word.parse().ok().filter(|_| word.len() == 2)
}

/// Returns the citations in a text, and what is wrong with the others, each with its line. `home` is the document for
/// sections that do not name one.
///
/// Citations are separated by `,`, `and`, `or`, `to` or a dash. Sections belong to the preceding document.
fn citations(text: &str, home: Option<u32>) -> Vec<(usize, Result<Citation, &'static str>)> {
    let tokens = tokens(text);
    let token = |at: usize| tokens.get(at).map(|(_, token)| token);
    let (mut found, mut current) = (Vec::new(), home);
    for (at, (line, found_token)) in tokens.iter().enumerate() {
        match found_token {
            Token::Word(word) if document(word).is_some() => {
                current = document(word);
                let is_whole = at > 0
                    && matches!(token(at - 1), Some(Token::Word("specification" | "Specification")))
                    && !matches!(token(at + 1), Some(Token::Section(_)));
                if let Some(document) = current.filter(|_| is_whole) {
                    found.push((*line, Ok(Citation { document, section: Vec::new(), steps: Vec::new() })));
                }
            }
            Token::Section(number) if number.is_empty() => found.push((*line, Err("a § without a number"))),
            Token::Section(section) => found.push((
                *line,
                current.ok_or("a section of no document").map(|document| {
                    let steps = steps(&tokens[at + 1..]);
                    Citation { document, section: section.clone(), steps }
                }),
            )),
            Token::Other(',' | '–' | '-') | Token::Word("and" | "or" | "to") => {}
            _ => current = home,
        }
    }
    found
}

/// Reads `step 12` or `steps 1 and 2` after a section, with or without a comma in between.
fn steps(after: &[(usize, Token<'_>)]) -> Vec<u32> {
    let mut words = after.iter().map(|(_, token)| token).skip_while(|token| **token == Token::Other(','));
    if !matches!(words.next(), Some(Token::Word("step" | "steps"))) {
        return Vec::new();
    }
    let words = words.filter(|token| !matches!(token, Token::Word("and" | "to")));
    let number = |token: &Token<'_>| match token {
        Token::Word(word) => word.parse().ok(),
        _ => None,
    };
    words.map_while(number).collect()
}

/// Removes comment markers from the beginnings of lines, so that citations may be wrapped.
fn prose(name: &str, text: &str) -> String {
    if has_ending(name, "md") {
        return text.to_owned();
    }
    let leaders = ["//!", "///", "//", "#", "/*", "*"];
    let bare = |line: &str| {
        let line = line.trim_start();
        leaders.iter().find_map(|leader| line.strip_prefix(leader)).unwrap_or(line).to_owned()
    };
    text.lines().map(bare).collect::<Vec<_>>().join("\n")
}

fn has_ending(name: &str, ending: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == ending)
}

/// Reads the headings of a specification document: `# 06 — Title`, `## 6. Title`, `### 5.1 Title`.
fn sections(number: u32, document: &str) -> Sections {
    let (mut found, mut current) = (Sections::from([(Vec::new(), 0)]), Vec::new());
    for (_, line) in unfenced(document) {
        let level = line.bytes().take_while(|b| *b == b'#').count();
        let title = line.get(level..).unwrap_or_default();
        if level == 0 {
            let item = line.split_once(". ").and_then(|(number, _)| number.parse::<u32>().ok());
            if let (Some(step), Some(count)) = (item, found.get_mut(&current)) {
                assert_eq!(step, *count + 1, "{number:02} §{}: {line}", dotted(&current));
                *count = step;
            }
            continue;
        }
        if level == 1 {
            assert!(current.is_empty() && title.starts_with(&format!(" {number:02} — ")), "{number:02}: {line}");
            continue;
        }
        let word = title.trim_start().split(' ').next().unwrap_or_default();
        let text = if level == 2 { word.strip_suffix('.') } else { Some(word) };
        let parts: Option<Vec<u32>> = text.and_then(|text| text.split('.').map(|part| part.parse().ok()).collect());
        let parts = parts.unwrap_or_else(|| panic!("{number:02}: a heading without the number of its section: {line}"));
        let next = match level {
            2 => vec![current.first().map_or(1, |last| last + 1)],
            _ => vec![current[0], current.get(1).map_or(1, |last| last + 1)],
        };
        assert_eq!(parts, next, "{number:02}: {line}");
        found.insert(parts.clone(), 0);
        current = parts;
    }
    found
}

/// Returns the names of the files that may cite the specification, with their texts.
fn citing_files() -> Vec<(String, String)> {
    let endings = ["rs", "py", "js", "mjs", "sh", "toml", "md"];
    let is_read = |name: &String| endings.iter().any(|ending| has_ending(name, ending));
    // The cases in this file are not citations.
    let names = files("").into_iter().filter(is_read).filter(|name| name != file!());
    names.map(|name| (name.clone(), read(&name))).collect()
}

fn number_of(name: &str) -> Option<u32> {
    name.strip_prefix("docs/spec/")?.split_once('-')?.0.parse().ok()
}

fn fault(citation: &Citation, documents: &BTreeMap<u32, Sections>) -> Option<&'static str> {
    let Some(sections) = documents.get(&citation.document) else { return Some("there is no such document") };
    let Some(steps) = sections.get(&citation.section) else { return Some("there is no such section") };
    let is_step = |step: &u32| (1..=*steps).contains(step);
    (!citation.steps.iter().all(is_step)).then_some("there is no such step")
}

#[test]
fn every_citation_names_a_section_that_exists() {
    let files = citing_files();
    let documents: BTreeMap<u32, Sections> = files
        .iter()
        .filter_map(|(name, text)| number_of(name).map(|number| (number, sections(number, text))))
        .collect();
    assert_eq!(documents.keys().copied().collect::<Vec<_>>(), (1..=11).collect::<Vec<_>>());
    let (mut wrong, mut in_specification, mut elsewhere) = (Vec::new(), 0, 0);
    for (name, text) in &files {
        let home = number_of(name);
        for (line, citation) in citations(&prose(name, text), home) {
            *(if home.is_some() { &mut in_specification } else { &mut elsewhere }) += 1;
            let why = match &citation {
                Ok(citation) => fault(citation, &documents).map(|why| format!("{citation}: {why}")),
                Err(why) => Some((*why).to_owned()),
            };
            wrong.extend(why.map(|why| format!("{name}:{line}: {why}")));
        }
    }
    assert!(wrong.is_empty(), "wrong citations:\n{}", wrong.join("\n"));
    assert!(elsewhere > 350, "only {elsewhere} citations were found in code and documents");
    assert!(in_specification > 60, "only {in_specification} citations were found in the specification");
}

fn shown(text: &str, home: Option<u32>) -> Vec<String> {
    let found = citations(text, home).into_iter();
    found.map(|(_, citation)| citation.map_or_else(str::to_owned, |citation| citation.to_string())).collect()
}

#[test]
fn citations_are_read() {
    for (text, expected) in [
        ("(08 §9)", vec!["08 §9"]),
        ("05 §5.1: no index", vec!["05 §5.1"]),
        ("(specification 02 §5.7)", vec!["02 §5.7"]),
        ("specification 02 §5.2 to §5.5", vec!["02 §5.2", "02 §5.5"]),
        ("01 §3–§6, 02 §5, 06 §2 and §4.", vec!["01 §3", "01 §6", "02 §5", "06 §2", "06 §4"]),
        ("02 §4.3, §5.1", vec!["02 §4.3", "02 §5.1"]),
        ("(specification 07)", vec!["07"]),
        ("Specification 11 says", vec!["11"]),
        ("(specification 03 §6 and 06).", vec!["03 §6"]),
        ("header (07, 02 §7, 06 §3)", vec!["02 §7", "06 §3"]),
        ("(08 §10, which goes before 02 §7: no", vec!["08 §10", "02 §7"]),
        ("that of 06 §6, step 12: the size", vec!["06 §6 step 12"]),
        ("(09 §6, steps 1 and 2)", vec!["09 §6 step 1 step 2"]),
        ("(09 §6 step 5).", vec!["09 §6 step 5"]),
        ("a wrapped one (specification 10\n §4, §5)", vec!["10 §4", "10 §5"]),
        ("(07 §7, form c)", vec!["07 §7"]),
        ("see §4", vec!["a section of no document"]),
        ("06 § and 06 §x", vec!["a § without a number", "a § without a number"]),
        ("version 2014-02-14, 10 items (64), at(12, 20), 09:30, 03.5", vec![]),
    ] {
        assert_eq!(shown(text, None), expected, "{text}");
    }
    assert_eq!(shown("see §4 and 06 §2, §3.", Some(4)), ["04 §4", "06 §2", "06 §3"]);
}

#[test]
fn wrong_citations_are_found() {
    let text =
        "# 06 — Errors\n\n## 1. One\n\n1. first\n2. second\n\n### 1.1 Sub\n\n```\n## 7. code\n```\n\n## 2. Two\n";
    let documents = BTreeMap::from([(6, sections(6, text))]);
    for (text, expected) in [
        ("06 §1", None),
        ("06 §1.1", None),
        ("06 §1, steps 1 and 2", None),
        ("specification 06", None),
        ("06 §3", Some("there is no such section")),
        ("06 §7", Some("there is no such section")),
        ("06 §1.2", Some("there is no such section")),
        ("06 §2.1", Some("there is no such section")),
        ("06 §1, step 3", Some("there is no such step")),
        ("06 §1, step 0", Some("there is no such step")),
        ("05 §1", Some("there is no such document")),
        ("specification 05", Some("there is no such document")),
    ] {
        let [(_, Ok(citation))] = &citations(text, None)[..] else { panic!("{text}") };
        assert_eq!(fault(citation, &documents), expected, "{text}");
    }
}

#[test]
fn comments_are_joined() {
    let text = "    /// The order (specification\n    /// 06 §6) of\n//! checks (10\n//! §4).\nfn f() {} // 01 §2\n";
    assert_eq!(shown(&prose("a.rs", text), None), ["06 §6", "10 §4", "01 §2"]);
    assert_eq!(shown(&prose("a.py", "# (01 §3,\n#  §4)\n"), None), ["01 §3", "01 §4"]);
}
