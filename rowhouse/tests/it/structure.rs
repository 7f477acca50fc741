//! Checks how the modules of each crate depend on each other: no folder or root file may depend on itself through
//! others. Also checks which modules are specific to an operating system.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates, and the maximum number of files at the root of each.
const CRATES: [(&str, usize); 15] = [
    ("model", 30),
    ("wire", 25),
    ("client", 12),
    ("platform", 4),
    ("engine", 10),
    ("engine-embedded", 12),
    ("engine-postgres", 12),
    ("engine-contract", 5),
    ("server", 12),
    ("tools", 12),
    ("rowhouse", 12),
    ("bench", 8),
    ("testing", 6),
    ("test-support", 14),
    ("xtask", 12),
];

/// The modules at the root of a crate, each with the modules that it uses. A folder counts as one module.
type Modules = BTreeMap<String, BTreeSet<String>>;

fn source(krate: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(krate).join("src")
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the names of root modules that a file uses outside its tests.
fn used_modules(text: &str, is_at_root: bool) -> BTreeSet<String> {
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let mut used = BTreeSet::new();
    let mut prefixes = vec!["crate::"];
    if is_at_root {
        prefixes.push("super::");
    }
    for line in product.lines().filter(|line| !line.trim_start().starts_with("//")) {
        for prefix in &prefixes {
            for (at, _) in line.match_indices(prefix) {
                let is_word =
                    line[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':');
                let rest = &line[at + prefix.len()..];
                let names = rest.strip_prefix('{').unwrap_or(rest);
                let names = if rest.starts_with('{') { names.split('}').next().unwrap() } else { names };
                let first_only = !rest.starts_with('{');
                for name in names.split(',').take(if first_only { 1 } else { usize::MAX }) {
                    let name: String =
                        name.trim().chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                    if !is_word && !name.is_empty() {
                        used.insert(name);
                    }
                }
            }
        }
    }
    used
}

fn modules(krate: &str) -> Modules {
    let root = source(krate);
    let mut files = Vec::new();
    files_below(&root, &mut files);
    let name_of = |path: &Path| {
        let first = path.strip_prefix(&root).unwrap().components().next().unwrap();
        first.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned()
    };
    let names: BTreeSet<String> = files.iter().map(|path| name_of(path)).collect();
    let mut modules = Modules::new();
    for path in &files {
        let name = name_of(path);
        if ["lib", "main"].contains(&name.as_str()) || path.file_name().is_some_and(|name| name == "tests.rs") {
            continue;
        }
        let used = used_modules(&fs::read_to_string(path).unwrap(), path.parent() == Some(&root));
        let others = used.into_iter().filter(|used| *used != name && names.contains(used));
        modules.entry(name.clone()).or_default().extend(others);
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
fn no_module_depends_on_itself_by_way_of_others() {
    let mut found = Vec::new();
    for (krate, _) in CRATES {
        let modules = modules(krate);
        assert!(modules.len() > 2, "the modules of {krate} were not found");
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
        let files =
            fs::read_dir(source(krate)).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_file()).count();
        assert!(files <= most, "{krate} has {files} files at its root, more than {most}");
    }
}

/// The file with an enum variant of a library that exists only on Unix.
const UNIX_VARIANT: &str = "engine-postgres/src/connections/settings.rs";

#[test]
fn the_platform_alone_knows_operating_systems() {
    let mut found = Vec::new();
    for krate in [
        "model",
        "wire",
        "client",
        "engine",
        "engine-embedded",
        "engine-postgres",
        "explorer",
        "server",
        "tools",
        "rowhouse",
        "testing",
    ] {
        let mut files = Vec::new();
        files_below(&source(krate), &mut files);
        for path in files.iter().filter(|path| !path.ends_with(UNIX_VARIANT)) {
            let text = fs::read_to_string(path).unwrap();
            if knows_a_system(&text) && path.file_name().is_none_or(|name| name != "tests.rs") {
                found.push(path.clone());
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
    let used = used_modules(
        "use crate::one::Two;\nuse crate::{three, four::Five};\n// crate::six\nlet x = super::seven();\n",
        true,
    );
    assert_eq!(used.into_iter().collect::<Vec<_>>(), ["four", "one", "seven", "three"]);
    assert!(used_modules("use super::seven;\n#[cfg(test)]\nmod tests {\nuse crate::eight;", false).is_empty());
}
