//! Lists the files of `web/`, so that a new file needs no entry anywhere. It changes nothing in them.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The media types of files, by the end of their names.
const MEDIA_TYPES: [(&str, &str); 4] = [
    (".css", "text/css; charset=utf-8"),
    (".html", "text/html; charset=utf-8"),
    (".js", "text/javascript; charset=utf-8"),
    (".svg", "image/svg+xml"),
];

fn main() {
    println!("cargo::rerun-if-changed=web");
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("Cargo sets it")).join("web");
    let mut paths = Vec::new();
    list(&root, &root, &mut paths);
    // The order is part of the program, and that of a folder differs from one file system to another.
    paths.sort();
    let mut table = String::from("&[\n");
    for path in paths {
        let media_type = MEDIA_TYPES.iter().find(|(end, _)| path.ends_with(end));
        let Some((_, media_type)) = media_type else { panic!("web/{path} has no media type: give it one in build.rs") };
        let file = root.join(&path);
        let content = fs::read(&file).unwrap_or_else(|error| panic!("reading {}: {error}", file.display()));
        let etag = format!("\"{:016x}\"", hash(&content));
        let file = file.to_str().expect("paths of sources are UTF-8");
        writeln!(
            table,
            "    File {{ path: {path:?}, media_type: {media_type:?}, etag: {etag:?}, content: include_bytes!({file:?}) }},"
        )
        .expect("writing to a string succeeds");
    }
    table.push_str("]\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets it")).join("files.rs");
    fs::write(&out, table).unwrap_or_else(|error| panic!("writing {}: {error}", out.display()));
}

/// Adds the files of a folder and of the folders in it, as paths below the root. What editors hide there is left out.
fn list(root: &Path, folder: &Path, paths: &mut Vec<String>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("reading {}: {error}", folder.display()));
    for entry in entries {
        let path = entry.unwrap_or_else(|error| panic!("reading {}: {error}", folder.display())).path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
            continue;
        }
        if path.is_dir() {
            list(root, &path, paths);
        } else {
            let below = path.strip_prefix(root).expect("it was found below the root");
            let parts: Option<Vec<&str>> = below.iter().map(|part| part.to_str()).collect();
            paths.push(parts.expect("names of files are UTF-8").join("/"));
        }
    }
}

/// FNV-1a with 64 bits. It tells versions of a file apart, and need not withstand anybody.
fn hash(content: &[u8]) -> u64 {
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    content.iter().fold(0xCBF2_9CE4_8422_2325, add)
}
