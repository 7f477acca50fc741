//! Provides the program with the source revision that it is built from.
//!
//! The revision comes from the variable `ROWHOUSE_REVISION`, or else from the repository if this is a clone. A build
//! from a release archive has no revision.

use std::path::Path;
use std::process::Command;

const VARIABLE: &str = "ROWHOUSE_REVISION";

fn main() {
    println!("cargo:rerun-if-env-changed={VARIABLE}");
    println!("cargo:rerun-if-changed=build.rs");
    let revision = std::env::var(VARIABLE).ok().filter(|revision| !revision.is_empty()).or_else(clone_commit);
    if let Some(revision) = revision {
        println!("cargo:rustc-env={VARIABLE}={revision}");
    }
}

/// Returns the commit of the clone that contains this folder, if there is one.
fn clone_commit() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    // A release archive may have been unpacked inside another repository.
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let revision = git(root, &["rev-parse", "HEAD"])?;
    // These files change with each commit, and only then.
    let branch = git(root, &["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        let path = root.join(git(root, &["rev-parse", "--git-path", name])?);
        // A path that does not exist would make Cargo rebuild every time.
        if path.exists() {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    Some(revision)
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
