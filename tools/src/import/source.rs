//! What is imported: which files become which tables.

use crate::endpoints::TableSelection;
use crate::formats::{FileFormat, Manifest, hex};
use anyhow::{Context, anyhow, bail, ensure};
use model::{StoredAccessPolicies, TableName};
use ring::digest::{Context as Digest, SHA256};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where the lines of a table come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    StandardInput,
    File(PathBuf),
}

/// A table to import.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) table: TableName,
    pub(super) input: Input,
    pub(super) format: FileFormat,
    /// Nothing if the export left them out, or there was none.
    pub(super) policies: Option<StoredAccessPolicies>,
    /// What the file is to hold, if that is known.
    sha256: Option<String>,
}

/// Everything that is imported.
#[derive(Debug)]
pub(super) struct Source {
    /// What the state file knows it by.
    pub(super) name: String,
    /// The account that it was exported from.
    pub(super) account: Option<String>,
    pub(super) items: Vec<Item>,
}

impl Source {
    /// Finds what `--from` holds.
    pub(super) fn find(from: &Path, tables: &[String], format: Option<FileFormat>) -> anyhow::Result<Self> {
        if from == Path::new("-") {
            let [table] = tables else { bail!("standard input is one table: name it with --table") };
            let format = format.unwrap_or(FileFormat::Jsonl);
            let item =
                Item { table: table_name(table)?, input: Input::StandardInput, format, policies: None, sha256: None };
            return Ok(Self { name: "-".to_owned(), account: None, items: vec![item] });
        }
        let path = from.canonicalize().with_context(|| format!("reading --from {}", from.display()))?;
        let name = path.display().to_string();
        if !path.is_dir() {
            let table = match tables {
                [] => table_of(&path)?,
                [table] => table_name(table)?,
                _ => bail!("--from {} is one table, and --table names several", from.display()),
            };
            let items = vec![file_item(table, path, format)];
            return Ok(Self { name, account: None, items });
        }
        let selection = TableSelection::parse(tables)?;
        // Before the manifest, which may be that of an export that is being replaced.
        ensure!(
            !path.join("export.state.json").exists(),
            "the export in {} is not complete: finish it with the command that began it",
            path.display()
        );
        let (account, mut items) = match Manifest::read(&path)? {
            Some(manifest) => (Some(manifest.account.clone()), manifest_items(&path, &manifest)?),
            None => (None, folder_items(&path, format)?),
        };
        if let Some(missing) = selection.names().iter().find(|name| items.iter().all(|item| item.table != **name)) {
            bail!("--from {} has no table '{missing}'", from.display());
        }
        items.retain(|item| selection.wants(&item.table));
        ensure!(!items.is_empty(), "--from {} holds no table", from.display());
        Ok(Self { name, account, items })
    }
}

fn manifest_items(folder: &Path, manifest: &Manifest) -> anyhow::Result<Vec<Item>> {
    let item = |table: &crate::formats::ManifestTable| {
        let policies = table.policies.as_deref().map(crate::formats::policies_from).transpose();
        anyhow::Ok(Item {
            table: table_name(&table.name)?,
            input: Input::File(folder.join(&table.file)),
            format: manifest.file_format,
            policies: policies
                .with_context(|| format!("the policies of the table '{}' in the manifest", table.name))?,
            sha256: Some(table.sha256.clone()),
        })
    };
    manifest.tables.iter().map(item).collect()
}

/// The files of a folder that no export made, in the order of their names.
fn folder_items(folder: &Path, format: Option<FileFormat>) -> anyhow::Result<Vec<Item>> {
    let mut items = Vec::new();
    for file in std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = file?.path();
        if FileFormat::of(&path).is_some_and(|known| format.is_none_or(|wanted| wanted == known)) {
            items.push(file_item(table_of(&path)?, path, format));
        }
    }
    items.sort_by(|one, other| one.table.folded().cmp(other.table.folded()));
    if let Some([one, _]) = items.windows(2).find(|pair| matches!(pair, [one, other] if one.table == other.table)) {
        bail!("two files of {} are the table '{}': choose with --format", folder.display(), one.table);
    }
    Ok(items)
}

fn file_item(table: TableName, path: PathBuf, format: Option<FileFormat>) -> Item {
    let format = format.or_else(|| FileFormat::of(&path)).unwrap_or(FileFormat::Jsonl);
    Item { table, input: Input::File(path), format, policies: None, sha256: None }
}

fn table_name(name: &str) -> anyhow::Result<TableName> {
    TableName::new(name).map_err(|_| anyhow!("'{name}' is not a table name: that has 3 to 63 letters and digits"))
}

fn table_of(file: &Path) -> anyhow::Result<TableName> {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    table_name(stem).with_context(|| format!("{} does not say which table it is: name it with --table", file.display()))
}

impl Item {
    /// What tells that a file is the same as in an earlier run.
    pub(super) fn fingerprint(&self) -> anyhow::Result<Option<String>> {
        let Input::File(path) = &self.input else { return Ok(None) };
        let metadata = std::fs::metadata(path).with_context(|| format!("reading {}", path.display()))?;
        Ok(Some(format!("{} bytes, changed {}.{:09}", metadata.len(), metadata.mtime(), metadata.mtime_nsec())))
    }

    /// How long a file is, as far as that is known.
    pub(super) fn bytes(&self) -> u64 {
        match &self.input {
            Input::StandardInput => 0,
            Input::File(path) => std::fs::metadata(path).map_or(0, |metadata| metadata.len()),
        }
    }

    /// Refuses a file that is not what the export wrote.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let (Input::File(path), Some(expected)) = (&self.input, &self.sha256) else { return Ok(()) };
        let what = || format!("reading {}", path.display());
        let mut file = File::open(path).with_context(what)?;
        let mut digest = Digest::new(&SHA256);
        let mut buffer = vec![0; 1 << 20];
        loop {
            let read = file.read(&mut buffer).with_context(what)?;
            if read == 0 {
                break;
            }
            digest.update(buffer.get(..read).unwrap_or_default());
        }
        let found = hex(digest.finish().as_ref());
        ensure!(
            found == *expected,
            "{} is not what the export wrote: its checksum is another one than in export.json. Name the file itself \
             with --from to import it all the same",
            path.display()
        );
        Ok(())
    }

    /// What lines are told to be of.
    pub(super) fn shown(&self) -> String {
        match &self.input {
            Input::StandardInput => "standard input".to_owned(),
            Input::File(path) => path.display().to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_that_is_being_replaced_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("export.json", "not looked at"), ("export.state.json", "{}"), ("cars.jsonl", "")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let told = Source::find(folder.path(), &[], None).unwrap_err().to_string();
        assert!(told.contains("is not complete"), "{told}");
    }
}
