use super::repository::{BackupManifest, Repository};
use crate::terminal::HumanCount;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fmt::Write as _;

#[derive(Debug)]
pub(super) struct ListedBackup {
    id: String,
    manifest: Result<BackupManifest, String>,
    /// The size of the chunks that no earlier backup contains.
    added_bytes: u64,
}

/// Returns the oldest backup first.
pub(super) fn list(repository: &Repository) -> anyhow::Result<Vec<ListedBackup>> {
    let mut seen = HashSet::new();
    let mut backups = Vec::new();
    for id in repository.backups()? {
        let manifest = repository.manifest(&id).map_err(|error| format!("{error:#}"));
        let chunks = manifest.iter().flat_map(BackupManifest::chunks);
        let new = chunks.filter(|entry| seen.insert(entry.sha256.clone()));
        let added_bytes = new.map(|entry| entry.stored).sum();
        backups.push(ListedBackup { id, manifest, added_bytes });
    }
    Ok(backups)
}

pub(super) fn text(backups: &[ListedBackup]) -> String {
    let mut text =
        format!("{:<40} {:<29} {:>7} {:>15} {:>15}\n", "BACKUP", "TIME", "TABLES", "ENTITIES", "ADDED BYTES");
    for ListedBackup { id, manifest, added_bytes } in backups {
        let line = match manifest {
            Ok(manifest) => format!(
                "{:<29} {:>7} {:>15} {:>15}",
                manifest.time,
                manifest.tables.len(),
                HumanCount(manifest.entities()).to_string(),
                HumanCount(*added_bytes).to_string()
            ),
            Err(damage) => damage.clone(),
        };
        writeln!(text, "{id:<40} {line}").expect("writing to memory cannot fail");
    }
    text
}

pub(super) fn json(backups: &[ListedBackup]) -> String {
    let mut text = String::new();
    for backup in backups {
        writeln!(text, "{}", value(backup)).expect("writing to memory cannot fail");
    }
    text
}

fn value(ListedBackup { id, manifest, added_bytes }: &ListedBackup) -> Value {
    match manifest {
        Ok(manifest) => json!({
            "backup": id,
            "time": manifest.time,
            "version": manifest.version,
            "tables": manifest.tables.len(),
            "entities": manifest.entities(),
            "bytes": manifest.bytes(),
            "added_bytes": added_bytes,
        }),
        Err(damage) => json!({ "backup": id, "damaged": damage }),
    }
}
