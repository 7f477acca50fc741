//! The files of the explorer: a page that shows the tables of an Azure Tables service in a browser.
//!
//! The files stand in `web/` as a browser gets them; there is no build step between. `build.rs` lists them, and they become part
//! of the program. The server decides where and to whom it serves them.
//!
//! This crate must not know HTTP, nor anything of the service: the page is a client of the server like any other.

/// A file, as a browser gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// The path below the folder of the files, with slashes, such as `styles/base.css`.
    pub path: &'static str,
    /// The value of `Content-Type`.
    pub media_type: &'static str,
    /// The entity tag, in quotes: another one for another content.
    pub etag: &'static str,
    /// The bytes of the file.
    pub content: &'static [u8],
}

/// The file of the address of the explorer itself.
pub const INDEX: &str = "index.html";

/// Every file, in the order of the paths.
pub const FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The file with this path; the empty path is that of the page.
pub fn file(path: &str) -> Option<&'static File> {
    let path = if path.is_empty() { INDEX } else { path };
    let index = FILES.binary_search_by(|file| file.path.cmp(path)).ok()?;
    FILES.get(index)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;
    use std::collections::HashSet;
    use std::path::{Path, PathBuf};

    /// The files below a folder.
    fn files_below(folder: &Path) -> Vec<PathBuf> {
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        paths.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
    }

    /// The tags of a page, without what stands between them.
    fn tags(page: &str) -> Vec<&str> {
        page.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()).collect()
    }

    #[test]
    fn every_file_is_served_as_it_is_and_has_a_media_type() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
        let visible = |path: &&PathBuf| {
            !path.strip_prefix(&root).unwrap().iter().any(|part| part.to_str().unwrap().starts_with('.'))
        };
        let found = files_below(&root);
        let found: Vec<_> = found.iter().filter(visible).collect();
        assert_eq!(found.len(), FILES.len());
        for path in found {
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
            let file = file(name).unwrap_or_else(|| panic!("{name} is not listed"));
            assert!(std::fs::read(path).unwrap() == file.content, "{name}");
            assert!(!file.media_type.is_empty(), "{name}");
            // So an address needs no decoding.
            assert!(
                name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-./".contains(&b)),
                "{name}"
            );
        }
    }

    #[test]
    fn another_content_has_another_entity_tag() {
        let contents: HashSet<_> = FILES.iter().map(|file| file.content).collect();
        let tags: HashSet<_> = FILES.iter().map(|file| file.etag).collect();
        assert_eq!(tags.len(), contents.len());
        assert!(tags.iter().all(|tag| tag.len() == 18 && tag.starts_with('"') && tag.ends_with('"')));
    }

    #[test]
    fn a_path_is_that_of_a_file_or_of_nothing() {
        assert_eq!(file("").unwrap().path, INDEX);
        assert_eq!(file(INDEX), file(""));
        for path in
            ["/", "index.htm", "index.html/", "/index.html", "./index.html", "../Cargo.toml", "INDEX.HTML", "styles"]
        {
            assert_eq!(file(path), None, "{path}");
        }
    }

    #[test]
    fn pages_load_from_their_own_origin_alone_and_have_no_inline_script_or_style() {
        let pages = FILES.iter().filter(|file| file.media_type.starts_with("text/html"));
        for File { path, content, .. } in pages {
            let page = std::str::from_utf8(content).unwrap();
            for tag in tags(page) {
                let name = tag.split([' ', '\n', '\t']).next().unwrap();
                let is_loaded = name != "script" || tag.contains(" src=");
                assert!(is_loaded && name != "style" && name != "base", "{path}: <{tag}>");
                for (attribute, value) in attributes(tag) {
                    assert!(attribute != "style" && !attribute.starts_with("on"), "{path}: <{tag}>");
                    let is_address = ["src", "href", "srcset", "action", "data"].contains(&attribute);
                    let leaves = value.contains(':') && !value.starts_with("data:image/") || value.starts_with("//");
                    assert!(!(is_address && leaves), "{path}: <{tag}>");
                }
            }
        }
    }

    /// The attributes of a tag with their values, which stand in double quotes.
    fn attributes(tag: &str) -> Vec<(&str, &str)> {
        let mut parts = tag.split('"');
        let mut found = Vec::new();
        while let (Some(before), Some(value)) = (parts.next(), parts.next()) {
            found.push((before.trim_end_matches('=').rsplit([' ', '\n', '\t']).next().unwrap(), value));
        }
        found
    }
}
