//! The fields of a struct: their kinds, and whether they are compatible.
//!
//! Invariant: every property has a valid and unique name, and each key has a template whose fields exist.

use crate::attributes::Errors;
use crate::attributes::{FieldAttributes, TypeAttributes};
use crate::template::Template;
use model::limits::CUSTOM_PROPERTIES_MAX;
use model::name::{PARTITION_KEY, PropertyNameError, ROW_KEY, TIMESTAMP, check_property_name};
use std::collections::HashSet;
use syn::{FieldsNamed, Ident, Path, Type, Visibility};

pub(crate) struct Model<'a> {
    pub(crate) fields: Vec<Field<'a>>,
    pub(crate) partition: Template,
    pub(crate) row: Template,
}

pub(crate) struct Field<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) visibility: &'a Visibility,
    pub(crate) ty: &'a Type,
    pub(crate) kind: Kind,
}

pub(crate) enum Kind {
    /// A part of a key. It is also a property if `stored` contains a name.
    Key {
        stored: Option<String>,
    },
    Property(Property),
    /// Not stored. The path names a function that returns the value. Without a path, the value is the default of the
    /// type.
    Skip(Option<Path>),
    Rest,
    ETag,
    Timestamp,
}

pub(crate) struct Property {
    pub(crate) name: String,
    pub(crate) is_json: bool,
    pub(crate) is_encrypted: bool,
    pub(crate) mismatch: Mismatch,
}

/// The handling of a property that is missing or has a different type. The path names a function that returns the
/// replacement. Without a path, the replacement is the default of the type.
pub(crate) enum Mismatch {
    /// Both cases are errors.
    Error,
    /// Replaces a missing property.
    Default(Option<Path>),
    /// Replaces the property in both cases.
    Lenient(Option<Path>),
}

impl Field<'_> {
    /// Returns the name without `r#`.
    pub(crate) fn name(&self) -> String {
        plain_name(self.ident)
    }

    pub(crate) fn property(&self) -> Option<&str> {
        match &self.kind {
            Kind::Key { stored } => stored.as_deref(),
            Kind::Property(property) => Some(&property.name),
            _ => None,
        }
    }
}

impl<'a> Model<'a> {
    /// Adds all errors, not only the first.
    pub(crate) fn read(
        name: &Ident,
        of_type: &TypeAttributes,
        fields: &'a FieldsNamed,
        errors: &mut Errors,
    ) -> Option<Self> {
        let attributes: Vec<_> = fields.named.iter().map(|field| FieldAttributes::read(&field.attrs, errors)).collect();
        let idents: Vec<_> = fields.named.iter().filter_map(|field| field.ident.as_ref()).collect();
        let partition = key(name, Key::Partition, of_type, &idents, &attributes, errors);
        let row = key(name, Key::Row, of_type, &idents, &attributes, errors);
        let in_keys: HashSet<String> = [&partition, &row]
            .into_iter()
            .flatten()
            .flat_map(Template::fields)
            .map(|(field, _)| field.to_owned())
            .collect();
        let mut read = Vec::new();
        for ((field, ident), attributes) in fields.named.iter().zip(idents).zip(&attributes) {
            let is_key = in_keys.contains(&plain_name(ident))
                || attributes.partition_key.is_some()
                || attributes.row_key.is_some();
            check_combination(is_key, attributes, errors);
            let kind = kind(ident, is_key, of_type, attributes);
            read.push(Field { ident, visibility: &field.vis, ty: &field.ty, kind });
        }
        check_names(&read, errors);
        check_singles(&read, &attributes, errors);
        Some(Self { fields: read, partition: partition?, row: row? })
    }
}

pub(crate) fn plain_name(ident: &Ident) -> String {
    let name = ident.to_string();
    name.strip_prefix("r#").map(str::to_owned).unwrap_or(name)
}

#[derive(Clone, Copy)]
enum Key {
    Partition,
    Row,
}

/// The template is given on the type or on the field that is the key.
fn key(
    name: &Ident,
    key: Key,
    of_type: &TypeAttributes,
    idents: &[&Ident],
    attributes: &[FieldAttributes],
    errors: &mut Errors,
) -> Option<Template> {
    let (attribute, words, template) = match key {
        Key::Partition => ("partition_key", "partition key", of_type.partition_key.as_ref()),
        Key::Row => ("row_key", "row key", of_type.row_key.as_ref()),
    };
    let mut found = template.map(|at| at.value.clone());
    if let Some(template) = template {
        for (field, _) in template.value.fields() {
            if !idents.iter().any(|ident| plain_name(ident) == field) {
                errors.add(&template.path, format!("the {words} refers to the field `{field}`, which does not exist"));
            }
        }
        let mut seen = HashSet::new();
        if let Some((twice, _)) = template.value.fields().find(|(field, _)| !seen.insert(*field)) {
            errors.add(&template.path, format!("the {words} contains the field `{twice}` twice"));
        }
    }
    for (ident, attributes) in idents.iter().zip(attributes) {
        let at = match key {
            Key::Partition => &attributes.partition_key,
            Key::Row => &attributes.row_key,
        };
        let Some(at) = at else { continue };
        if found.is_some() {
            errors.add(&at.path, format!("there are two {words}s"));
        } else {
            found = Some(Template::of_field(plain_name(ident), attributes.format()));
        }
    }
    if found.is_none() {
        let place =
            format!("mark a field with `#[entity({attribute})]`, or add `#[entity({attribute} = \"…\")]` to the type");
        errors.add(name, format!("the {words} is missing: {place}"));
    }
    found
}

/// Attributes with restrictions. Each is followed by the attributes with which it can be combined.
const COMPANIONS: &[(&str, &[&str])] = &[
    ("partition_key", &["padded", "inverted", "stored", "rename"]),
    ("row_key", &["padded", "inverted", "stored", "rename"]),
    ("skip", &["default"]),
    ("rest", &[]),
    ("etag", &[]),
    ("timestamp", &[]),
    ("json", &["rename", "default", "lenient", "encrypt"]),
];

fn check_combination(is_key: bool, attributes: &FieldAttributes, errors: &mut Errors) {
    let given = attributes.given();
    for (name, path) in &given {
        let Some((_, companions)) = COMPANIONS.iter().find(|(known, _)| known == name) else { continue };
        let other = given.iter().find(|(other, _)| other != name && !companions.contains(other));
        if let Some((other, _)) = other {
            errors.add(path, format!("`{name}` and `{other}` are mutually exclusive"));
            return;
        }
    }
    let is_marked = attributes.partition_key.is_some() || attributes.row_key.is_some();
    if let (Some(_), Some(inverted)) = (&attributes.padded, &attributes.inverted) {
        errors.add(&inverted.path, "`padded` and `inverted` are mutually exclusive");
    }
    for (name, path) in given {
        match name {
            "padded" | "inverted" if !is_marked => {
                errors.add(path, format!("`{name}` applies only to a field marked `partition_key` or `row_key`"));
            }
            "stored" if !is_key => {
                errors.add(path, "`stored` applies only to key fields; other fields are always stored");
            }
            "rename" if is_key && attributes.stored.is_none() => {
                errors.add(
                    path,
                    "a key field is not stored as a property, so it has no property name; add `stored` to store it",
                );
            }
            "default" | "lenient" | "skip" | "json" | "rest" | "etag" | "timestamp" | "encrypt" if is_key => {
                errors.add(path, format!("`{name}` cannot be used on a key field"));
            }
            _ => {}
        }
    }
}

fn kind(ident: &Ident, is_key: bool, of_type: &TypeAttributes, attributes: &FieldAttributes) -> Kind {
    let name = || match (&attributes.rename, &of_type.rename_all) {
        (Some(rename), _) => rename.value.value(),
        (None, Some(rule)) => rule.value.apply(&plain_name(ident)),
        (None, None) => plain_name(ident),
    };
    let default = attributes.default.as_ref().map(|at| at.value.clone());
    if is_key {
        return Kind::Key { stored: attributes.stored.as_ref().map(|_| name()) };
    }
    if attributes.skip.is_some() {
        return Kind::Skip(default.flatten());
    }
    if attributes.rest.is_some() {
        return Kind::Rest;
    }
    if attributes.etag.is_some() {
        return Kind::ETag;
    }
    if attributes.timestamp.is_some() {
        return Kind::Timestamp;
    }
    let ignores_mismatch = of_type.ignores_mismatch.as_ref().is_some_and(|at| at.value);
    let mismatch = match (attributes.lenient.is_some(), default) {
        (true, default) => Mismatch::Lenient(default.flatten()),
        (false, Some(default)) => Mismatch::Default(default),
        (false, None) if ignores_mismatch => Mismatch::Lenient(None),
        (false, None) => Mismatch::Error,
    };
    Kind::Property(Property {
        name: name(),
        is_json: attributes.json.is_some(),
        is_encrypted: attributes.encrypt.is_some(),
        mismatch,
    })
}

fn check_names(fields: &[Field<'_>], errors: &mut Errors) {
    let mut seen = HashSet::new();
    for field in fields {
        let Some(name) = field.property() else { continue };
        if [PARTITION_KEY, ROW_KEY, TIMESTAMP].contains(&name) {
            errors.add(field.ident, format!("`{name}` is the name of a system property; choose a different name"));
        }
        match check_property_name(name) {
            Ok(()) => {}
            Err(PropertyNameError::TooLong) => {
                errors.add(field.ident, "a property name can have at most 255 UTF-16 code units");
            }
            Err(PropertyNameError::Invalid) => errors.add(
                field.ident,
                format!("`{name}` is not a property name: use a letter or `_`, then letters, digits and `_`"),
            ),
        }
        if !seen.insert(name) {
            errors.add(field.ident, format!("two properties have the name `{name}`"));
        }
    }
    if seen.len() > CUSTOM_PROPERTIES_MAX
        && let Some(last) = fields.last()
    {
        errors.add(last.ident, format!("an entity can have at most {CUSTOM_PROPERTIES_MAX} properties"));
    }
}

/// Checks that no two fields have a role that is unique in an entity.
fn check_singles(fields: &[Field<'_>], attributes: &[FieldAttributes], errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (field, attributes) in fields.iter().zip(attributes) {
        let (name, at) = match field.kind {
            Kind::Rest => ("rest", &attributes.rest),
            Kind::ETag => ("etag", &attributes.etag),
            Kind::Timestamp => ("timestamp", &attributes.timestamp),
            _ => continue,
        };
        if let (false, Some(at)) = (seen.insert(name), at) {
            errors.add(&at.path, format!("two fields are marked `{name}`"));
        }
    }
}
