use super::coverage::{Continuation, ListedParts};
use super::repository::{BackupManifest, Repository, seven_digits};
use crate::terminal::HumanCount;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fmt::Write as _;

#[derive(Debug)]
pub(super) struct ListedBackup {
    id: String,
    manifest: Result<BackupManifest, String>,
    /// The size of the chunks that no earlier backup needs.
    added_bytes: u64,
    /// `None` if the backup does not say where a log continues it.
    continuation: Option<Continuation>,
}

impl ListedBackup {
    /// Returns the time up to which the log continues the backup.
    fn restorable_to(&self) -> Option<String> {
        self.continuation.as_ref()?.until.map(seven_digits)
    }
}

/// Returns the oldest backup first.
pub(super) fn list(repository: &Repository) -> anyhow::Result<Vec<ListedBackup>> {
    let mut seen = HashSet::new();
    let mut backups = Vec::new();
    let parts = ListedParts::list(repository)?;
    repository.read_ahead(
        &repository.backups()?,
        |id| repository.manifest(id),
        |id, manifest| {
            let manifest = manifest.map_err(|error| format!("{error:#}"));
            let files = manifest.iter().flat_map(BackupManifest::files);
            let new = files.filter(|file| seen.insert(file.sha256.clone()));
            let added_bytes = new.map(|file| file.stored).sum();
            let continuation = manifest.as_ref().ok().and_then(|manifest| parts.continuation(manifest));
            backups.push(ListedBackup { id: id.clone(), manifest, added_bytes, continuation });
            Ok(())
        },
    )?;
    Ok(backups)
}

pub(super) fn text(backups: &[ListedBackup]) -> String {
    let mut text = format!(
        "{:<40} {:<29} {:>7} {:>15} {:>15} {}\n",
        "BACKUP", "TIME", "TABLES", "ENTITIES", "ADDED BYTES", "LOG UNTIL"
    );
    for backup in backups {
        let line = match &backup.manifest {
            Ok(manifest) => format!(
                "{:<29} {:>7} {:>15} {:>15} {}",
                manifest.time,
                manifest.tables.len(),
                HumanCount(manifest.entities()).to_string(),
                HumanCount(backup.added_bytes).to_string(),
                backup.restorable_to().unwrap_or_else(|| "-".to_owned())
            ),
            Err(damage) => damage.clone(),
        };
        writeln!(text, "{:<40} {line}", backup.id).expect("writing to memory cannot fail");
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

fn value(backup: &ListedBackup) -> Value {
    match &backup.manifest {
        Ok(manifest) => json!({
            "backup": backup.id,
            "time": manifest.time,
            "version": manifest.version,
            "tables": manifest.tables.len(),
            "entities": manifest.entities(),
            "bytes": manifest.bytes(),
            "added_bytes": backup.added_bytes,
            "position": manifest.log.as_ref().map(|log| log.position.saturating_sub(1)),
            "restorable_to": backup.restorable_to(),
            "restorable_to_position": backup.continuation.as_ref().map(|continuation| continuation.next.saturating_sub(1)),
        }),
        Err(damage) => json!({ "backup": backup.id, "damaged": damage }),
    }
}
