//! Builds the files that the server sends from `web/`: two scripts from its modules and style sheets, and a compressed
//! form of every file. No program other than the compiler is needed. Without the feature `files`, there are none.

#![allow(clippy::print_stdout, reason = "Cargo reads what a build script prints")]

#[cfg(feature = "files")]
mod bundle;
#[cfg(feature = "files")]
mod files;

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    for path in ["build", "web", "patterns.md"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets it"));
    #[cfg(feature = "files")]
    let table = files::build(&PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("Cargo sets it")), &out);
    #[cfg(not(feature = "files"))]
    let table = "&[]\n";
    let path = out.join("files.rs");
    fs::write(&path, table).unwrap_or_else(|error| panic!("writing {}: {error}", path.display()));
}
