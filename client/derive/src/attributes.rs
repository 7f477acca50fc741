//! The contents of `#[entity(…)]`.
//!
//! Invariant: an attribute that is unknown or given twice is an error.

use crate::template::{Format, PADDED_DIGITS, Template};
use proc_macro2::TokenTree;
use quote::ToTokens;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, LitInt, LitStr, Path};

pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) path: Path,
}

#[derive(Default)]
pub(crate) struct TypeAttributes {
    pub(crate) krate: Option<At<Path>>,
    pub(crate) rename_all: Option<At<RenameRule>>,
    pub(crate) partition_key: Option<At<Template>>,
    pub(crate) row_key: Option<At<Template>>,
    pub(crate) ignores_mismatch: Option<At<bool>>,
    pub(crate) tag: Option<At<LitStr>>,
}

#[derive(Default)]
pub(crate) struct FieldAttributes {
    pub(crate) partition_key: Option<At<()>>,
    pub(crate) row_key: Option<At<()>>,
    pub(crate) padded: Option<At<usize>>,
    pub(crate) inverted: Option<At<()>>,
    pub(crate) rename: Option<At<LitStr>>,
    /// The inner `None` represents the `Default` of the type.
    pub(crate) default: Option<At<Option<Path>>>,
    pub(crate) lenient: Option<At<()>>,
    pub(crate) skip: Option<At<()>>,
    pub(crate) json: Option<At<()>>,
    pub(crate) rest: Option<At<()>>,
    pub(crate) etag: Option<At<()>>,
    pub(crate) timestamp: Option<At<()>>,
    pub(crate) encrypt: Option<At<()>>,
    pub(crate) stored: Option<At<()>>,
}

#[derive(Default)]
pub(crate) struct VariantAttributes {
    pub(crate) kind: Option<At<LitStr>>,
    pub(crate) other: Option<At<()>>,
}

const TYPE_ATTRIBUTES: &str = "`crate`, `mismatch`, `partition_key`, `rename_all`, `row_key`";
const ENUM_ATTRIBUTES: &str = "`crate`, `tag`";
const FIELD_ATTRIBUTES: &str = "`default`, `encrypt`, `etag`, `inverted`, `json`, `lenient`, `padded`, `partition_key`, \
                                `rename`, `rest`, `row_key`, `skip`, `stored`, `timestamp`";
const VARIANT_ATTRIBUTES: &str = "`kind`, `other`";

impl TypeAttributes {
    pub(crate) fn of_struct(attributes: &[Attribute], errors: &mut Errors) -> Self {
        let mut found = Self::default();
        read(attributes, errors, |meta| match name(meta).as_str() {
            "crate" => set(&mut found.krate, meta, value),
            "rename_all" => set(&mut found.rename_all, meta, |meta| RenameRule::parse(&value(meta)?)),
            "partition_key" => set_template(&mut found.partition_key, meta),
            "row_key" => set_template(&mut found.row_key, meta),
            "mismatch" => set(&mut found.ignores_mismatch, meta, mismatch),
            "tag" => Err(meta.error("`tag` applies only to enums")),
            _ => Err(unknown(meta, TYPE_ATTRIBUTES)),
        });
        found
    }

    pub(crate) fn of_enum(attributes: &[Attribute], errors: &mut Errors) -> Self {
        let mut found = Self::default();
        read(attributes, errors, |meta| match name(meta).as_str() {
            "crate" => set(&mut found.krate, meta, value),
            "tag" => set(&mut found.tag, meta, value),
            _ => Err(unknown(meta, ENUM_ATTRIBUTES)),
        });
        found
    }

    pub(crate) fn krate(&self) -> Path {
        self.krate.as_ref().map_or_else(|| syn::parse_quote!(::rowhouse_client), |path| path.value.clone())
    }
}

impl FieldAttributes {
    pub(crate) fn read(attributes: &[Attribute], errors: &mut Errors) -> Self {
        let mut found = Self::default();
        read(attributes, errors, |meta| match name(meta).as_str() {
            "partition_key" => set(&mut found.partition_key, meta, flag),
            "row_key" => set(&mut found.row_key, meta, flag),
            "padded" => set(&mut found.padded, meta, padded),
            "inverted" => set(&mut found.inverted, meta, flag),
            "rename" => set(&mut found.rename, meta, value),
            "default" => set(&mut found.default, meta, |meta| {
                if meta.input.peek(syn::Token![=]) { value(meta).map(Some) } else { flag(meta).map(|()| None) }
            }),
            "lenient" => set(&mut found.lenient, meta, flag),
            "skip" => set(&mut found.skip, meta, flag),
            "json" => set(&mut found.json, meta, |meta| {
                if cfg!(feature = "json") {
                    flag(meta)
                } else {
                    Err(meta.error("`json` requires the feature `json` of the crate `rowhouse-client`"))
                }
            }),
            "rest" => set(&mut found.rest, meta, flag),
            "etag" => set(&mut found.etag, meta, flag),
            "timestamp" => set(&mut found.timestamp, meta, flag),
            "encrypt" => set(&mut found.encrypt, meta, flag),
            "stored" => set(&mut found.stored, meta, flag),
            _ => Err(unknown(meta, FIELD_ATTRIBUTES)),
        });
        found
    }

    /// `padded` and `inverted` exclude each other.
    pub(crate) fn format(&self) -> Format {
        match (&self.padded, &self.inverted) {
            (Some(padded), _) => Format::Padded(padded.value),
            (None, Some(_)) => Format::Inverted,
            (None, None) => Format::Plain,
        }
    }

    pub(crate) fn given(&self) -> Vec<(&'static str, &Path)> {
        let mut given: Vec<(&'static str, &Path)> = Vec::new();
        let flags = [
            ("partition_key", &self.partition_key),
            ("row_key", &self.row_key),
            ("inverted", &self.inverted),
            ("lenient", &self.lenient),
            ("skip", &self.skip),
            ("json", &self.json),
            ("rest", &self.rest),
            ("etag", &self.etag),
            ("timestamp", &self.timestamp),
            ("encrypt", &self.encrypt),
            ("stored", &self.stored),
        ];
        given.extend(flags.into_iter().filter_map(|(name, at)| at.as_ref().map(|at| (name, &at.path))));
        given.extend(self.padded.as_ref().map(|at| ("padded", &at.path)));
        given.extend(self.rename.as_ref().map(|at| ("rename", &at.path)));
        given.extend(self.default.as_ref().map(|at| ("default", &at.path)));
        given
    }
}

impl VariantAttributes {
    pub(crate) fn read(attributes: &[Attribute], errors: &mut Errors) -> Self {
        let mut found = Self::default();
        read(attributes, errors, |meta| match name(meta).as_str() {
            "kind" => set(&mut found.kind, meta, value),
            "other" => set(&mut found.other, meta, flag),
            _ => Err(unknown(meta, VARIANT_ATTRIBUTES)),
        });
        found
    }
}

/// Continues with the next attribute after an error.
fn read(attributes: &[Attribute], errors: &mut Errors, mut one: impl FnMut(&ParseNestedMeta<'_>) -> syn::Result<()>) {
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("entity")) {
        let mut wrong = Vec::new();
        let list = attribute.parse_nested_meta(|meta| {
            if let Err(error) = one(&meta) {
                wrong.push(error);
                while !meta.input.is_empty() && !meta.input.peek(syn::Token![,]) {
                    meta.input.parse::<TokenTree>()?;
                }
            }
            Ok(())
        });
        for error in wrong {
            errors.add_error(error);
        }
        errors.take(list);
    }
}

fn name(meta: &ParseNestedMeta<'_>) -> String {
    meta.path.get_ident().map(ToString::to_string).unwrap_or_default()
}

fn unknown(meta: &ParseNestedMeta<'_>, known: &str) -> syn::Error {
    let name = meta.path.to_token_stream().to_string().replace(' ', "");
    meta.error(format!("unknown attribute `{name}`; expected one of {known}"))
}

fn set<T>(
    slot: &mut Option<At<T>>,
    meta: &ParseNestedMeta<'_>,
    parse: impl FnOnce(&ParseNestedMeta<'_>) -> syn::Result<T>,
) -> syn::Result<()> {
    let value = parse(meta)?;
    if slot.is_some() {
        return Err(meta.error(format!("`{}` is given twice", name(meta))));
    }
    *slot = Some(At { value, path: meta.path.clone() });
    Ok(())
}

/// Stores a malformed template as an empty one, so that the key is not reported as missing.
fn set_template(slot: &mut Option<At<Template>>, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
    let (template, result) = match Template::parse(&value(meta)?) {
        Ok(template) => (template, Ok(())),
        Err(error) => (Template { parts: Vec::new() }, Err(error)),
    };
    set(slot, meta, |_| Ok(template)).and(result)
}

fn value<T: syn::parse::Parse>(meta: &ParseNestedMeta<'_>) -> syn::Result<T> {
    meta.value()?.parse()
}

fn flag(meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
    if meta.input.peek(syn::Token![=]) {
        return Err(meta.error(format!("`{}` takes no value here", name(meta))));
    }
    Ok(())
}

fn mismatch(meta: &ParseNestedMeta<'_>) -> syn::Result<bool> {
    let text: LitStr = value(meta)?;
    match text.value().as_str() {
        "error" => Ok(false),
        "ignore" => Ok(true),
        _ => Err(syn::Error::new(text.span(), "expected \"error\" or \"ignore\"")),
    }
}

fn padded(meta: &ParseNestedMeta<'_>) -> syn::Result<usize> {
    let digits: LitInt = value(meta)?;
    let range = || syn::Error::new(digits.span(), "expected a width from 1 to 20 digits");
    digits.base10_parse().ok().filter(|digits| PADDED_DIGITS.contains(digits)).ok_or_else(range)
}

#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    pub(crate) fn add(&mut self, at: &dyn quote::ToTokens, message: impl std::fmt::Display) {
        self.add_error(Error::new_spanned(at.to_token_stream(), message));
    }

    pub(crate) fn add_error(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            none => *none = Some(error),
        }
    }

    pub(crate) fn take<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.add_error(error)).ok()
    }

    pub(crate) fn finish(self) -> syn::Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}

#[derive(Clone, Copy)]
pub(crate) enum RenameRule {
    Pascal,
    Camel,
    Snake,
    ScreamingSnake,
    Lower,
    Upper,
}

const RULES: [(&str, RenameRule); 6] = [
    ("PascalCase", RenameRule::Pascal),
    ("camelCase", RenameRule::Camel),
    ("snake_case", RenameRule::Snake),
    ("SCREAMING_SNAKE_CASE", RenameRule::ScreamingSnake),
    ("lowercase", RenameRule::Lower),
    ("UPPERCASE", RenameRule::Upper),
];

impl RenameRule {
    pub(crate) fn parse(name: &LitStr) -> syn::Result<Self> {
        let value = name.value();
        let found = RULES.iter().find(|(known, _)| *known == value);
        found.map(|(_, rule)| *rule).ok_or_else(|| {
            let known: Vec<_> = RULES.iter().map(|(known, _)| format!("\"{known}\"")).collect();
            Error::new(name.span(), format!("unknown naming rule; expected one of {}", known.join(", ")))
        })
    }

    pub(crate) fn apply(self, field: &str) -> String {
        let capitalized = || field.split('_').map(capitalize).collect::<String>();
        match self {
            Self::Pascal => capitalized(),
            Self::Camel => uncapitalize(&capitalized()),
            Self::Snake => field.to_owned(),
            Self::ScreamingSnake => field.to_uppercase(),
            Self::Lower => field.replace('_', "").to_lowercase(),
            Self::Upper => field.replace('_', "").to_uppercase(),
        }
    }
}

fn capitalize(word: &str) -> String {
    let mut characters = word.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

fn uncapitalize(word: &str) -> String {
    let mut characters = word.chars();
    characters.next().map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule() {
        for (rule, expected) in [
            (RenameRule::Pascal, "FirstName2"),
            (RenameRule::Camel, "firstName2"),
            (RenameRule::Snake, "first_name_2"),
            (RenameRule::ScreamingSnake, "FIRST_NAME_2"),
            (RenameRule::Lower, "firstname2"),
            (RenameRule::Upper, "FIRSTNAME2"),
        ] {
            assert_eq!(rule.apply("first_name_2"), expected);
        }
        assert_eq!(RenameRule::Pascal.apply("_x"), "X");
        assert_eq!(RenameRule::Camel.apply(""), "");
    }
}
