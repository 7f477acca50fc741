//! The files of the explorer, a page that shows the tables of an Azure Tables service in a browser.
//!
//! The sources are in `web/`. `build/` joins them into a few files, compresses each one, and makes them part of the
//! program. The server decides where and to whom it serves them.
//!
//! This crate must not depend on HTTP or on the service: the page is a client of the server like any other.

/// A file of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// The path below the URL of the explorer, such as `explorer.js`.
    pub path: &'static str,
    /// The value of `Content-Type`.
    pub media_type: &'static str,
    /// The uncompressed file.
    pub plain: Form,
    /// The file compressed with gzip.
    pub gzip: Form,
}

/// One of the forms in which a file can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// The entity tag, in quotes. It differs for different content.
    pub etag: &'static str,
    /// The bytes of this form.
    pub content: &'static [u8],
}

/// The file that is served at the URL of the explorer itself.
pub const INDEX: &str = "index.html";

/// Every file, sorted by path.
pub const FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Returns the file at the given path. The empty path is the page itself.
pub fn file(path: &str) -> Option<&'static File> {
    let path = if path.is_empty() { INDEX } else { path };
    let index = FILES.binary_search_by(|file| file.path.cmp(path)).ok()?;
    FILES.get(index)
}

#[cfg(test)]
#[path = "../build/bundle.rs"]
mod bundle;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;
    use std::collections::HashSet;
    use std::io::Read;

    /// The maximum compressed size of the page and its first script. Together with the responses that contain data,
    /// they must fit into 60 KB.
    const FIRST_VIEW_BYTES_MAX: usize = 55_000;
    const COMPRESSED_BYTES_MAX: usize = 150 * 1024;

    fn tags(page: &str) -> Vec<&str> {
        page.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()).collect()
    }

    #[test]
    fn the_files_are_few_and_sorted_by_path() {
        let paths: Vec<_> = FILES.iter().map(|file| file.path).collect();
        assert_eq!(paths, [bundle::SCRIPT, INDEX, "patterns.md", bundle::LAZY_SCRIPT]);
    }

    #[test]
    fn the_compressed_form_is_the_same_file() {
        for file in FILES {
            let mut content = Vec::new();
            flate2::read::GzDecoder::new(file.gzip.content).read_to_end(&mut content).unwrap();
            assert!(content == file.plain.content, "{}", file.path);
        }
    }

    #[test]
    fn the_files_are_small() {
        let size = |path: &str| file(path).unwrap().gzip.content.len();
        let first_view = size(INDEX) + size(bundle::SCRIPT);
        assert!(first_view <= FIRST_VIEW_BYTES_MAX, "{first_view} bytes");
        let total: usize = FILES.iter().map(|file| file.gzip.content.len()).sum();
        assert!(total <= COMPRESSED_BYTES_MAX, "{total} bytes");
    }

    #[test]
    fn different_content_has_a_different_entity_tag() {
        let forms: Vec<_> = FILES.iter().flat_map(|file| [file.plain, file.gzip]).collect();
        let tags: HashSet<_> = forms.iter().map(|form| form.etag).collect();
        assert_eq!(tags.len(), forms.len());
        assert!(tags.iter().all(|tag| tag.len() == 18 && tag.starts_with('"') && tag.ends_with('"')));
    }

    #[test]
    fn a_path_names_a_file_or_nothing() {
        assert_eq!(file("").unwrap().path, INDEX);
        assert_eq!(file(INDEX), file(""));
        for path in
            ["/", "index.htm", "index.html/", "/index.html", "./index.html", "../Cargo.toml", "INDEX.HTML", "main.js"]
        {
            assert_eq!(file(path), None, "{path}");
        }
    }

    #[test]
    fn pages_load_from_their_own_origin_alone_and_have_no_inline_script_or_style() {
        let pages = FILES.iter().filter(|file| file.media_type.starts_with("text/html"));
        for File { path, plain, .. } in pages {
            let page = std::str::from_utf8(plain.content).unwrap();
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

    fn attributes(tag: &str) -> Vec<(&str, &str)> {
        let mut parts = tag.split('"');
        let mut found = Vec::new();
        while let (Some(before), Some(value)) = (parts.next(), parts.next()) {
            found.push((before.trim_end_matches('=').rsplit([' ', '\n', '\t']).next().unwrap(), value));
        }
        found
    }

    #[test]
    fn the_page_says_that_it_loads_before_any_script_runs() {
        let page = std::str::from_utf8(file(INDEX).unwrap().plain.content).unwrap();
        assert!(page.contains("Loading the explorer…"), "{page}");
        // A browser shows nothing before it has loaded the style sheets that a page links to.
        assert!(!page.contains("stylesheet"), "{page}");
    }

    fn bundled(files: &[(&str, &str)]) -> [String; 2] {
        let read = |path: &str| {
            files.iter().find(|(name, _)| *name == path).unwrap_or_else(|| panic!("no {path}")).1.to_owned()
        };
        bundle::bundle("main.js", &read).map(|(_, text)| text)
    }

    #[test]
    fn modules_become_functions_in_the_order_of_their_imports() {
        let [script, lazy] = bundled(&[
            (
                "main.js",
                "// Entry.\n\nimport sheet from \"./styles/base.css\" with { type: \"css\" };\nimport {\n  a,\n  b as c,\n} from \"./core/a.js\";\n\nstart(sheet, a, c);\nexport async function open() {\n  const { View } = await import(\"./view.js\");\n}\n",
            ),
            ("core/a.js", "export const a = 1;\nexport class b {}\nexport function* d() {}\nexport function e() {}\n"),
            ("styles/base.css", "/* Base. */\nbody { color: red }\nq { content: \"\\201c\" }\n"),
            ("view.js", "import { a } from \"./core/a.js\";\nexport class View {}\n"),
        ]);
        assert_eq!(
            script,
            "const m0=(()=>{\nconst sheet=new CSSStyleSheet();\nsheet.replaceSync(`body { color: red }\nq { content: \"\\\\201c\" }\n`);\n\
             return {default:sheet};\n})();\n\
             const m1=(()=>{\nconst a = 1;\nclass b {}\nfunction* d() {}\nfunction e() {}\nreturn {a,b,d,e};\n})();\n\
             const m2=(()=>{\nconst {default:sheet}=m0;\nconst {a,b:c,}=m1;\nstart(sheet, a, c);\nasync function open() {\n\
             const { View } = await import(\"./views.js\").then((script)=>script.m3);\n}\nreturn {open};\n})();\n\
             export {m0,m1,m2};\n"
        );
        assert_eq!(
            lazy,
            "import {m0,m1,m2} from \"./explorer.js\";\n\
             const m3=(()=>{\nconst { a }=m1;\nclass View {}\nreturn {View};\n})();\nexport {m3};\n"
        );
    }

    #[test]
    fn comments_and_indentation_go_and_strings_stay() {
        for (text, expected) in [
            ("a(); // gone\n  // gone\n\n  b();\n", "a();\nb();\n"),
            ("/**\n * gone\n */\nlet c = /** @type {X} */ (d);\n", "let c =  (d);\n"),
            ("'//' + \"/*\" + '\\'//'\n", "'//' + \"/*\" + '\\'//'\n"),
            (
                "`// stays\n  ${f({ a: `}//` /* gone */ })}  // stays`\n",
                "`// stays\n  ${f({ a: `}//`  })}  // stays`\n",
            ),
            ("x.replace(/[/\"]\\/'/g, 1) / 2 // gone\n", "x.replace(/[/\"]\\/'/g, 1) / 2\n"),
            ("return /'/.test(a) ? /\"/ : b / c;\n", "return /'/.test(a) ? /\"/ : b / c;\n"),
            ("p {\n  font: 1em/1.5 x; /* gone */\n}\n", "p {\nfont: 1em/1.5 x;\n}\n"),
        ] {
            assert_eq!(bundle::strip(text), expected, "{text}");
        }
    }

    #[test]
    #[should_panic(expected = "a.js imports itself")]
    fn a_cycle_of_imports_fails_the_build() {
        bundled(&[
            ("main.js", "import { a } from \"./a.js\";\n"),
            ("a.js", "import { b } from \"./b.js\";\n"),
            ("b.js", "import { a } from \"./a.js\";\n"),
        ]);
    }

    #[test]
    #[should_panic(expected = "does not support this export: default 1")]
    fn an_unknown_export_fails_the_build() {
        bundled(&[("main.js", "export default 1;\n")]);
    }
}
