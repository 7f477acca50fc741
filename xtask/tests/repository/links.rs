//! Checks links in documents: every file and heading that a link points to exists.

use super::{files, read, root, unfenced};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn anchors(document: &str) -> Vec<String> {
    let (mut seen, mut found) = (BTreeMap::new(), Vec::new());
    let titles =
        unfenced(document).filter_map(|(_, line)| line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' '));
    for title in titles {
        let kept = title.trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let count = seen.entry(slug.clone()).and_modify(|count| *count += 1).or_insert(0);
        found.push(if *count == 0 { slug } else { format!("{slug}-{count}") });
    }
    found
}

fn targets(document: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (_, line) in unfenced(document) {
        // Every second piece is between backticks and therefore code.
        let text: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
        for (at, _) in text.match_indices("](") {
            let rest = &text[at + 2..];
            found.push(rest[..rest.find(')').unwrap_or(rest.len())].to_owned());
        }
    }
    found
}

/// HTML elements that pages use on purpose.
const ELEMENTS: [&str; 6] = ["a", "br", "details", "img", "sub", "summary"];

/// Returns the words in angle brackets outside code, which a reader of the page would not see. Links may be in angle
/// brackets.
fn taken_for_html(document: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (_, line) in unfenced(document) {
        let text: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
        for part in text.split('<').skip(1) {
            let name = part.trim_start_matches('/').split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            let is_word = name.starts_with(|c: char| c.is_alphabetic()) && part.contains('>');
            let is_link = ["http", "https", "mailto"].contains(&name);
            if is_word && !is_link && !ELEMENTS.contains(&name) {
                found.push(format!("<{name}"));
            }
        }
    }
    found
}

#[test]
fn every_link_leads_somewhere() {
    let mut count = 0;
    for name in files(".md") {
        for target in targets(&read(&name)) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            count += 1;
            let (file, anchor) =
                target.split_once('#').map_or((target.as_str(), None), |(file, anchor)| (file, Some(anchor)));
            let folder = Path::new(&name).parent().unwrap();
            let path = if file.is_empty() { PathBuf::from(&name) } else { folder.join(file) };
            assert!(root().join(&path).exists(), "{name} links to {target}, which does not exist");
            if let Some(anchor) = anchor {
                let there = anchors(&read(path.to_str().unwrap()));
                assert!(there.iter().any(|there| there == anchor), "{name} links to {target}; there are {there:?}");
            }
        }
    }
    assert!(count > 20, "only {count} links were found");
}

#[test]
fn no_word_in_angle_brackets_is_taken_for_html() {
    assert_eq!(taken_for_html("a <name> `<x>` <https://a.example> <br> 1 < 2\n```\n<y>\n```"), ["<name"]);
    for name in files(".md") {
        assert_eq!(taken_for_html(&read(&name)), [""; 0], "{name}: put it between backticks");
    }
}

#[test]
fn every_document_is_reached_from_the_index() {
    let names = files(".md");
    for name in names.iter().filter(|name| name.starts_with("docs/") && *name != "docs/README.md") {
        // The index of a folder lists its documents, and is listed itself.
        let (folder, document) = name.rsplit_once('/').unwrap();
        let of_folder = format!("{folder}/README.md");
        let index = if names.contains(&of_folder) && *name != of_folder { &of_folder } else { "docs/README.md" };
        let target = if index == "docs/README.md" { name.strip_prefix("docs/").unwrap() } else { document };
        let is_there = targets(&read(index)).iter().any(|linked| linked.split('#').next() == Some(target));
        assert!(is_there, "{index} does not mention {name}");
    }
}

#[test]
fn every_row_of_a_table_has_as_many_cells_as_its_head() {
    let mut count = 0;
    for name in files(".md") {
        let mut width = None;
        for (number, line) in unfenced(&read(&name)) {
            if !line.starts_with('|') {
                width = None;
                continue;
            }
            // Bars in code, and escaped bars, are text.
            let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("").replace("\\|", "");
            let cells = plain.matches('|').count();
            assert_eq!(cells, *width.get_or_insert(cells), "{name}:{number}: {line}");
            count += 1;
        }
    }
    assert!(count > 200, "only {count} rows were found");
}
