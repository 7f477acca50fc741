//! Joins the ES modules and style sheets of `web/` into two scripts, because every file costs a round trip.
//!
//! The bundler supports only what the modules of this crate use: named imports at the top of a module, exported
//! declarations, style sheets imported with `{ type: "css" }`, `import()` of a literal path, and no cycles. Anything
//! else fails the build. This module must not depend on the file system or on compression.

use std::collections::HashMap;
use std::fmt::Write;

/// The script that the page loads: the entry module and everything that it imports statically.
pub(crate) const SCRIPT: &str = "explorer.js";
/// The script that `import()` loads: everything else.
pub(crate) const LAZY_SCRIPT: &str = "views.js";

pub(crate) type Script = (&'static str, String);

/// Bundles the module `entry` and all modules that it imports, directly or indirectly. `read` returns the text of a
/// file below the root.
pub(crate) fn bundle(entry: &str, read: &dyn Fn(&str) -> String) -> [Script; 2] {
    let mut bundler = Bundler { read, modules: Vec::new(), places: HashMap::new() };
    bundler.add(entry);
    let first = bundler.modules.len();
    let mut at = 0;
    // Modules that are loaded lazily may lazily load others.
    while let Some(module) = bundler.modules.get(at) {
        for path in module.lazy.clone() {
            bundler.add(&path);
        }
        at += 1;
    }
    let (eager, lazy) = bundler.modules.split_at(first);
    let mut texts = [String::new(), String::new()];
    if !lazy.is_empty() {
        writeln!(texts[1], "import {{{}}} from \"./{SCRIPT}\";", names(0..first)).expect(WRITING);
    }
    for (text, (modules, range)) in texts.iter_mut().zip([(eager, 0..first), (lazy, first..bundler.modules.len())]) {
        for (at, module) in range.clone().zip(modules) {
            writeln!(text, "const m{at}=(()=>{{\n{}}})();", bundler.link(module, first)).expect(WRITING);
        }
        writeln!(text, "export {{{}}};", names(range)).expect(WRITING);
    }
    let [eager, lazy] = texts;
    [(SCRIPT, eager), (LAZY_SCRIPT, lazy)]
}

const WRITING: &str = "writing to a string succeeds";

fn names(range: std::ops::Range<usize>) -> String {
    range.map(|at| format!("m{at}")).collect::<Vec<_>>().join(",")
}

#[derive(Debug, Default)]
struct Module {
    /// The `const` declarations that replace the imports.
    imports: String,
    body: String,
    exports: Vec<String>,
    /// The paths passed to `import()`.
    lazy: Vec<String>,
    path: String,
}

struct Bundler<'a> {
    read: &'a dyn Fn(&str) -> String,
    /// Each module follows the modules that it imports.
    modules: Vec<Module>,
    /// The index of each module; `None` while the modules that it imports are being added.
    places: HashMap<String, Option<usize>>,
}

impl Bundler<'_> {
    fn add(&mut self, path: &str) -> usize {
        match self.places.get(path) {
            Some(Some(at)) => return *at,
            Some(None) => panic!("{path} imports itself, perhaps through other modules"),
            None => self.places.insert(path.to_owned(), None),
        };
        let text = strip(&(self.read)(path));
        let mut module =
            if path.rsplit('.').next() == Some("css") { style_sheet(&text) } else { self.parse(path, &text) };
        path.clone_into(&mut module.path);
        self.modules.push(module);
        let at = self.modules.len() - 1;
        self.places.insert(path.to_owned(), Some(at));
        at
    }

    fn parse(&mut self, path: &str, text: &str) -> Module {
        let mut module = Module::default();
        let mut rest = text;
        while rest.starts_with("import ") {
            let (statement, after) =
                rest.split_once(";\n").unwrap_or_else(|| panic!("{path}: an import has no semicolon"));
            let (bindings, from) = statement["import ".len()..]
                .split_once(" from ")
                .unwrap_or_else(|| panic!("{path}: {statement} binds no name"));
            let imported = self.add(&resolve(path, quoted(path, from)));
            let bindings = match bindings.strip_prefix('{') {
                Some(_) => bindings.replace('\n', "").replace(" as ", ":"),
                None => format!("{{default:{bindings}}}"),
            };
            writeln!(module.imports, "const {bindings}=m{imported};").expect(WRITING);
            rest = after;
        }
        for line in rest.lines() {
            let line = if let Some(declaration) = line.strip_prefix("export ") {
                module.exports.push(declared_name(path, declaration));
                declaration
            } else {
                line
            };
            module.body.push_str(line);
            module.body.push('\n');
        }
        let lazy = module.body.split("import(\"").skip(1);
        module.lazy = lazy.map(|after| resolve(path, after.split('"').next().unwrap_or_default())).collect();
        module
    }

    /// Returns the body of the function that a module becomes: its imports, its text and its exports.
    fn link(&self, module: &Module, first: usize) -> String {
        let mut body = module.imports.clone();
        let mut parts = module.body.split("import(\"");
        body.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let (path, rest) =
                part.split_once("\")").unwrap_or_else(|| panic!("{}: import() needs a literal path", module.path));
            let at = self.places.get(&resolve(&module.path, path)).copied().flatten();
            let at = at.expect("every module passed to import() was added");
            let script = if at < first { SCRIPT } else { LAZY_SCRIPT };
            write!(body, "import(\"./{script}\").then((script)=>script.m{at}){rest}").expect(WRITING);
        }
        writeln!(body, "return {{{}}};", module.exports.join(",")).expect(WRITING);
        body
    }
}

/// The default export is the style sheet, as in an import with `{ type: "css" }`.
fn style_sheet(text: &str) -> Module {
    let text = text.replace('\\', "\\\\").replace('`', "\\`").replace("${", "\\${");
    Module {
        body: format!("const sheet=new CSSStyleSheet();\nsheet.replaceSync(`{text}`);\n"),
        exports: vec!["default:sheet".to_owned()],
        ..Module::default()
    }
}

/// Resolves the path `relative` in the module `from`.
fn resolve(from: &str, relative: &str) -> String {
    let mut folders: Vec<&str> = from.split('/').collect();
    folders.pop();
    for part in relative.split('/') {
        match part {
            "." => {}
            ".." => assert!(folders.pop().is_some(), "{from}: {relative} is outside the root folder"),
            part => folders.push(part),
        }
    }
    folders.join("/")
}

fn quoted<'t>(path: &str, text: &'t str) -> &'t str {
    text.split('"').nth(1).unwrap_or_else(|| panic!("{path}: {text} names no module in double quotes"))
}

/// Returns the name that `function name(`, `async function* name(`, `class Name ` or `const NAME =` declares.
fn declared_name(path: &str, declaration: &str) -> String {
    let words = declaration.strip_prefix("async ").unwrap_or(declaration);
    let known = ["function ", "function* ", "class ", "const "];
    let after = known.iter().find_map(|word| words.strip_prefix(word));
    let after = after.unwrap_or_else(|| panic!("{path}: the bundler does not support this export: {declaration}"));
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    after.chars().take_while(|c| is_name(*c)).collect()
}

/// Removes comments, indentation and empty lines from a script or a style sheet. Strings, templates and regular
/// expressions stay unchanged.
pub(crate) fn strip(text: &str) -> String {
    let mut stripper = Stripper { rest: text, out: String::with_capacity(text.len()) };
    stripper.code();
    assert!(stripper.rest.is_empty(), "an unmatched closing brace: {:.40}", stripper.rest);
    stripper.out
}

struct Stripper<'t> {
    rest: &'t str,
    out: String,
}

impl Stripper<'_> {
    /// Stops at the end of the code, or at the brace that closes a placeholder in a template.
    fn code(&mut self) {
        let mut depth = 0_usize;
        while let Some(next) = self.rest.chars().next() {
            match next {
                '/' if self.rest.starts_with("//") => self.skip_to("\n"),
                '/' if self.rest.starts_with("/*") => {
                    self.skip_to("*/");
                    self.rest = &self.rest[2..];
                }
                '/' if self.expects_operand() => self.regular_expression(),
                '"' | '\'' => self.string(next),
                '`' => self.template(),
                '}' if depth == 0 => return,
                _ => {
                    depth = match next {
                        '{' => depth + 1,
                        '}' => depth - 1,
                        _ => depth,
                    };
                    self.copy_code(next);
                }
            }
        }
    }

    fn copy_code(&mut self, next: char) {
        if next == '\n' {
            let end = self.out.trim_end_matches(' ').len();
            self.out.truncate(end);
        }
        let is_at_start = self.out.is_empty() || self.out.ends_with('\n');
        if !(is_at_start && next.is_whitespace()) {
            self.out.push(next);
        }
        self.rest = &self.rest[next.len_utf8()..];
    }

    fn skip_to(&mut self, end: &str) {
        let at = self.rest.find(end).unwrap_or_else(|| panic!("a comment is not closed: {:.40}", self.rest));
        self.rest = &self.rest[at..];
    }

    /// The bytes must end at a character boundary.
    fn copy(&mut self, bytes: usize) {
        let (copied, rest) = self.rest.split_at(bytes);
        self.out.push_str(copied);
        self.rest = rest;
    }

    /// Copies a character, or a backslash with the character that it escapes. Returns the first character copied.
    fn copy_character(&mut self) -> char {
        let mut characters = self.rest.chars();
        let first = characters.next().unwrap_or_else(|| panic!("a string or regular expression is not closed"));
        let escaped = if first == '\\' { characters.next().map_or(0, char::len_utf8) } else { 0 };
        self.copy(first.len_utf8() + escaped);
        first
    }

    fn string(&mut self, quote: char) {
        self.copy(1);
        while self.copy_character() != quote {}
    }

    fn template(&mut self) {
        self.copy(1);
        loop {
            if self.rest.starts_with("${") {
                self.copy(2);
                self.code();
            }
            if self.copy_character() == '`' {
                return;
            }
        }
    }

    fn regular_expression(&mut self) {
        self.copy(1);
        let mut is_in_class = false;
        loop {
            match self.copy_character() {
                '[' => is_in_class = true,
                ']' => is_in_class = false,
                '/' if !is_in_class => return,
                _ => {}
            }
        }
    }

    /// Returns true if a slash here begins a regular expression: after an operator, but not after a value. In style
    /// sheets, every slash follows a value.
    fn expects_operand(&self) -> bool {
        let before = self.out.trim_end();
        before.ends_with(|c| "(,=:[!&|?{;+<>".contains(c)) || before.ends_with("return")
    }
}
