//! Runs commands as the pages of the documentation print them, except for hosts, users, folders and times.

use std::fs::OpenOptions;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the blocks in a language of a section of a page, and asserts how many there are. Removes their indentation.
pub(crate) fn blocks<const N: usize>(page: &str, heading: &str, language: &str) -> [String; N] {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page)).unwrap();
    let section = page.split_once(&format!("# {heading}\n")).unwrap().1;
    let section = section.split("\n##").next().unwrap();
    let fence = format!("```{language}\n");
    let found = section.match_indices(&fence).map(|(at, _)| {
        let (before, text) = section.split_at(at);
        let indentation = before.rsplit('\n').next().unwrap();
        let text = text[fence.len()..].split("```").next().unwrap();
        text.lines()
            .map(|line| line.strip_prefix(indentation).unwrap_or(line))
            .fold(String::new(), |all, line| all + line + "\n")
    });
    let found: Vec<_> = found.collect();
    found.try_into().unwrap_or_else(|found| panic!("{heading}, {language}: {found:?}"))
}

/// Replaces words of a block. Each of them must be in the block.
pub(crate) fn adapt(block: &str, words: &[(&str, &str)]) -> String {
    words.iter().fold(block.to_owned(), |text, (word, other)| {
        assert!(text.contains(word), "the page does not contain '{word}' here: {text}");
        text.replace(word, other)
    })
}

/// The machine of a database server.
pub(crate) struct Machine {
    folder: PathBuf,
    programs: String,
}

impl Machine {
    /// Everything is in the folder. The programs are in a different one.
    pub(crate) fn new(folder: PathBuf, programs: &str) -> Self {
        Self { folder, programs: programs.to_owned() }
    }

    pub(crate) fn at(&self, path: &str) -> String {
        self.folder.join(path).to_str().unwrap().to_owned()
    }

    /// Runs commands as the user that owns the data. Programs of PostgreSQL use the given port by default.
    pub(crate) fn run(&self, port: &str, commands: &str) {
        let log = self.folder.join("commands.log");
        // Servers that the commands start keep this file open.
        let output = OpenOptions::new().create(true).append(true).open(&log).unwrap();
        let owner = self.folder.metadata().unwrap();
        let mut shell = Command::new("bash");
        shell.args(["-euxc", commands]).current_dir(&self.folder).uid(owner.uid()).gid(owner.gid());
        shell.env("PATH", format!("{}:/usr/bin:/bin", self.programs)).env("PGPORT", port);
        shell.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let status = shell.status().unwrap();
        assert!(status.success(), "{}", std::fs::read_to_string(log).unwrap());
    }
}
