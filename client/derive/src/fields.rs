//! The fields of a struct: what each of them is, and whether they go together.
//!
//! Invariant: every property has a valid name, and no two have the same one; each key has a template whose fields exist.

use crate::attributes::{FieldAttributes, TypeAttributes};
use crate::errors::Errors;
use crate::template::Template;
use model::limits::CUSTOM_PROPERTIES_MAX;
use model::name::{PARTITION_KEY, PropertyNameError, ROW_KEY, TIMESTAMP, check_property_name};
use std::collections::HashSet;
use syn::{FieldsNamed, Ident, Path, Type, Visibility};

/// A struct whose attributes are checked.
pub(crate) struct Model<'a> {
    pub(crate) fields: Vec<Field<'a>>,
    pub(crate) partition: Template,
    pub(crate) row: Template,
}

/// A field of the struct.
pub(crate) struct Field<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) visibility: &'a Visibility,
    pub(crate) ty: &'a Type,
    pub(crate) kind: Kind,
}

/// What a field is.
pub(crate) enum Kind {
    /// A part of a key, and perhaps a property of this name.
    Key { stored: Option<String> },
    /// A custom property.
    Property(Property),
    /// Not stored. The path makes its value; without one it is the default of the type.
    Skip(Option<Path>),
    /// All properties that no other field is.
    Rest,
    /// The `ETag`.
    ETag,
    /// The instant of the last write.
    Timestamp,
}

/// A custom property.
pub(crate) struct Property {
    pub(crate) name: String,
    pub(crate) is_json: bool,
    pub(crate) is_encrypted: bool,
    pub(crate) mismatch: Mismatch,
}

/// What a field becomes if its property is missing or has another type. A path makes the value; without one it is the
/// default of the type.
pub(crate) enum Mismatch {
    /// Both are errors.
    Error,
    /// A missing property is replaced.
    Default(Option<Path>),
    /// Both are replaced.
    Lenient(Option<Path>),
}

impl Field<'_> {
    /// The name of the field, without `r#`.
    pub(crate) fn name(&self) -> String {
        plain_name(self.ident)
    }

    /// The name of its property, if it has one.
    pub(crate) fn property(&self) -> Option<&str> {
        match &self.kind {
            Kind::Key { stored } => stored.as_deref(),
            Kind::Property(property) => Some(&property.name),
            _ => None,
        }
    }
}

impl<'a> Model<'a> {
    /// Reads the fields of a struct. All errors are added.
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

/// The template of a key: that of the type, or that of the field that is the key.
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
                errors.add(&template.path, format!("the {words} names the field `{field}`, which does not exist"));
            }
        }
        let mut seen = HashSet::new();
        if let Some((twice, _)) = template.value.fields().find(|(field, _)| !seen.insert(*field)) {
            errors.add(&template.path, format!("the {words} names the field `{twice}` twice"));
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
            format!("mark a field with `#[entity({attribute})]`, or give the type `#[entity({attribute} = \"…\")]`");
        errors.add(name, format!("there is no {words}: {place}"));
    }
    found
}

/// Each attribute with those that it can stand beside.
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
            errors.add(path, format!("`{name}` and `{other}` exclude each other"));
            return;
        }
    }
    let is_marked = attributes.partition_key.is_some() || attributes.row_key.is_some();
    if let (Some(_), Some(inverted)) = (&attributes.padded, &attributes.inverted) {
        errors.add(&inverted.path, "`padded` and `inverted` exclude each other");
    }
    for (name, path) in given {
        match name {
            "padded" | "inverted" if !is_marked => {
                errors.add(path, format!("`{name}` is for a field that is marked with `partition_key` or `row_key`"));
            }
            "stored" if !is_key => errors.add(path, "`stored` is for fields of keys; other fields are always stored"),
            "rename" if is_key && attributes.stored.is_none() => {
                errors.add(
                    path,
                    "a key field is not stored as a property, so it has no name; add `stored` if it is to be",
                );
            }
            "default" | "lenient" | "skip" | "json" | "rest" | "etag" | "timestamp" | "encrypt" if is_key => {
                errors.add(path, format!("`{name}` is not for a field of a key"));
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
            errors.add(field.ident, format!("`{name}` is the name of a system property; give the field another one"));
        }
        match check_property_name(name) {
            Ok(()) => {}
            Err(PropertyNameError::TooLong) => {
                errors.add(field.ident, "the name of a property has at most 255 UTF-16 code units");
            }
            Err(PropertyNameError::Invalid) => errors.add(
                field.ident,
                format!("`{name}` is not the name of a property: a letter or `_`, then letters, digits and `_`"),
            ),
        }
        if !seen.insert(name) {
            errors.add(field.ident, format!("there are two properties of the name `{name}`"));
        }
    }
    if seen.len() > CUSTOM_PROPERTIES_MAX
        && let Some(last) = fields.last()
    {
        errors.add(last.ident, format!("an entity has at most {CUSTOM_PROPERTIES_MAX} properties"));
    }
}

/// There is at most one field for each of the things that an entity has once.
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
            errors.add(&at.path, format!("there are two fields with `{name}`"));
        }
    }
}
