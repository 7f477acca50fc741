use crate::digest::Sha256Writer;
use crate::endpoints::TableSelection;
use crate::formats::{ExportManifest, ExportedTable, FileFormat, STATE_NAME, decode_policies};
use crate::option_values::parse_table;
use anyhow::{Context, bail, ensure};
use model::{StoredAccessPolicies, TableName, TableSettings};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    StandardInput,
    File(PathBuf),
}

#[derive(Debug, Clone)]
pub(super) struct TableInput {
    pub(super) table: TableName,
    pub(super) input: Input,
    pub(super) format: FileFormat,
    /// `None` if the export contains no policies, or if no export wrote the file.
    pub(super) policies: Option<StoredAccessPolicies>,
    /// The default if no export wrote the file.
    pub(super) settings: TableSettings,
    /// The hash that the manifest contains, if there is a manifest.
    sha256: Option<String>,
}

#[derive(Debug)]
pub(super) struct ImportFiles {
    /// The name in the state file.
    pub(super) name: String,
    /// `None` if no export wrote the folder.
    pub(super) account: Option<String>,
    pub(super) tables: Vec<TableInput>,
}

impl ImportFiles {
    pub(super) fn find(
        option: &str,
        from: &Path,
        tables: &[String],
        format: Option<FileFormat>,
    ) -> anyhow::Result<Self> {
        if from == Path::new("-") {
            let [table] = tables else { bail!("standard input is one table: pass its name with --table") };
            let format = format.unwrap_or(FileFormat::Jsonl);
            let (table, input) = (parse_table(table)?, Input::StandardInput);
            let tables = vec![TableInput {
                table,
                input,
                format,
                policies: None,
                settings: TableSettings::default(),
                sha256: None,
            }];
            return Ok(Self { name: "-".to_owned(), account: None, tables });
        }
        let path = from.canonicalize().with_context(|| format!("reading {option} {}", from.display()))?;
        let name = path.display().to_string();
        if !path.is_dir() {
            let table = match tables {
                [] => table_of(&path)?,
                [table] => parse_table(table)?,
                _ => bail!("{option} {} is one table, but --table names several", from.display()),
            };
            let tables = vec![file_input(table, path, format)];
            return Ok(Self { name, account: None, tables });
        }
        let selection = TableSelection::parse(tables)?;
        // Check this before reading the manifest, which may belong to an export that is being replaced.
        ensure!(
            !path.join(STATE_NAME).exists(),
            "the export in {} is incomplete: finish it with the command that started it",
            path.display()
        );
        let (account, mut inputs) = match ExportManifest::read(&path)? {
            Some(manifest) => (Some(manifest.account.clone()), manifest_inputs(&path, &manifest)?),
            None => (None, folder_inputs(&path, format)?),
        };
        if let Some(missing) = selection.names().iter().find(|name| inputs.iter().all(|input| input.table != **name)) {
            bail!("{option} {} has no table '{missing}'", from.display());
        }
        inputs.retain(|input| selection.includes(&input.table));
        ensure!(!inputs.is_empty(), "{option} {} contains no tables", from.display());
        Ok(Self { name, account, tables: inputs })
    }

    /// Discards the hashes, because the files may have been changed since an export wrote them.
    pub(super) fn unchecked(mut self) -> Self {
        self.tables.iter_mut().for_each(|table| table.sha256 = None);
        self
    }
}

fn manifest_inputs(folder: &Path, manifest: &ExportManifest) -> anyhow::Result<Vec<TableInput>> {
    let input = |table: &ExportedTable| {
        let policies = table.policies.as_deref().map(decode_policies).transpose();
        anyhow::Ok(TableInput {
            table: parse_table(&table.name)?,
            input: Input::File(folder.join(&table.file)),
            format: manifest.file_format,
            policies: policies.with_context(|| format!("the policies of table '{}' in the manifest", table.name))?,
            settings: table
                .settings()
                .with_context(|| format!("the settings of table '{}' in the manifest", table.name))?,
            sha256: Some(table.sha256.clone()),
        })
    };
    manifest.tables.iter().map(input).collect()
}

/// The folder does not contain an export. The files are sorted by name.
fn folder_inputs(folder: &Path, format: Option<FileFormat>) -> anyhow::Result<Vec<TableInput>> {
    let mut inputs = Vec::new();
    for file in std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let file = file?;
        // Skip files that editors and other systems leave behind.
        if file.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = file.path();
        if FileFormat::from_path(&path).is_some_and(|known| format.is_none_or(|wanted| wanted == known)) {
            inputs.push(file_input(table_of(&path)?, path, format));
        }
    }
    inputs.sort_by(|one, other| one.table.folded().cmp(other.table.folded()));
    if let Some([one, _]) = inputs.windows(2).find(|pair| matches!(pair, [one, other] if one.table == other.table)) {
        bail!(
            "two files in {} are for table '{}': remove one, or pass --format if their formats differ",
            folder.display(),
            one.table
        );
    }
    Ok(inputs)
}

fn file_input(table: TableName, path: PathBuf, format: Option<FileFormat>) -> TableInput {
    let format = format.or_else(|| FileFormat::from_path(&path)).unwrap_or(FileFormat::Jsonl);
    TableInput {
        table,
        input: Input::File(path),
        format,
        policies: None,
        settings: TableSettings::default(),
        sha256: None,
    }
}

fn table_of(file: &Path) -> anyhow::Result<TableName> {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    parse_table(stem).with_context(|| {
        format!("the name of {} is not a table name: rename the file after its table, or pass --table", file.display())
    })
}

impl TableInput {
    /// Returns a value that changes when the file changes, or `None` for standard input.
    pub(super) fn fingerprint(&self) -> anyhow::Result<Option<String>> {
        let Input::File(path) = &self.input else { return Ok(None) };
        let metadata = std::fs::metadata(path).with_context(|| format!("reading {}", path.display()))?;
        let changed = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Some(format!("{} bytes, changed {}.{:09}", metadata.len(), changed.as_secs(), changed.subsec_nanos())))
    }

    /// Returns 0 if the length is unknown.
    pub(super) fn bytes(&self) -> u64 {
        match &self.input {
            Input::StandardInput => 0,
            Input::File(path) => std::fs::metadata(path).map_or(0, |metadata| metadata.len()),
        }
    }

    pub(super) fn check(&self) -> anyhow::Result<()> {
        let (Input::File(path), Some(expected)) = (&self.input, &self.sha256) else { return Ok(()) };
        let what = || format!("reading {}", path.display());
        let mut file = File::open(path).with_context(what)?;
        let mut hash = Sha256Writer::new(std::io::sink());
        std::io::copy(&mut file, &mut hash).with_context(what)?;
        let (_, _, found) = hash.finish();
        ensure!(
            found == *expected,
            "{} has changed since the export: its checksum differs from export.json. To import it anyway, \
             pass the file itself with --from",
            path.display()
        );
        Ok(())
    }

    /// Returns a name for messages.
    pub(super) fn name(&self) -> String {
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
        for (name, text) in [("export.json", "not read"), ("export.state.json", "{}"), ("cars.jsonl", "")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let error = ImportFiles::find("--from", folder.path(), &[], None).unwrap_err().to_string();
        assert!(error.contains("is incomplete"), "{error}");
    }
}
