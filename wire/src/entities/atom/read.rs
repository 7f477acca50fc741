//! Parses request bodies: converts an Atom entry to a record (specification 03 §5.2).
//!
//! Invariants:
//!
//! 1. Parsing is a single pass in time linear in the size of the body: depth and attributes are bounded, and only the
//!    five predefined entities and character references are expanded.
//! 2. A document type declaration is rejected, so no other internal or external entities exist.
//! 3. Names are compared by their namespace; their prefixes do not matter.
//!
//! This module must not know which strings are valid for which type; that is the task of [`super::value`].

use super::value::push_value;
use super::{ATOM, DATA, METADATA};
use crate::defect::{keys_defect, name_defect, type_defect, value_defect};
use crate::entity_body::{BodyError, EntityBody, KeyLocation, check_name};
use crate::reason::{Reason, ReasonKind};
use crate::version::Version;
use crate::xml::{BYTE_ORDER_MARK, is_character, referenced_character};
use model::limits::{ATOM_ATTRIBUTES_MAX, ATOM_DEPTH_MAX, ATOM_NAMESPACES_MAX, ATOM_PROPERTIES_MAX};
use model::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use model::{EdmType, EntityLimits, RecordBuilder};
use quick_xml::events::{BytesDecl, BytesStart, Event};
use quick_xml::name::{Namespace, ResolveResult};
use quick_xml::{NsReader, XmlVersion};
use std::borrow::Cow;
use std::collections::HashSet;

/// Parses the body of an insert, update, merge or upsert.
pub fn read_entity(
    body: &[u8],
    keys: KeyLocation,
    version: Version,
    limits: &'static EntityLimits,
) -> Result<EntityBody, BodyError> {
    let entry = EntryProperties::read(body)?;
    let (partition, row) = (entry.key(PARTITION_KEY, keys)?, entry.key(ROW_KEY, keys)?);
    if keys == KeyLocation::Body && (partition.is_none() || row.is_none()) {
        return Err(BodyError::KeyMissing);
    }
    let custom = || entry.0.iter().filter(|property| !is_system_property(&property.name));
    for property in custom() {
        check_name(&property.name, version, limits)?;
    }
    let (partition, row) = (keys.read(PARTITION_KEY, partition)?, keys.read(ROW_KEY, row)?);
    let mut properties = RecordBuilder::within(limits, body.len());
    for property in custom() {
        let edm_type = property.edm_type()?;
        if !property.is_null {
            push_value(&mut properties, &property.name, edm_type, &property.text)?;
        }
    }
    Ok(EntityBody { partition, row, properties })
}

/// Parses the body of Create Table. Returns the table name without validating it, or `None` if it is missing or null.
pub fn read_table(body: &[u8]) -> Result<Option<String>, BodyError> {
    EntryProperties::read(body)?.key("TableName", KeyLocation::Body).map(|name| name.map(str::to_owned))
}

/// Returns why the body of a request was refused with an error.
pub(crate) fn defect(
    body: &[u8],
    keys: KeyLocation,
    version: Version,
    limits: &EntityLimits,
    error: &BodyError,
) -> Reason {
    let entry = match EntryProperties::read(body) {
        Ok(entry) => entry,
        Err(BodyError::TooManyProperties) => {
            let detail = format!("The body has more than {ATOM_PROPERTIES_MAX} properties.");
            return ReasonKind::PropertiesTooMany.because(detail);
        }
        Err(_) => return EntryProperties::defect(body),
    };
    let key = |name| (name, entry.key(name, keys));
    let named_keys = [key(PARTITION_KEY), key(ROW_KEY)];
    let wrong = named_keys.iter().find(|(_, text)| *text == Err(BodyError::KeyNotText));
    if let Some((name, _)) = wrong.filter(|_| *error == BodyError::KeyNotText) {
        return ReasonKind::KeyInvalid.because(format!("The {name} is declared with another type than Edm.String."));
    }
    let custom = || entry.0.iter().filter(|property| !is_system_property(&property.name));
    if matches!(error, BodyError::PropertyNameInvalid | BodyError::PropertyNameTooLong) {
        let wrong = custom().find_map(|property| name_defect(&property.name, version, limits));
        return wrong.unwrap_or_else(|| ReasonKind::PropertyNameWrong.because(""));
    }
    let of_keys = || keys_defect(named_keys.map(|(name, text)| (name, text.ok().flatten())), error);
    let of_properties = || custom().find_map(|property| property.defect(error));
    let found = if keys == KeyLocation::Address { of_properties() } else { of_keys().or_else(of_properties) };
    found.unwrap_or_else(|| ReasonKind::BodyMalformed.because("A key has an unknown type."))
}

fn is_system_property(name: &str) -> bool {
    name == PARTITION_KEY || name == ROW_KEY || name == TIMESTAMP
}

/// The elements of `m:properties`, in order and with unique names.
struct EntryProperties(Vec<EntryProperty>);

struct EntryProperty {
    name: String,
    /// The value of `m:type`.
    declared: Option<String>,
    is_null: bool,
    text: String,
}

impl EntryProperty {
    /// Returns the declared type, or `Edm.String` if none is declared.
    fn edm_type(&self) -> Result<EdmType, BodyError> {
        match &self.declared {
            None => Ok(EdmType::String),
            Some(name) => EdmType::from_name(name).ok_or(BodyError::Malformed),
        }
    }

    fn defect(&self, error: &BodyError) -> Option<Reason> {
        let Ok(edm_type) = self.edm_type() else {
            let is_cause = *error == BodyError::Malformed;
            return is_cause.then(|| type_defect(&self.name, self.declared.as_deref().unwrap_or_default()));
        };
        let pushed = push_value(&mut RecordBuilder::default(), &self.name, edm_type, &self.text);
        let found = pushed.err().filter(|found| found == error && !self.is_null)?;
        if matches!(found, BodyError::OutOfRange(..)) {
            let detail = format!("The time of {} is before 1601 or after 9999.", self.name);
            return Some(ReasonKind::PropertyValue.because(detail).quoting(&self.text));
        }
        Some(value_defect(&self.name, edm_type, "in the form of XML Schema", &self.text))
    }
}

impl EntryProperties {
    fn read(body: &[u8]) -> Result<Self, BodyError> {
        let text = std::str::from_utf8(body).map_err(|_| BodyError::Malformed)?;
        if !text.chars().all(is_character) {
            return Err(BodyError::Malformed);
        }
        let (properties, has_too_many) = EntryReader::new(text).read().ok_or(BodyError::Malformed)?;
        if has_too_many {
            return Err(BodyError::TooManyProperties);
        }
        let mut names = HashSet::with_capacity(properties.len());
        if properties.iter().all(|property| names.insert(property.name.as_str())) {
            return Ok(Self(properties));
        }
        Err(BodyError::Malformed)
    }

    /// Returns why [`Self::read`] failed, unless there were too many properties.
    fn defect(body: &[u8]) -> Reason {
        let kind = ReasonKind::BodyMalformed;
        let text = match std::str::from_utf8(body) {
            Ok(text) => text,
            Err(error) => {
                return kind.because(format!("The body is not UTF-8 from byte {} on.", error.valid_up_to()));
            }
        };
        let line_at = |offset: usize| text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1;
        if let Some((at, character)) = text.char_indices().find(|(_, character)| !is_character(*character)) {
            let (code, line) = (u32::from(character), line_at(at));
            return kind.because(format!("The body contains U+{code:04X} in line {line}, which XML does not allow."));
        }
        let mut reader = EntryReader::new(text);
        let Some((properties, _)) = reader.read() else {
            let line = line_at(usize::try_from(reader.reader.buffer_position()).unwrap_or(usize::MAX));
            return kind.because(format!("The body is not a well-formed Atom entry near line {line}."));
        };
        let mut names = HashSet::with_capacity(properties.len());
        let repeated = properties.iter().find(|property| !names.insert(property.name.as_str()));
        let name = repeated.map_or("", |property| &property.name);
        kind.because(format!("The property {name} is given more than once."))
    }

    /// A null value counts as missing.
    fn key(&self, name: &str, keys: KeyLocation) -> Result<Option<&str>, BodyError> {
        let Some(property) = self.0.iter().find(|property| property.name == name) else { return Ok(None) };
        keys.check_key_type(property.edm_type()?)?;
        Ok((!property.is_null).then_some(property.text.as_str()))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ElementKind {
    Document,
    Entry,
    Content,
    Properties,
    /// Inside a property, which is the last one in `properties`.
    Property,
    Other,
}

/// A parser for one entry. Every method returns `None` if the document is not a valid entry.
struct EntryReader<'a> {
    reader: NsReader<&'a [u8]>,
    /// The open elements, outermost first, starting with the document itself.
    open: Vec<ElementKind>,
    properties: Vec<EntryProperty>,
    has_root: bool,
    has_properties: bool,
    has_too_many: bool,
}

impl<'a> EntryReader<'a> {
    fn new(text: &'a str) -> Self {
        let mut reader = NsReader::from_str(text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text));
        reader.config_mut().check_comments = true;
        reader.resolver_mut().set_max_namespace_bindings(ATOM_NAMESPACES_MAX);
        Self {
            reader,
            open: vec![ElementKind::Document],
            properties: Vec::new(),
            has_root: false,
            has_properties: false,
            has_too_many: false,
        }
    }

    fn read(&mut self) -> Option<(Vec<EntryProperty>, bool)> {
        let mut is_first = true;
        loop {
            match self.reader.read_event().ok()? {
                Event::Start(tag) => {
                    let kind = self.start(&tag)?;
                    self.open.push(kind);
                }
                Event::Empty(tag) => drop(self.start(&tag)?),
                Event::End(_) => drop(self.open.pop()?),
                Event::Text(text) => self.text(&text.xml10_content())?,
                Event::CData(text) => self.text(&text.xml10_content())?,
                Event::GeneralRef(reference) => {
                    let character = referenced_character(&reference)?;
                    self.text(character.encode_utf8(&mut [0; 4]))?;
                }
                Event::Decl(declaration) if is_first => check_encoding(&declaration)?,
                Event::Comment(_) | Event::PI(_) => {}
                Event::Decl(_) => return None,
                Event::DocType(_) => return None,
                Event::Eof => break,
            }
            is_first = false;
        }
        (self.open == [ElementKind::Document] && self.has_properties)
            .then_some((std::mem::take(&mut self.properties), self.has_too_many))
    }

    fn start(&mut self, tag: &BytesStart<'_>) -> Option<ElementKind> {
        if self.open.len() > ATOM_DEPTH_MAX {
            return None;
        }
        let attributes = self.attributes(tag)?;
        let (namespace, name) = self.reader.resolver().resolve_element(tag.name());
        let ResolveResult::Bound(Namespace(namespace)) = namespace else {
            // An undeclared prefix is an error. An element without a namespace belongs to a different vocabulary.
            return if namespace == ResolveResult::Unbound { self.unrelated_element() } else { None };
        };
        match (self.open.last()?, namespace, name.into_inner()) {
            (ElementKind::Document, ATOM, "entry") if !self.has_root => {
                self.has_root = true;
                Some(ElementKind::Entry)
            }
            (ElementKind::Document | ElementKind::Property, ..) => None,
            (ElementKind::Entry, ATOM, "content") => Some(ElementKind::Content),
            // A second `m:properties` would be a second entity.
            (ElementKind::Content, METADATA, "properties") if self.has_properties => None,
            (ElementKind::Content, METADATA, "properties") => {
                self.has_properties = true;
                Some(ElementKind::Properties)
            }
            (ElementKind::Properties, DATA, name) => {
                let property = Self::property(name.to_owned(), attributes)?;
                self.has_too_many |= self.properties.len() == ATOM_PROPERTIES_MAX;
                if self.has_too_many {
                    self.properties.pop();
                }
                self.properties.push(property);
                Some(ElementKind::Property)
            }
            _ => self.unrelated_element(),
        }
    }

    /// Accepts an element that is not part of the entity. Such an element may occur anywhere except around the entry
    /// and inside a value.
    fn unrelated_element(&self) -> Option<ElementKind> {
        let may_stand = !matches!(self.open.last()?, ElementKind::Document | ElementKind::Property);
        may_stand.then_some(ElementKind::Other)
    }

    /// Returns the attributes in the metadata namespace, by name. Checks all attributes.
    fn attributes<'t>(&self, tag: &'t BytesStart<'_>) -> Option<Vec<(&'t str, Cow<'t, str>)>> {
        let mut found = Vec::new();
        for (count, attribute) in tag.attributes().enumerate() {
            let attribute = attribute.ok().filter(|_| count < ATOM_ATTRIBUTES_MAX)?;
            if attribute.value.contains('<') {
                return None;
            }
            let (namespace, local) = self.reader.resolver().resolve_attribute(attribute.key);
            match namespace {
                ResolveResult::Unknown(_) => return None,
                ResolveResult::Bound(Namespace(METADATA)) => {
                    let value = attribute.normalized_value(XmlVersion::Implicit1_0).ok()?;
                    found.push((local.into_inner(), value));
                }
                _ => {}
            }
        }
        Some(found)
    }

    /// Creates a property from its attributes; its text follows later.
    fn property(name: String, attributes: Vec<(&str, Cow<'_, str>)>) -> Option<EntryProperty> {
        let mut property = EntryProperty { name, declared: None, is_null: false, text: String::new() };
        for (attribute, value) in attributes {
            match attribute {
                "type" => property.declared = Some(value.into_owned()),
                "null" => property.is_null = boolean(&value)?,
                _ => {}
            }
        }
        Some(property)
    }

    fn text(&mut self, text: &str) -> Option<()> {
        match self.open.last()? {
            ElementKind::Property => self.properties.last_mut()?.text.push_str(text),
            ElementKind::Document if !text.trim().is_empty() => return None,
            _ => {}
        }
        Some(())
    }
}

/// Rejects a declared encoding other than UTF-8 (03 §1.4).
fn check_encoding(declaration: &BytesDecl<'_>) -> Option<()> {
    match declaration.encoding() {
        None => Some(()),
        Some(encoding) => encoding.ok()?.eq_ignore_ascii_case("utf-8").then_some(()),
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fmt::Write as _;

    const NAMESPACES: &str = r#"xmlns:d="http://schemas.microsoft.com/ado/2007/08/dataservices" xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata" xmlns="http://www.w3.org/2005/Atom""#;

    fn entry(properties: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\n<entry {NAMESPACES} >\n<title /><updated>2015-06-23T00:26:34.150517+00:00</updated><author><name /></author><id />\n<content type=\"application/xml\">\n    <m:properties xml:space=\"preserve\">{properties}</m:properties></content></entry>"
        )
    }

    fn read(body: &str) -> Result<Vec<(String, String)>, BodyError> {
        let entity = read_entity(body.as_bytes(), KeyLocation::Address, Version::JSON, &EntityLimits::STORAGE)?;
        let show = |property: model::record::Property<'_>| {
            (property.name().unwrap().to_owned(), format!("{:?}", property.value().unwrap()))
        };
        Ok(entity.properties.properties().map(|property| show(property.unwrap())).collect())
    }

    fn one(property: &str) -> Result<String, BodyError> {
        read(&entry(property)).map(|list| {
            assert_eq!(list.len(), 1, "{property}");
            list[0].1.clone()
        })
    }

    #[test]
    fn names_by_version() {
        let read = |name: &str, version| {
            let body = entry(&format!("<d:{name}>x</d:{name}>"));
            read_entity(body.as_bytes(), KeyLocation::Address, version, &EntityLimits::STORAGE)
                .map(|entity| entity.properties.len())
        };
        let invalid = Err(BodyError::PropertyNameInvalid);
        for (name, none, oldest) in [
            ("a_1é", Ok(1), Ok(1)),
            ("a-1", Ok(1), invalid.clone()),
            ("_-é-", Ok(1), invalid.clone()),
            ("a.1", invalid.clone(), invalid.clone()),
        ] {
            assert_eq!((read(name, Version::NONE), read(name, Version::OLDEST)), (none, oldest), "{name}");
        }
        assert_eq!(read(&"a-".repeat(128), Version::NONE), Err(BodyError::PropertyNameTooLong));
    }

    #[test]
    fn values_of_every_type() {
        for (property, expected) in [
            ("<d:a>x</d:a>", "String(\"x\")"),
            ("<d:a m:type=\"Edm.String\"> x </d:a>", "String(\" x \")"),
            ("<d:a />", "String(\"\")"),
            ("<d:a></d:a>", "String(\"\")"),
            ("<d:a xml:space=\"preserve\"> </d:a>", "String(\" \")"),
            ("<d:a>a&lt;b&amp;&gt;&quot;&apos;&#x41;&#66;</d:a>", "String(\"a<b&>\\\"'AB\")"),
            ("<d:a><![CDATA[<x> & ]]>y<!-- not this --></d:a>", "String(\"<x> & y\")"),
            ("<d:a>&#x1;&#0;</d:a>", "String(\"\\u{1}\\0\")"),
            ("<d:a>1\r\n2&#xD;\n3</d:a>", "String(\"1\\n2\\r\\n3\")"),
            ("<d:a m:type='Edm.Int32'> 4 </d:a>", "Int32(4)"),
            ("<d:a m:type=\"Edm.Int64\">-9223372036854775808</d:a>", "Int64(-9223372036854775808)"),
            ("<d:a m:type=\"Edm.Double\">-INF</d:a>", "Double(-inf)"),
            ("<d:a m:type=\"Edm.Double\">Infinity</d:a>", "Double(inf)"),
            ("<d:a m:type=\"Edm.Double\">NaN</d:a>", "Double(NaN)"),
            ("<d:a m:type=\"Edm.Double\">-0</d:a>", "Double(-0.0)"),
            ("<d:a m:type=\"Edm.Double\">1.5E+3</d:a>", "Double(1500.0)"),
            ("<d:a m:type=\"Edm.Boolean\">1</d:a>", "Boolean(true)"),
            ("<d:a m:type=\"Edm.Boolean\">false</d:a>", "Boolean(false)"),
            ("<d:a m:type=\"Edm.Binary\">AQID\n BA==</d:a>", "Binary([1, 2, 3, 4])"),
            ("<d:a m:type=\"Edm.Binary\" />", "Binary([])"),
            ("<d:a m:type=\"Edm.Guid\" m:null=\"false\">0B0C0D0E-1111-4222-8333-444455556666</d:a>", "Guid"),
            ("<d:a m:type=\"Edm.Guid\">{0b0c0d0e-1111-4222-8333-444455556666}</d:a>", "Guid(Guid([11, 12"),
            ("<d:a m:type=\"Edm.DateTime\">2015-06-23T00:26:35+00:00</d:a>", "DateTime"),
            ("<d:a m:type=\"Edm.DateTime\">2024-02-29</d:a>", "DateTime(DateTime(133536384000000000))"),
            ("<d:é>non-ASCII</d:é>", "String(\"non-ASCII\")"),
        ] {
            let got = one(property).unwrap_or_else(|error| panic!("{property}: {error:?}"));
            assert!(got.starts_with(expected), "{property}: {got}");
        }
    }

    #[test]
    fn nulls_the_timestamp_and_other_elements_are_not_stored() {
        let body = entry(
            "<d:Timestamp m:type=\"Edm.DateTime\">nonsense</d:Timestamp><d:a m:type=\"Edm.Guid\" m:null=\"true\" /> <!-- c --><d:b m:null=\"1\">x</d:b>\n<other>text<deep /></other><m:c>x</m:c>",
        );
        assert_eq!(read(&body), Ok(Vec::new()));
    }

    #[test]
    fn prefixes_are_free() {
        let body = "\u{FEFF}<a:entry xmlns:a='http://www.w3.org/2005/Atom'><a:content><properties xmlns='http://schemas.microsoft.com/ado/2007/08/dataservices/metadata' xmlns:x='http://schemas.microsoft.com/ado/2007/08/dataservices/metadata'><PartitionKey xmlns='http://schemas.microsoft.com/ado/2007/08/dataservices'>p</PartitionKey><v:RowKey xmlns:v='http://schemas.microsoft.com/ado/2007/08/dataservices'>r</v:RowKey><v:n xmlns:v='http://schemas.microsoft.com/ado/2007/08/dataservices' x:type='Edm.Int32'>5</v:n></properties></a:content></a:entry>";
        assert_eq!(read(body), Ok(vec![("n".to_owned(), "Int32(5)".to_owned())]));
        let entity = read_entity(body.as_bytes(), KeyLocation::Body, Version::JSON, &EntityLimits::STORAGE).unwrap();
        assert_eq!((entity.partition.unwrap().as_str(), entity.row.unwrap().as_str()), ("p", "r"));
        let entity = read_entity(body.as_bytes(), KeyLocation::Address, Version::JSON, &EntityLimits::STORAGE).unwrap();
        assert_eq!((entity.partition, entity.row), (None, None));
    }

    #[test]
    fn what_is_no_entry_is_malformed() {
        for body in [
            "",
            "{}",
            "<entry/>",
            "<entry xmlns=\"http://www.w3.org/2005/Atom\"/>",
            "<feed xmlns=\"http://www.w3.org/2005/Atom\"/>",
            &entry("").replace("<m:properties", "<m:other").replace("</m:properties", "</m:other"),
            &entry("").replace("</entry>", ""),
            &entry("").replace("</entry>", "</entry><entry/>"),
            &entry("").replace("</entry>", "</entry>x"),
            &format!("<!DOCTYPE entry>{}", entry("")),
            &entry("<d:a>").replace("</m:", "</d:"),
            &entry("<d:a>x</d:b>"),
            &entry("<d:a>x<d:b/></d:a>"),
            &entry("<d:a>1</d:a><d:a>2</d:a>"),
            &entry("<d:PartitionKey>1</d:PartitionKey><d:PartitionKey>2</d:PartitionKey>"),
            &entry("<e:a>x</e:a>"),
            &entry("</m:properties><m:properties><d:a>x</d:a>"),
            &entry("").replace("</content>", "</content><content><m:properties /></content>"),
            &entry("<other a=1 />"),
            &entry("<other a=\"<\" />"),
            &entry("<other e:a=\"x\" />"),
            &entry("<other a=\"x\" a=\"x\" />"),
            &entry("<!-- -- -->"),
            &entry("<?xml version=\"1.0\"?>"),
            &entry("").replace("utf-8", "utf-16"),
            &entry("<d:a>&nbsp;</d:a>"),
            &entry("<d:a>&#xD800;</d:a>"),
            &entry("<d:a>&#x+41;</d:a>"),
            &entry("<d:a>\u{1}</d:a>"),
            &entry("<d:a>a & b</d:a>"),
            &entry("<d:a m:type=\"Edm.Decimal\">1</d:a>"),
            &entry("<d:a m:type=\"Edm.Decimal\" m:null=\"true\" />"),
            &entry("<d:a m:null=\"perhaps\" />"),
            &entry("<d:a m:null=\"true\" m:null=\"true\" />"),
            &entry("<d:a m:type=\"Edm.Int32\" />"),
            &entry("<d:a m:type=\"Edm.Int32\">2147483648</d:a>"),
            &entry("<d:a m:type=\"Edm.Double\">inf</d:a>"),
            &entry("<d:a m:type=\"Edm.Double\"></d:a>"),
            &entry("<d:a m:type=\"Edm.Boolean\">yes</d:a>"),
            &entry("<d:a m:type=\"Edm.Guid\">x</d:a>"),
            &entry("<d:a m:type=\"Edm.Binary\">A</d:a>"),
            &entry("<d:a m:type=\"Edm.DateTime\">2015</d:a>"),
        ] {
            assert_eq!(read(body), Err(BodyError::Malformed), "{body}");
        }
        assert_eq!(
            read_entity(b"<a>\xFF</a>", KeyLocation::Address, Version::JSON, &EntityLimits::STORAGE),
            Err(BodyError::Malformed)
        );
    }

    #[test]
    fn other_errors_are_those_of_json() {
        let keys = "<d:PartitionKey>p</d:PartitionKey><d:RowKey>r</d:RowKey>";
        for (properties, expected) in [
            ("<d:RowKey>r</d:RowKey>".to_owned(), BodyError::KeyMissing),
            ("<d:PartitionKey m:type=\"Edm.Guid\">1</d:PartitionKey>".to_owned(), BodyError::KeyNotText),
            (keys.replace("<d:RowKey>r</d:RowKey>", "<d:RowKey m:null=\"true\" />"), BodyError::KeyMissing),
            (format!("{keys}<d:a-b>1</d:a-b>"), BodyError::PropertyNameInvalid),
            (format!("{keys}<d:{0}>1</d:{0}>", "n".repeat(256)), BodyError::PropertyNameTooLong),
            (keys.replace(">p<", ">a/<"), BodyError::OutOfRange("PartitionKey".into(), "a/".into())),
            (keys.replace(">r<", ">\t<"), BodyError::OutOfRange("RowKey".into(), "\t".into())),
            (keys.replace(">p<", &format!(">{}<", "k".repeat(513))), BodyError::KeyTooLong),
            (
                format!("{keys}<d:d m:type=\"Edm.DateTime\">1600-01-01T00:00:00Z</d:d>"),
                BodyError::OutOfRange("d".into(), "01/01/1600 00:00:00".into()),
            ),
        ] {
            assert_eq!(
                read_entity(entry(&properties).as_bytes(), KeyLocation::Body, Version::JSON, &EntityLimits::STORAGE),
                Err(expected),
                "{properties}"
            );
        }
    }

    #[test]
    fn a_billion_laughs_are_refused_at_the_document_type() {
        let mut document_type = String::from("<!DOCTYPE entry [<!ENTITY l0 \"lol\">");
        for level in 1..10 {
            write!(document_type, "<!ENTITY l{level} \"{}\">", format!("&l{};", level - 1).repeat(10)).unwrap();
        }
        document_type.push_str("]>");
        assert_eq!(read(&format!("{document_type}{}", entry("<d:a>&l9;</d:a>"))), Err(BodyError::Malformed));
        let quadratic = format!("<!DOCTYPE entry [<!ENTITY a \"{}\">]>", "a".repeat(100_000));
        let laughs = entry(&format!("<d:a>{}</d:a>", "&a;".repeat(100_000)));
        assert_eq!(read(&format!("{quadratic}{laughs}")), Err(BodyError::Malformed));
        for external in ["SYSTEM \"file:///etc/passwd\"", "PUBLIC \"x\" \"http://127.0.0.1/x\""] {
            let document = format!("<!DOCTYPE entry [<!ENTITY a {external}>]>{}", entry("<d:a>&a;</d:a>"));
            assert_eq!(read(&document), Err(BodyError::Malformed));
            let subset = format!("<!DOCTYPE entry {external}>{}", entry("<d:a>x</d:a>"));
            assert_eq!(read(&subset), Err(BodyError::Malformed));
        }
    }

    /// Each of these documents has the maximum size of a request and would take minutes if parsing were not linear.
    #[test]
    fn blow_ups_are_refused_or_read_in_one_pass() {
        const SIZE: usize = model::limits::REQUEST_BODY_BYTES_MAX;
        let repeat = |text: &str| text.repeat(SIZE / text.len() / 2);
        let numbered = |from: &str, to: &str| {
            let mut out = String::new();
            for number in 0..SIZE / 32 {
                write!(out, "{from}{number}{to}").unwrap();
            }
            out
        };
        for (name, body) in [
            ("depth", entry(&format!("{}{}", repeat("<a>"), repeat("</a>")))),
            ("depth in a value", entry(&format!("<d:a>{}{}</d:a>", repeat("<a>"), repeat("</a>")))),
            ("attributes of another element", entry(&format!("<o {} />", numbered("a", "=\"x\" ")))),
            ("attributes", entry(&format!("<d:a {}>x</d:a>", numbered("m:a", "=\"x\" ")))),
            ("namespaces", entry(&format!("<d:a {}>x</d:a>", numbered("xmlns:a", "=\"x\" ")))),
            ("the same property", entry(&"<d:a/>".repeat(4000))),
            ("an open tag", format!("<entry {}", repeat("a"))),
            ("open comments", entry(&repeat("<!-- "))),
            ("open sections", entry(&format!("<d:a>{}", repeat("<![CDATA[")))),
            ("ampersands", entry(&format!("<d:a>{}</d:a>", repeat("&")))),
        ] {
            assert_eq!(read(&body), Err(BodyError::Malformed), "{name}");
        }
        assert_eq!(read(&entry(&numbered("<d:a", " />"))), Err(BodyError::TooManyProperties));
        for (name, property) in [
            ("references", format!("<d:a>{}</d:a>", repeat("&amp;"))),
            ("sections", format!("<d:a>{}</d:a>", repeat("<![CDATA[x]]>"))),
            ("comments", format!("<d:a>{}</d:a>", repeat("<!---->"))),
            ("text", format!("<d:a>{}</d:a>", repeat("x"))),
            ("one namespace after the other", numbered("<o xmlns:a", "='x'><d:b xmlns:c='y'/></o>")),
        ] {
            assert!(read(&entry(&property)).is_ok(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(parts in proptest::collection::vec(prop_oneof![
            Just("<d:a>"), Just("</d:a>"), Just("<d:b m:type=\"Edm.Int32\">"), Just("</d:b>"), Just("<d:c m:null=\"true\"/>"),
            Just("1"), Just("&#"), Just("x41;"), Just("<![CDATA["), Just("]]>"), Just("<!--"), Just("-->"), Just("<?x"), Just("?>"),
            Just("</m:properties>"), Just("\u{E9}"),
        ], 0..12)) {
            let _ = read_entity(entry(&parts.concat()).as_bytes(), KeyLocation::Address, Version::JSON, &EntityLimits::STORAGE);
            let _ = read_entity(parts.concat().as_bytes(), KeyLocation::Address, Version::JSON, &EntityLimits::STORAGE);
        }
    }
}
