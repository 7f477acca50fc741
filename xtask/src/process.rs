//! Processes that this program starts.

use std::path::PathBuf;

/// Returns the path of a program in the `PATH`.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let name = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(&name)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_the_path() {
        assert!(find("cargo").is_some());
        assert!(find("no-program-has-this-name").is_none());
    }
}
