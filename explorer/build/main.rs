//! Builds the files that the server sends from `web/`: two scripts from its modules and style sheets, and a compressed
//! form of every file. No program other than the compiler is needed.

#![allow(clippy::print_stdout, reason = "Cargo reads what a build script prints")]

mod bundle;

use flate2::Compression;
use flate2::write::GzEncoder;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("Cargo sets it"));
    for path in ["build", "web", "patterns.md"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let web = package.join("web");
    let read = |path: &str| read(&web.join(path));
    let [script, lazy_script] = bundle::bundle("main.js", &read);
    // Sorted by path.
    let files = [
        (script.0, "text/javascript", script.1),
        ("index.html", "text/html", read("index.html")),
        ("patterns.md", "text/plain", self::read(&package.join("patterns.md"))),
        (lazy_script.0, "text/javascript", lazy_script.1),
    ];
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets it"));
    let mut table = String::from("&[\n");
    for (path, media_type, text) in files {
        let [plain, gzip] =
            [(path.to_owned(), text.as_bytes().to_vec()), (format!("{path}.gz"), compressed(text.as_bytes()))]
                .map(|(name, content)| form(&out.join(name), &content));
        let media_type = format!("{media_type}; charset=utf-8");
        writeln!(table, "    File {{ path: {path:?}, media_type: {media_type:?}, plain: {plain}, gzip: {gzip} }},")
            .expect("writing to a string succeeds");
    }
    table.push_str("]\n");
    write(&out.join("files.rs"), table.as_bytes());
}

/// Returns the expression that includes the form of the file.
fn form(path: &Path, content: &[u8]) -> String {
    write(path, content);
    let etag = format!("\"{:016x}\"", hash(content));
    format!("Form {{ etag: {etag:?}, content: include_bytes!({:?}) }}", path.to_str().expect("the path is UTF-8"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("reading {}: {error}", path.display()))
}

fn write(path: &Path, content: &[u8]) {
    fs::write(path, content).unwrap_or_else(|error| panic!("writing {}: {error}", path.display()));
}

fn compressed(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).and_then(|()| encoder.finish()).expect("writing to memory succeeds")
}

/// Computes the 64-bit FNV-1a hash. It distinguishes versions of a file and need not resist attacks.
fn hash(content: &[u8]) -> u64 {
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    content.iter().fold(0xCBF2_9CE4_8422_2325, add)
}
