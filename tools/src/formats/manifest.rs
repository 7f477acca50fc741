use super::FileFormat;
use anyhow::{Context, anyhow, ensure};
use model::limits::{EXPORT_MANIFEST_BYTES_MAX, TABLE_INDEXES_MAX};
use model::{
    DateTime, IndexedProperty, Permissions, Retention, StoredAccessPolicies, StoredAccessPolicy, TableSettings,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

pub(crate) const MANIFEST_NAME: &str = "export.json";
pub(crate) const STATE_NAME: &str = "export.state.json";
pub(crate) const MANIFEST_FORMAT: u32 = 1;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ExportManifest {
    pub(crate) format: u32,
    pub(crate) made_by: String,
    pub(crate) finished: String,
    /// The source, without secrets.
    pub(crate) from: String,
    pub(crate) account: String,
    pub(crate) file_format: FileFormat,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) filter: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) select: Vec<String>,
    pub(crate) with_timestamps: bool,
    pub(crate) tables: Vec<ExportedTable>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExportedTable {
    pub(crate) name: String,
    /// The name of a file in the folder of the manifest.
    pub(crate) file: String,
    pub(crate) entities: u64,
    pub(crate) bytes: u64,
    /// The hash in hexadecimal.
    pub(crate) sha256: String,
    /// `None` if they were skipped.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) policies: Option<Vec<ExportedPolicy>>,
    /// `None` if the table has none, or if the policies were skipped.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) retention: Option<ExportedRetention>,
    /// The properties that have an index. Empty if there are none, or if the policies were skipped.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) indexes: Vec<String>,
}

impl ExportedTable {
    pub(crate) fn settings(&self) -> anyhow::Result<TableSettings> {
        let index = |name: &String| {
            IndexedProperty::new(name).with_context(|| format!("the property '{name}' cannot have an index"))
        };
        let distinct = self.indexes.iter().collect::<BTreeSet<_>>().len();
        ensure!(
            distinct == self.indexes.len() && distinct <= TABLE_INDEXES_MAX,
            "a table can have indexes of at most {TABLE_INDEXES_MAX} different properties"
        );
        Ok(TableSettings {
            retention: self.retention.as_ref().map(ExportedRetention::decode).transpose()?,
            indexes: self.indexes.iter().map(index).collect::<anyhow::Result<_>>()?,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExportedRetention {
    /// `None` if the retention follows the Timestamp.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    property: Option<String>,
    seconds: u32,
}

impl ExportedRetention {
    pub(crate) fn new(retention: &Retention) -> Self {
        Self { property: retention.property().map(str::to_owned), seconds: retention.seconds() }
    }

    fn decode(&self) -> anyhow::Result<Retention> {
        let retention = match &self.property {
            None => Retention::by_age(self.seconds),
            Some(property) => Retention::by_property(property, self.seconds),
        };
        retention.context("the property or the number of seconds of the retention is not valid")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExportedPolicy {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    start: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    expiry: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    permissions: Option<String>,
}

pub(crate) fn encode_policies(policies: &StoredAccessPolicies) -> Vec<ExportedPolicy> {
    let policies = policies.as_slice().iter().map(|policy| ExportedPolicy {
        id: policy.id().to_owned(),
        start: policy.start.map(|time| time.to_string()),
        expiry: policy.expiry.map(|time| time.to_string()),
        permissions: policy.permissions.map(|permissions| permissions.to_string()),
    });
    policies.collect()
}

pub(crate) fn decode_policies(policies: &[ExportedPolicy]) -> anyhow::Result<StoredAccessPolicies> {
    let time = |text: &String| DateTime::parse(text).map_err(|_| anyhow!("'{text}' is not a valid time"));
    let read = policies.iter().map(|policy| {
        let mut read = StoredAccessPolicy::new(&policy.id).context("a policy ID is empty or too long")?;
        read.start = policy.start.as_ref().map(time).transpose()?;
        read.expiry = policy.expiry.as_ref().map(time).transpose()?;
        let letters = |letters: &String| {
            Permissions::parse_table(letters)
                .with_context(|| format!("'{letters}' are not valid permissions of a policy"))
        };
        read.permissions = policy.permissions.as_ref().map(letters).transpose()?;
        anyhow::Ok(read)
    });
    StoredAccessPolicies::new(read.collect::<anyhow::Result<_>>()?)
        .context("a table has more than five policies, or two with the same ID")
}

impl ExportManifest {
    /// Returns `None` if the folder has no manifest.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Option<Self>> {
        let path = folder.join(MANIFEST_NAME);
        let what = || format!("reading {}", path.display());
        let file = match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file.with_context(what)?,
        };
        let mut text = Vec::new();
        file.take(EXPORT_MANIFEST_BYTES_MAX as u64).read_to_end(&mut text).with_context(what)?;
        let manifest: Self = serde_json::from_slice(&text)
            .with_context(|| format!("{} is not an export manifest that this version can read", path.display()))?;
        ensure!(
            manifest.format == MANIFEST_FORMAT,
            "{} was written by {}, but this version reads only format {MANIFEST_FORMAT}",
            path.display(),
            manifest.made_by
        );
        for table in &manifest.tables {
            // A manifest from elsewhere must not refer to files outside its folder.
            let is_name = !table.file.contains(['/', '\\']) && !table.file.starts_with('.');
            ensure!(is_name, "{} names the file '{}', which is not in its folder", path.display(), table.file);
        }
        Ok(Some(manifest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_back() {
        let mut full = StoredAccessPolicy::new("a & b").unwrap();
        full.start = Some(DateTime::parse("2031-03-01T09:30:00.1234567Z").unwrap());
        full.expiry = Some(DateTime::parse("2031-04-01T00:00:00Z").unwrap());
        full.permissions = Permissions::parse_table("raud");
        let policies = StoredAccessPolicies::new(vec![full, StoredAccessPolicy::new("open").unwrap()]).unwrap();
        let text = serde_json::to_string(&encode_policies(&policies)).unwrap();
        assert_eq!(decode_policies(&serde_json::from_str::<Vec<_>>(&text).unwrap()).unwrap(), policies);
        for bad in [
            "[{\"id\":\"\"}]",
            "[{\"id\":\"a\"},{\"id\":\"a\"}]",
            "[{\"id\":\"a\",\"start\":\"x\"}]",
            "[{\"id\":\"a\",\"permissions\":\"x\"}]",
        ] {
            assert!(decode_policies(&serde_json::from_str::<Vec<_>>(bad).unwrap()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_manifest_that_leads_elsewhere_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(ExportManifest::read(folder.path()).unwrap().is_none());
        for (file, format, expected) in [("../t.jsonl", 1, "not in its folder"), ("t.jsonl", 2, "reads only format 1")]
        {
            let table = format!("{{\"name\":\"t\",\"file\":\"{file}\",\"entities\":0,\"bytes\":0,\"sha256\":\"\"}}");
            let text = format!(
                "{{\"format\":{format},\"made_by\":\"rowhouse 9\",\"finished\":\"\",\"from\":\"\",\"account\":\"a\",\
                 \"file_format\":\"jsonl\",\"with_timestamps\":false,\"tables\":[{table}]}}"
            );
            std::fs::write(folder.path().join(MANIFEST_NAME), text).unwrap();
            let error = ExportManifest::read(folder.path()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn retentions_are_read_back() {
        for retention in [Retention::by_age(60), Retention::by_property("Ends", 0)].map(Option::unwrap) {
            let text = serde_json::to_string(&ExportedRetention::new(&retention)).unwrap();
            assert_eq!(serde_json::from_str::<ExportedRetention>(&text).unwrap().decode().unwrap(), retention);
        }
        for bad in [r#"{"seconds":0}"#, r#"{"property":"a b","seconds":1}"#] {
            assert!(serde_json::from_str::<ExportedRetention>(bad).unwrap().decode().is_err(), "{bad}");
        }
    }
}
