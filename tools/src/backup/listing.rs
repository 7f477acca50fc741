//! The backups of a repository, for people and for programs.

use super::manifest::Manifest;
use super::repository::Repository;
use crate::endpoints::grouped;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fmt::Write as _;

/// A backup that there is.
#[derive(Debug)]
pub(super) struct Listed {
    id: String,
    /// Its manifest, or what is wrong with it.
    manifest: Result<Manifest, String>,
    /// Bytes of chunks that no earlier backup has.
    added_bytes: u64,
}

/// All backups, the oldest first.
pub(super) fn listed(repository: &Repository) -> anyhow::Result<Vec<Listed>> {
    let mut seen = HashSet::new();
    let mut listed = Vec::new();
    for id in repository.backups()? {
        let manifest = repository.manifest(&id).map_err(|error| format!("{error:#}"));
        let chunks = manifest.iter().flat_map(Manifest::chunks);
        let new = chunks.filter(|entry| seen.insert(entry.sha256.clone()));
        let added_bytes = new.map(|entry| entry.stored).sum();
        listed.push(Listed { id, manifest, added_bytes });
    }
    Ok(listed)
}

/// A table for people.
pub(super) fn text(listed: &[Listed]) -> String {
    let mut text =
        format!("{:<40} {:<29} {:>7} {:>15} {:>15}\n", "BACKUP", "TIME", "TABLES", "ENTITIES", "ADDED BYTES");
    for Listed { id, manifest, added_bytes } in listed {
        let line = match manifest {
            Ok(manifest) => format!(
                "{:<29} {:>7} {:>15} {:>15}",
                manifest.time,
                manifest.tables.len(),
                grouped(manifest.entities()),
                grouped(*added_bytes)
            ),
            Err(wrong) => wrong.clone(),
        };
        writeln!(text, "{id:<40} {line}").expect("writing to memory does not fail");
    }
    text
}

/// A line of JSON for each backup.
pub(super) fn json(listed: &[Listed]) -> String {
    let mut text = String::new();
    for backup in listed {
        writeln!(text, "{}", value(backup)).expect("writing to memory does not fail");
    }
    text
}

fn value(Listed { id, manifest, added_bytes }: &Listed) -> Value {
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
        Err(wrong) => json!({ "backup": id, "damaged": wrong }),
    }
}
