//! Checks how the modules of each crate depend on each other: no folder and no file may depend on itself through
//! others. Also checks which modules are specific to an operating system.

use super::{files, read};
use std::collections::{BTreeMap, BTreeSet};

/// The crates, and the maximum number of files at the root of each.
const CRATES: [(&str, usize); 21] = [
    ("model", 12),
    ("wire", 12),
    ("http-client", 12),
    ("client", 12),
    ("object-storage", 8),
    ("platform", 4),
    ("engine", 10),
    ("engine-embedded", 12),
    ("engine-embedded/schedules", 4),
    ("engine-postgres", 12),
    ("engine-citus", 8),
    ("engine-contract", 5),
    ("history", 8),
    ("replication", 10),
    ("server", 12),
    ("tools", 12),
    ("rowhouse", 12),
    ("bench", 8),
    ("testing", 6),
    ("test-support", 14),
    ("xtask", 12),
];

/// The path of a module below the root of its crate, which has an empty path.
type ModulePath = Vec<String>;

/// Modules, each with the modules that it uses.
type Modules = BTreeMap<String, BTreeSet<String>>;

/// Returns the files of a crate, each with its path below the folder of its sources.
fn source_files(krate: &str) -> Vec<(String, String)> {
    let folder = format!("{krate}/src/");
    let named = files(".rs").into_iter().filter_map(|file| Some((file.strip_prefix(&folder)?.to_owned(), file)));
    named.collect()
}

/// Returns the code of a file without its tests and without lines that are comments.
fn product(text: &str) -> String {
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    product.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Returns the files of a crate outside its tests, each as the path of its module and its code.
fn product_files(krate: &str) -> BTreeMap<ModulePath, String> {
    let mut found = BTreeMap::new();
    for (path, file) in source_files(krate) {
        let mut module: ModulePath = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        if module.iter().all(|part| part != "tests") {
            module.retain(|part| !["mod", "lib", "main"].contains(&part.as_str()));
            found.insert(module, product(&read(&file)));
        }
    }
    found
}

/// Returns the paths in a use tree such as `one::{two, three::Four}`, and the length of the tree.
fn use_tree(text: &str) -> (Vec<ModulePath>, usize) {
    let (mut prefix, mut at) = (ModulePath::new(), 0);
    loop {
        let rest = &text[at..];
        if rest.starts_with('{') {
            let mut paths = Vec::new();
            at += 1;
            while !text[at..].starts_with('}') {
                let skipped = text[at..].len() - text[at..].trim_start_matches([',', ' ', '\n']).len();
                at += skipped;
                let (inner, length) = use_tree(&text[at..]);
                paths.extend(inner.into_iter().map(|path| [prefix.clone(), path].concat()));
                at += length;
                // What follows a name is `as` and another name, or nothing.
                at += text[at..].find([',', '}']).unwrap();
            }
            return (paths, at + 1);
        }
        let name = rest.len() - rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').len();
        if name > 0 {
            prefix.push(rest[..name].to_owned());
        }
        at += name;
        if name == 0 || !text[at..].starts_with("::") {
            return (vec![prefix], at);
        }
        at += "::".len();
    }
}

/// Returns the paths that a module names below its own crate, from the root of the crate.
fn named_paths(module: &[String], code: &str) -> Vec<ModulePath> {
    let mut found = Vec::new();
    for prefix in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(prefix) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            for path in use_tree(&code[at..]).0 {
                let up = path.iter().take_while(|part| *part == "super").count();
                let (base, rest) = match path.first().map(String::as_str) {
                    Some("crate") => (&[][..], &path[1..]),
                    Some("self") => (module, &path[1..]),
                    _ => (&module[..module.len().saturating_sub(up)], &path[up..]),
                };
                found.push([base, rest].concat());
            }
        }
    }
    found
}

/// Returns the names that a module exports again from the modules below it, with the paths there.
fn exports(module: &[String], code: &str) -> BTreeMap<String, ModulePath> {
    let mut found = BTreeMap::new();
    for statement in code.split(';').map(str::trim) {
        let exported = ["pub use ", "pub(crate) use ", "pub(super) use "].iter().find_map(|start| {
            let at = statement.rfind(start).filter(|at| *at == 0 || statement[..*at].ends_with('\n'))?;
            Some(statement[at + start.len()..].trim_start_matches("self::"))
        });
        for path in exported.map_or_else(Vec::new, |tree| use_tree(tree).0) {
            if let Some(name) = path.last() {
                found.insert(name.clone(), [module, &path].concat());
            }
        }
    }
    found
}

/// Returns the files that each file of a crate uses. A name that a file only exports again leads to the file that
/// defines it.
fn used_files(krate: &str) -> BTreeMap<ModulePath, BTreeSet<ModulePath>> {
    let files = product_files(krate);
    let exported: BTreeMap<_, _> = files.iter().map(|(module, code)| (module, exports(module, code))).collect();
    let file_of = |path: &[String]| {
        let mut path = path.to_vec();
        loop {
            let mut file = path.clone();
            while !files.contains_key(&file) {
                file.pop();
            }
            match path.get(file.len()).and_then(|name| exported.get(&file)?.get(name)) {
                Some(target) if *target != path && target.len() > file.len() + 1 => path.clone_from(target),
                _ => return (path.len() > file.len(), file),
            }
        }
    };
    let mut used = BTreeMap::new();
    for (module, code) in &files {
        let mut targets = BTreeSet::new();
        for path in named_paths(module, code) {
            let (names_item, file) = file_of(&path);
            if file != *module && (names_item || !module.starts_with(&file)) {
                targets.insert(file);
            }
        }
        used.insert(module.clone(), targets);
    }
    used
}

/// Combines the modules of a crate into those for which `name` returns the same name.
fn combined(
    used: &BTreeMap<ModulePath, BTreeSet<ModulePath>>,
    name: impl Fn(&ModulePath) -> Option<String>,
) -> Modules {
    let mut modules = Modules::new();
    for (module, targets) in used {
        let Some(from) = name(module) else { continue };
        let others = targets.iter().filter_map(&name).filter(|to| *to != from).collect::<Vec<_>>();
        modules.entry(from).or_default().extend(others);
    }
    modules
}

/// Returns a path from a module back to itself, or an empty list if there is no such path.
fn cycle(modules: &Modules) -> Vec<String> {
    fn visit<'m>(
        name: &'m str,
        modules: &'m Modules,
        way: &mut Vec<&'m str>,
        done: &mut BTreeSet<&'m str>,
    ) -> Vec<String> {
        if let Some(at) = way.iter().position(|earlier| *earlier == name) {
            return way[at..].iter().chain([&name]).map(|name| (*name).to_owned()).collect();
        }
        if !done.insert(name) {
            return Vec::new();
        }
        way.push(name);
        let found = modules.get(name).into_iter().flatten().map(|next| visit(next, modules, way, done));
        let found = found.into_iter().find(|found| !found.is_empty());
        way.pop();
        found.unwrap_or_default()
    }
    let mut done = BTreeSet::new();
    modules
        .keys()
        .map(|name| visit(name, modules, &mut Vec::new(), &mut done))
        .find(|way| !way.is_empty())
        .unwrap_or_default()
}

#[test]
fn no_folder_depends_on_itself_through_others() {
    assert_no_cycle(|module| module.first().cloned());
}

#[test]
fn no_file_depends_on_itself_through_others() {
    assert_no_cycle(|module| Some(if module.is_empty() { "lib".to_owned() } else { module.join("/") }));
}

fn assert_no_cycle(name: impl Fn(&ModulePath) -> Option<String>) {
    let mut found = Vec::new();
    for (krate, _) in CRATES {
        let modules = combined(&used_files(krate), &name);
        assert!(!modules.is_empty(), "the modules of {krate} were not found");
        let cycle = cycle(&modules);
        if !cycle.is_empty() {
            found.push(format!("{krate}: {}", cycle.join(" -> ")));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn the_root_of_a_crate_has_few_files() {
    for (krate, most) in CRATES {
        let files = source_files(krate).iter().filter(|(path, _)| !path.contains('/')).count();
        assert!(files <= most, "{krate} has {files} files at its root, more than {most}");
    }
}

/// The files with an enum variant of a library that exists only on Unix.
const UNIX_VARIANT: [&str; 2] =
    ["engine-postgres/src/connections/settings.rs", "engine-postgres/src/connections/replication.rs"];

#[test]
fn the_platform_alone_knows_operating_systems() {
    let mut found = Vec::new();
    let may_know = |krate: &str| ["platform", "engine-contract", "bench", "test-support", "xtask"].contains(&krate);
    let crates = CRATES.iter().map(|(krate, _)| *krate).chain(["explorer"]);
    for krate in crates.filter(|krate| !may_know(krate)) {
        for (path, file) in source_files(krate) {
            let is_product = !path.ends_with("tests.rs") && !UNIX_VARIANT.contains(&file.as_str());
            if is_product && knows_a_system(&read(&file)) {
                found.push(file);
            }
        }
    }
    assert!(found.is_empty(), "code for one operating system belongs in the crate platform: {found:#?}");
    assert!(knows_a_system("#[cfg(unix)]\nfn f() {}") && knows_a_system("if cfg!(windows) {}"));
    assert!(!knows_a_system("fn f() {}\n#[cfg(test)]\nmod tests {\n    use std::os::unix::fs::symlink;"));
}

fn knows_a_system(text: &str) -> bool {
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    ["std::os::", "rustix::", "signal::unix", "(unix", "(windows", "target_os"]
        .iter()
        .any(|sign| product.contains(sign))
}

#[test]
fn cycles_are_found() {
    let modules = |pairs: &[(&str, &str)]| {
        let mut modules = Modules::new();
        for (from, to) in pairs {
            modules.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        modules
    };
    assert!(cycle(&modules(&[("a", "b"), ("a", "c"), ("b", "c")])).is_empty());
    assert_eq!(cycle(&modules(&[("a", "b"), ("b", "c"), ("c", "b")])), ["b", "c", "b"]);
}

#[test]
fn the_files_that_a_file_uses_are_found() {
    let paths = |code: &str| {
        let module = ["here".to_owned(), "deep".to_owned()];
        named_paths(&module, &product(code)).iter().map(|path| path.join("::")).collect::<BTreeSet<_>>()
    };
    let code = "use crate::one::Two;\nuse crate::{three, four::{Five, self as six},\n seven::Eight as Nine};\n// crate::no\n\
                let x = super::ten();\nuse self::eleven::f;\n#[cfg(test)]\nmod tests {\nuse crate::twelve;";
    let expected =
        ["four::Five", "four::self", "here::deep::eleven::f", "here::ten", "one::Two", "seven::Eight", "three"];
    assert_eq!(paths(code), expected.iter().map(|path| (*path).to_owned()).collect());
    let exported = exports(&["here".to_owned()], "mod a;\npub use a::One;\npub(crate) use b::{Two, c::Three};\n");
    let expected = [("One", "here::a::One"), ("Three", "here::b::c::Three"), ("Two", "here::b::Two")];
    let exported: Vec<_> = exported.iter().map(|(name, path)| (name.as_str(), path.join("::"))).collect();
    assert_eq!(exported, expected.map(|(name, path)| (name, path.to_owned())));
}
