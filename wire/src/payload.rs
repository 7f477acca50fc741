//! Entities and tables in whichever format a request has: the one place that chooses between JSON and Atom.

use crate::entity_body::{BodyError, EntityBody, Keys};
use crate::negotiation::{Format, MetadataLevel};
use crate::select::Select;
use crate::version::Version;
use crate::{atom, json};
use model::record::DamagedRecord;
use model::{AccountName, DateTime, EntityView};

/// How an answer is written.
#[derive(Debug, Clone, Copy)]
pub struct Form<'a> {
    /// Scheme, host and, in path style, the account: `http://127.0.0.1:10002/acct`.
    pub base: &'a str,
    /// The account.
    pub account: &'a AccountName,
    /// The format.
    pub format: Format,
    /// The service version.
    pub version: Version,
    /// The time of the answer, which Atom shows.
    pub now: DateTime,
}

impl<'a> Form<'a> {
    fn json(&self, level: MetadataLevel) -> json::Context<'a> {
        json::Context { base: self.base, account: self.account, level }
    }

    fn atom(&self) -> atom::Form<'a> {
        let is_old = self.version < Version::JSON;
        atom::Form { base: self.base, account: self.account, updated: self.now, is_old }
    }
}

/// How entities of one table are written.
#[derive(Debug, Clone, Copy)]
pub struct EntityForm<'a> {
    /// How the answer is written.
    pub form: Form<'a>,
    /// The table, as the request spells it.
    pub table: &'a str,
    /// Which properties are written; `None` writes all.
    pub select: Option<&'a Select>,
}

impl<'a> EntityForm<'a> {
    fn json(&self, level: MetadataLevel) -> json::EntityForm<'a> {
        let etag_in_minimal = self.form.version >= Version::ETAG_IN_MINIMAL;
        json::EntityForm { context: self.form.json(level), table: self.table, select: self.select, etag_in_minimal }
    }

    fn atom(&self) -> atom::EntityForm<'a> {
        atom::EntityForm { form: self.form.atom(), table: self.table, select: self.select }
    }
}

/// Reads the body of an insert, update, merge or upsert.
pub fn read_entity(format: Format, body: &[u8], keys: Keys) -> Result<EntityBody, BodyError> {
    match format {
        Format::Json(_) => json::read_entity(body, keys),
        Format::Atom => atom::read_entity(body, keys),
    }
}

/// Reads the body of Create Table: the table's name as it stands, if there is one.
pub fn read_table(format: Format, body: &[u8]) -> Result<Option<String>, BodyError> {
    match format {
        Format::Json(_) => json::read_table(body),
        Format::Atom => atom::read_table(body),
    }
}

/// Writes one entity as the whole answer.
pub fn write_single_entity(
    out: &mut Vec<u8>,
    form: &EntityForm<'_>,
    entity: &EntityView<'_>,
) -> Result<(), DamagedRecord> {
    match form.form.format {
        Format::Json(level) => json::write_single_entity(out, &form.json(level), entity),
        Format::Atom => atom::write_single_entity(out, &form.atom(), entity),
    }
}

/// Writes what stands before the first entity of a set.
pub fn write_start_of_entity_set(out: &mut Vec<u8>, form: &EntityForm<'_>, is_empty: bool) {
    match form.form.format {
        Format::Json(level) => json::write_start_of_entity_set(out, &form.json(level)),
        Format::Atom => atom::write_start_of_entity_feed(out, &form.atom(), is_empty),
    }
}

/// Writes one entity of a set.
pub fn write_entity_in_set(
    out: &mut Vec<u8>,
    form: &EntityForm<'_>,
    entity: &EntityView<'_>,
    is_first: bool,
) -> Result<(), DamagedRecord> {
    match form.form.format {
        Format::Json(level) => {
            if !is_first {
                out.push(b',');
            }
            json::write_entity_in_set(out, &form.json(level), entity)
        }
        Format::Atom => atom::write_entity_in_feed(out, &form.atom(), entity),
    }
}

/// Writes what stands behind the last entity of a set.
pub fn end_entity_set(out: &mut Vec<u8>, format: Format) {
    match format {
        Format::Json(_) => json::end_entity_set(out),
        Format::Atom => atom::end_feed(out),
    }
}

/// Writes the answer to Create Table and to the read of one table entry.
pub fn write_single_table(out: &mut Vec<u8>, form: Form<'_>, table: &str) {
    match form.format {
        Format::Json(level) => json::write_single_table(out, &form.json(level), table),
        Format::Atom => atom::write_single_table(out, form.atom(), table),
    }
}

/// Writes the answer to Query Tables.
pub fn write_table_set<'t>(out: &mut Vec<u8>, form: Form<'_>, tables: impl Iterator<Item = &'t str>) {
    match form.format {
        Format::Json(level) => json::write_table_set(out, &form.json(level), tables),
        Format::Atom => atom::write_table_feed(out, form.atom(), tables),
    }
}
