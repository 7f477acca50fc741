//! Checks citations of the specification (`docs/spec`): every citation in code and documents names an existing
//! section.
//!
//! `docs/spec/README.md` describes their format.

use super::{files, read};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The number of steps in the numbered list of each section, by section number.
type Sections = BTreeMap<Vec<u32>, u32>;

/// The document is identified by two digits.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Citation {
    document: u32,
    section: Option<Vec<u32>>,
    steps: Vec<u32>,
}

impl fmt::Display for Citation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}", self.document)?;
        if let Some(section) = &self.section {
            write!(f, " §{}", dotted(section))?;
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

fn document(token: Option<&Token<'_>>) -> Option<u32> {
    let Some(Token::Word(word)) = token else { return None };
    (word.len() == 2 && word.bytes().all(|b| b.is_ascii_digit())).then(|| word.parse().unwrap())
}

/// Returns true if a number without the word "specification" may identify a document. Other numbers in parentheses can
/// mean anything.
fn could_be_document(token: Option<&Token<'_>>) -> bool {
    document(token).is_some_and(|number| number <= 10)
}

struct Reader<'t> {
    tokens: Vec<(usize, Token<'t>)>,
    at: usize,
    found: Vec<(usize, Citation)>,
    faults: Vec<(usize, &'static str)>,
}

impl<'t> Reader<'t> {
    /// `home` is the document for sections that do not name one.
    fn read(text: &'t str, home: Option<u32>) -> Self {
        let mut reader = Self { tokens: tokens(text), at: 0, found: Vec::new(), faults: Vec::new() };
        while reader.at < reader.tokens.len() {
            let starts_list = match reader.peek(0) {
                Some(Token::Section(_)) => true,
                _ if document(reader.peek(0)).is_none() => false,
                _ if matches!(reader.peek(1), Some(Token::Section(_))) => true,
                _ => reader.is_named_or_alone(),
            };
            if starts_list { reader.list(home) } else { reader.at += 1 }
        }
        reader
    }

    fn peek(&self, ahead: usize) -> Option<&Token<'t>> {
        self.tokens.get(self.at + ahead).map(|(_, token)| token)
    }

    fn back(&self, by: usize) -> Option<&Token<'t>> {
        self.tokens.get(self.at.checked_sub(by)?).map(|(_, token)| token)
    }

    /// Returns true if the number at this position stands for a whole document: `specification 07`, `UNVERIFIED (10)`,
    /// `(10)`, `(07, …`.
    fn is_named_or_alone(&self) -> bool {
        let is = |token: Option<&Token<'_>>, expected: &str| matches!(token, Some(Token::Word(word)) if word.eq_ignore_ascii_case(expected));
        if is(self.back(1), "specification") || (is(self.back(2), "UNVERIFIED") && self.is_bracketed()) {
            return true;
        }
        could_be_document(self.peek(0)) && self.is_bracketed()
    }

    fn is_bracketed(&self) -> bool {
        self.back(1) == Some(&Token::Other('(')) && matches!(self.peek(1), Some(Token::Other(')' | ',')))
    }

    /// Citations are separated by `,`, `and`, `or`, `to` or a dash. Sections belong to the preceding document.
    fn list(&mut self, home: Option<u32>) {
        let mut current = home;
        loop {
            let line = self.tokens[self.at].0;
            if let Some(named) = document(self.peek(0)) {
                current = Some(named);
                self.at += 1;
            }
            let section = match self.peek(0) {
                Some(Token::Section(number)) => Some(number.clone()),
                _ => None,
            };
            self.at += usize::from(section.is_some());
            match (current, &section) {
                (_, Some(number)) if number.is_empty() => self.faults.push((line, "a § without a number")),
                (None, _) => self.faults.push((line, "a section of no document")),
                (Some(document), _) => {
                    let steps = self.steps();
                    self.found.push((line, Citation { document, section, steps }));
                }
            }
            let separators = match (self.peek(0), self.peek(1)) {
                (Some(Token::Other(',')), Some(Token::Word("and"))) => 2,
                (Some(Token::Other(',' | '–' | '-') | Token::Word("and" | "or" | "to")), _) => 1,
                _ => return,
            };
            let next_is_whole = could_be_document(self.peek(separators))
                && matches!(self.peek(separators + 1), Some(Token::Other(')' | ',' | '.')));
            let next_has_section = matches!(self.peek(separators), Some(Token::Section(_)))
                || (document(self.peek(separators)).is_some()
                    && matches!(self.peek(separators + 1), Some(Token::Section(_))));
            if !(next_is_whole || next_has_section) {
                return;
            }
            self.at += separators;
        }
    }

    /// Reads `step 12` or `steps 1 and 2` after a section, with or without a comma in between.
    fn steps(&mut self) -> Vec<u32> {
        let start = usize::from(self.peek(0) == Some(&Token::Other(',')));
        if !matches!(self.peek(start), Some(Token::Word("step" | "steps"))) {
            return Vec::new();
        }
        let number = |token: Option<&Token<'_>>| match token {
            Some(Token::Word(word)) => word.parse().ok(),
            _ => None,
        };
        let mut steps = Vec::new();
        let mut next = start + 1;
        while let Some(step) = number(self.peek(next)) {
            steps.push(step);
            self.at += next + 1;
            next = usize::from(matches!(self.peek(0), Some(Token::Word("and" | "to"))));
        }
        steps
    }
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

fn unfenced(document: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    document.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !(is_code || is_fence)
    })
}

/// Reads the headings of a specification document: `# 06 — Title`, `## 6. Title`, `### 5.1 Title`.
fn sections(number: u32, document: &str) -> Sections {
    let (mut found, mut current) = (Sections::new(), Vec::new());
    for line in unfenced(document) {
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
    let Some(section) = &citation.section else { return None };
    let Some(steps) = sections.get(section) else { return Some("there is no such section") };
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
    assert_eq!(documents.keys().copied().collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
    let (mut wrong, mut in_specification, mut elsewhere) = (Vec::new(), 0, 0);
    for (name, text) in &files {
        let home = number_of(name);
        let text = prose(name, text);
        let reader = Reader::read(&text, home);
        *(if home.is_some() { &mut in_specification } else { &mut elsewhere }) +=
            reader.found.iter().filter(|(_, citation)| citation.section.is_some()).count();
        wrong.extend(reader.faults.iter().map(|(line, why)| format!("{name}:{line}: {why}")));
        for (line, citation) in &reader.found {
            wrong.extend(fault(citation, &documents).map(|why| format!("{name}:{line}: {citation}: {why}")));
        }
    }
    assert!(wrong.is_empty(), "wrong citations:\n{}", wrong.join("\n"));
    assert!(elsewhere > 350, "only {elsewhere} citations were found in code and documents");
    assert!(in_specification > 60, "only {in_specification} citations were found in the specification");
}

fn shown(text: &str, home: Option<u32>) -> Vec<String> {
    let reader = Reader::read(text, home);
    let found = reader.found.iter().map(|(_, citation)| citation.to_string());
    found.chain(reader.faults.iter().map(|(_, why)| (*why).to_owned())).collect()
}

#[test]
fn citations_are_read() {
    for (text, expected) in [
        ("The order of 06 §6.", vec!["06 §6"]),
        ("(08 §9)", vec!["08 §9"]),
        ("05 §5.1: no index", vec!["05 §5.1"]),
        ("(specification 02 §5.7)", vec!["02 §5.7"]),
        ("specification 02 §5.2 to §5.5", vec!["02 §5.2", "02 §5.5"]),
        ("01 §3–§6, 02 §5, 06 §2 and §4.", vec!["01 §3", "01 §6", "02 §5", "06 §2", "06 §4"]),
        ("02 §4.3, §5.1", vec!["02 §4.3", "02 §5.1"]),
        ("(02 §7, §8)", vec!["02 §7", "02 §8"]),
        ("UNVERIFIED (10): the code", vec!["10"]),
        ("UNVERIFIED (12): the code", vec!["12"]),
        ("an XML body: 1 MiB (10).", vec!["10"]),
        ("token invalid (08).", vec!["08"]),
        ("(specification 07)", vec!["07"]),
        ("Specification 11 says", vec!["11"]),
        ("(specification 03 §6 and 06).", vec!["03 §6", "06"]),
        ("header (07, 02 §7, 06 §3)", vec!["07", "02 §7", "06 §3"]),
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
        let [(_, citation)] = Reader::read(text, None).found.try_into().unwrap();
        assert_eq!(fault(&citation, &documents), expected, "{text}");
    }
}

#[test]
fn comments_are_joined() {
    let text = "    /// The order (specification\n    /// 06 §6) of\n//! checks (10\n//! §4).\nfn f() {} // 01 §2\n";
    assert_eq!(shown(&prose("a.rs", text), None), ["06 §6", "10 §4", "01 §2"]);
    assert_eq!(shown(&prose("a.py", "# (01 §3,\n#  §4)\n"), None), ["01 §3", "01 §4"]);
}
