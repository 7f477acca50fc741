//! The files of the repository, for checks of it as text. The tests of the program include this file, too.

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the files in the repository whose names end with `ending`, except symbolic links, whose targets are in the
/// list.
pub(crate) fn files(ending: &str) -> Vec<String> {
    let listed = Command::new("git")
        // The folder may belong to another user: nothing in it is executed.
        .args(["-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    let found: Vec<_> = listed.lines().filter(|name| name.ends_with(ending)).map(str::to_owned).collect();
    assert!(!found.is_empty(), "no file of the repository ends with {ending}");
    let is_file = |name: &String| root().join(name).symlink_metadata().is_ok_and(|found| found.is_file());
    found.into_iter().filter(is_file).collect()
}
