//! A temporary folder that holds a data folder and a backup repository, and the commands that use them.

use crate::PROGRAM;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use test_support::Server;
use test_support::command::{CommandResult, Folder};

pub(crate) struct Place {
    pub(crate) folder: Folder,
    pub(crate) data: String,
    pub(crate) repository: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = PROGRAM.folder();
        let (data, repository) = (folder.path("data"), folder.path("backups"));
        Self { folder, data, repository }
    }

    pub(crate) fn serve(&self) -> Server {
        PROGRAM.start(&["--data", &self.data])
    }

    pub(crate) fn back_up(&self, more: &[&str]) -> Value {
        let ran = self.try_back_up(more);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        serde_json::from_str(&ran.stdout).unwrap()
    }

    pub(crate) fn try_back_up(&self, more: &[&str]) -> CommandResult {
        let arguments = ["--data", &self.data, "--to", &self.repository, "--quiet", "--json"];
        self.folder.run("backup", &[&arguments, more].concat(), &[])
    }

    pub(crate) fn try_restore(&self, name: &str, more: &[&str]) -> CommandResult {
        let data = self.folder.path(name);
        let arguments = ["--from", &self.repository, "--data", &data, "--quiet", "--json"];
        self.folder.run("restore", &[&arguments, more].concat(), &[])
    }

    pub(crate) fn restored(&self, name: &str, more: &[&str]) -> Server {
        let ran = self.try_restore(name, more);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        PROGRAM.start(&["--data", &self.folder.path(name)])
    }

    pub(crate) fn verify(&self) -> CommandResult {
        self.folder.run("backup", &["--verify", &self.repository], &[])
    }

    pub(crate) fn list(&self) -> Vec<String> {
        let ran = self.folder.run("backup", &["--list", &self.repository, "--json"], &[]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let line = |line: &str| serde_json::from_str::<Value>(line).unwrap()["backup"].as_str().unwrap().to_owned();
        ran.stdout.lines().map(line).collect()
    }

    pub(crate) fn repository_files(&self) -> Vec<PathBuf> {
        files(Path::new(&self.repository))
    }
}

pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}
