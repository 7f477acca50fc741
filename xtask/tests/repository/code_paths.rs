//! Checks that the files, folders and items of code that guides and comments name exist.

use super::{files, read, unfenced};
use std::collections::BTreeSet;

/// The guides in which names with `::` are items of this repository rather than of a client library.
const GUIDES: [&str; 2] = ["CONTRIBUTING.md", "docs/ARCHITECTURE.md"];

/// Returns the files of the repository and all their folders.
fn paths() -> BTreeSet<String> {
    let files = files("");
    let folders = files.iter().flat_map(|file| file.match_indices('/').map(|(at, _)| file[..at].to_owned()));
    folders.chain(files.iter().cloned()).collect()
}

/// Returns the code spans outside code blocks.
fn spans(text: &str) -> Vec<&str> {
    unfenced(text).flat_map(|(_, line)| line.split('`').skip(1).step_by(2)).collect()
}

/// Returns true if a span names a file or folder of the repository: a Rust file, or a path that begins with one of the
/// folders at the root.
fn names_path(span: &str, roots: &BTreeSet<&str>) -> bool {
    let is_plain = span.bytes().all(|b| b.is_ascii_alphanumeric() || b"_./-".contains(&b));
    let has_root = || span.split_once('/').is_some_and(|(first, _)| roots.contains(first));
    is_plain && (span.strip_suffix(".rs").is_some_and(|name| !name.is_empty()) || has_root())
}

/// Returns true if a path, which may lack the folders above it, exists.
fn exists(span: &str, paths: &BTreeSet<String>) -> bool {
    let (span, end) = (span.trim_end_matches('/'), format!("/{}", span.trim_end_matches('/')));
    paths.contains(span) || paths.iter().any(|path| path.ends_with(&end))
}

#[test]
fn every_path_in_a_guide_or_comment_exists() {
    let paths = paths();
    let roots: BTreeSet<&str> = paths.iter().filter_map(|path| path.split_once('/')).map(|(root, _)| root).collect();
    let mut missing = Vec::new();
    let mut count = 0;
    let comments = |text: &str| {
        let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("//"));
        lines.map(|line| line.trim_start_matches(['/', '!']).trim_start()).collect::<Vec<_>>().join("\n")
    };
    let guides = files(".md").into_iter().map(|name| (read(&name), name));
    let sources = files(".rs").into_iter().map(|name| (comments(&read(&name)), name));
    for (text, name) in guides.chain(sources) {
        for span in spans(&text).into_iter().filter(|span| names_path(span, &roots)) {
            count += 1;
            if !exists(span, &paths) {
                missing.push(format!("{name}: {span}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(count > 100, "only {count} paths were found");
}

#[test]
fn every_item_in_a_guide_for_contributors_exists() {
    let sources: String = files(".rs").iter().map(|name| read(name)).collect();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let known: BTreeSet<&str> = sources.split(|c| !is_name(c)).collect();
    let mut missing = Vec::new();
    for guide in GUIDES {
        let text = read(guide);
        for span in spans(&text).into_iter().filter(|span| span.contains("::") && !span.contains(' ')) {
            let names = span.split("::").map(|name| name.split(|c| !is_name(c)).next().unwrap_or_default());
            missing.extend(names.filter(|name| !known.contains(name)).map(|name| format!("{guide}: {span}: {name}")));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Returns true if one of the sources, each with its path, defines the last name of `Owner::name` or `module::name` and
/// has the owner or is of the module.
fn is_defined(span: &str, sources: &[(String, String)]) -> bool {
    let mut names = span.rsplit("::");
    let (name, owner) = (names.next().unwrap_or_default(), names.next());
    let is_of = |path: &str, folder: &str| path.split(['/', '.']).any(|part| part == folder);
    let defines = |text: &str| {
        let keywords = ["fn", "const", "static", "struct", "enum", "mod"];
        keywords.iter().any(|keyword| has_word_after(text, keyword, name)) || text.contains(&format!(" {name}: "))
    };
    sources.iter().any(|(path, text)| {
        let has_owner = owner.is_none_or(|owner| {
            let types = ["impl", "for", "struct", "enum"];
            is_of(path, owner) || types.iter().any(|keyword| has_word_after(text, keyword, owner))
        });
        has_owner && (defines(text) || is_of(path, name))
    })
}

/// Returns true if the keyword, and possibly generic parameters, precede the word.
fn has_word_after(text: &str, keyword: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let after = text[at + word.len()..].chars().next();
        let before = text[..at].rsplit('\n').next().unwrap_or_default().trim_end();
        let is_whole = after.is_none_or(|c| !c.is_alphanumeric() && c != '_') && text[..at].ends_with([' ', '>']);
        is_whole && (before.ends_with(keyword) || before.ends_with('>') && before.contains(&format!("{keyword}<")))
    })
}

/// The table says which function decides each point without evidence, so that it can be changed there.
#[test]
fn every_function_that_decides_without_evidence_exists() {
    let page = read("docs/compatibility.md");
    let (_, table) = page.split_once("\n## Not known for sure").unwrap();
    let sources: Vec<_> = files(".rs").into_iter().map(|name| (name.clone(), read(&name))).collect();
    let (mut missing, mut count) = (Vec::new(), 0);
    for line in table.lines().filter(|line| line.starts_with("| ")) {
        let place = line.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap_or_default();
        for span in spans(place) {
            count += 1;
            if !is_defined(span, &sources) {
                missing.push(span.to_owned());
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(count > 100, "only {count} functions were found");
}

#[test]
fn undefined_functions_are_found() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let sources = [
        file("server/src/pages.rs", "impl<'a> Page<'a> {\n    pub(crate) fn has_room(&self) {}\n}\n"),
        file("model/src/limits.rs", "pub const KEY_MAX: usize = 1;\nstruct Form {\n    is_done: bool,\n}\n"),
    ];
    for span in ["has_room", "Page::has_room", "pages::has_room", "limits::KEY_MAX", "Form::is_done", "server::pages"] {
        assert!(is_defined(span, &sources), "{span}");
    }
    for span in ["room", "Page::KEY_MAX", "limits::has_room", "Form::done", "pages::KEY_MAX", "server::limits"] {
        assert!(!is_defined(span, &sources), "{span}");
    }
}

#[test]
fn missing_paths_are_found() {
    let paths: BTreeSet<String> = ["docs", "server/src", "server/src/one.rs"].map(str::to_owned).into();
    let roots = BTreeSet::from(["docs", "server"]);
    for span in ["one.rs", "src/one.rs", "server/src/", "server/src/one.rs"] {
        assert!(names_path(span, &roots) && exists(span, &paths) || span == "src/one.rs", "{span}");
    }
    for span in ["two.rs", "server/two", "ne.rs"] {
        assert!(names_path(span, &roots) && !exists(span, &paths), "{span}");
    }
    for span in ["GET /Tables", "application/json", "other/two", ".rs", "$metadata"] {
        assert!(!names_path(span, &roots), "{span}");
    }
    assert_eq!(spans("a `b` c\n```\n`d`\n```\n`e` `f`"), ["b", "e", "f"]);
}
