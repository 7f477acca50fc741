//! Projection: the `$select` option (specification 04 §4, 03 §3.5).
//!
//! This module must not depend on how properties are written.

use crate::error::{ErrorCode, ServiceError};
use crate::filter::selected_names;
use crate::reason::ReasonKind;
use crate::uri::encode_list;
use model::limits::SELECT_PROPERTIES_MAX;
use model::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use model::record::{DamagedRecord, Property, RecordView};

#[derive(Debug)]
pub(crate) struct Projection<'s, 'e> {
    pub(crate) present: Vec<Property<'e>>,
    /// The selected names that the entity lacks, to be written as null.
    pub(crate) missing: Vec<&'s str>,
}

/// The properties that a response contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Select {
    /// The unique names in the order of the list.
    names: Vec<String>,
    /// Indexes into `names`, ordered by name, for looking up stored properties.
    by_name: Vec<usize>,
    /// The list as written in `odata.metadata`.
    metadata_text: String,
}

impl Select {
    /// Parses the option's value. An empty list selects everything but still appears in `odata.metadata`. UNVERIFIED
    /// (04 §4): the error code for more than 255 names.
    pub fn parse(list: &str) -> Result<Self, ServiceError> {
        let selected = selected_names(list)?;
        let mut names: Vec<String> = Vec::new();
        for name in &selected {
            if !names.iter().any(|known| known == name) {
                names.push((*name).to_owned());
            }
            if names.len() > SELECT_PROPERTIES_MAX {
                let detail = format!("The list has more than {SELECT_PROPERTIES_MAX} different names.");
                let reason = ReasonKind::SelectInvalid.because(detail);
                return Err(ServiceError::from(ErrorCode::InvalidInput).because(reason));
            }
        }
        if selected.contains(&"*") {
            names.clear();
        }
        let mut by_name: Vec<usize> = (0..names.len()).collect();
        by_name.sort_by(|a, b| names.get(*a).cmp(&names.get(*b)));
        Ok(Self { names, by_name, metadata_text: encode_list(list) })
    }

    /// Returns true if all properties are selected.
    pub fn is_all(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the index of a name in the list, or `None` if the list does not contain it.
    pub fn position(&self, name: &[u8]) -> Option<usize> {
        let found =
            self.by_name.binary_search_by(|i| self.names.get(*i).map_or(&[][..], |known| known.as_bytes()).cmp(name));
        found.ok().and_then(|at| self.by_name.get(at)).copied()
    }

    /// Returns the names in the order of the list.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns true if a name is selected.
    pub fn has(&self, name: &str) -> bool {
        self.has_bytes(name.as_bytes())
    }

    /// Like [`Self::has`], for a name as stored in a record.
    pub(crate) fn has_bytes(&self, name: &[u8]) -> bool {
        self.is_all() || self.position(name).is_some()
    }

    /// Returns the selected custom properties of an entity in the ordinal order of their names, and the selected names
    /// that the entity lacks. Recorded: an entity inserted with `sex` before `age` is returned in that order without
    /// projection. With projection, `age` comes before `sex`, whatever the order of the list.
    pub(crate) fn project<'e>(&self, record: RecordView<'e>) -> Result<Projection<'_, 'e>, DamagedRecord> {
        let mut found: Vec<Option<Property<'e>>> = vec![None; self.names.len()];
        for property in record.properties() {
            let property = property?;
            if let Some(slot) = self.position(property.name_bytes()).and_then(|position| found.get_mut(position)) {
                *slot = Some(property);
            }
        }
        let present = self.by_name.iter().filter_map(|i| found.get(*i).copied().flatten()).collect();
        let is_system = |name: &str| matches!(name, PARTITION_KEY | ROW_KEY | TIMESTAMP);
        let lacking = self.names.iter().zip(&found).filter(|(name, found)| found.is_none() && !is_system(name));
        Ok(Projection { present, missing: lacking.map(|(name, _)| name.as_str()).collect() })
    }

    /// Returns the list as written in `odata.metadata`.
    pub fn metadata_text(&self) -> &str {
        &self.metadata_text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_and_kept_once() {
        let select = Select::parse("age, sex,age").unwrap();
        assert_eq!(select.names, ["age", "sex"]);
        assert_eq!(select.metadata_text(), "age,%20sex,age");
        assert_eq!((select.position(b"sex"), select.position(b"age"), select.position(b"x")), (Some(1), Some(0), None));
        assert!(Select::parse("").unwrap().is_all());
        assert!(Select::parse("*").unwrap().is_all());
        assert!(Select::parse("age,*").unwrap().is_all());
        assert!(Select::parse("age sex").is_err());
        let many = |n: usize| (0..n).map(|i| format!("p{i}")).collect::<Vec<_>>().join(",");
        assert!(Select::parse(&many(255)).is_ok());
        assert!(Select::parse(&many(256)).is_err());
    }
}
