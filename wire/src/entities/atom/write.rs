//! Writes response bodies with the same order of elements and the same spelling as the service (specification 03 §5.3
//! to §5.5).
//!
//! This module must not depend on HTTP. It reads only the stored record of an entity.

use super::value::{is_white_space, write_attribute, write_text, write_value};
use super::{ATOM, DATA, METADATA, SCHEME};
use crate::entities::response_context::{EntityContext, ResponseContext};
use crate::uri::{write_entity_address, write_table_address};
use crate::xml::{DECLARATION, FIRST_DECLARATION};
use model::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP, check_property_name_within};
use model::record::DamagedRecord;
use model::{DateTime, EdmType, EdmValue, EntityLimits, EntityView};

/// The line breaks between elements. Only versions in the first form have them: there, every element is on its own
/// line, indented by its depth.
#[derive(Debug, Clone, Copy)]
struct Lines {
    /// The depth of the next element.
    depth: Option<usize>,
}

impl Lines {
    /// Returns the line breaks before elements at the given depth of the document.
    fn at_depth(context: ResponseContext<'_>, depth: usize) -> Self {
        Self { depth: context.version.has_first_form().then_some(depth) }
    }

    /// Returns the line breaks one level deeper.
    fn deeper(self) -> Self {
        Self { depth: self.depth.map(|depth| depth + 1) }
    }

    /// Breaks the line before a tag.
    fn start(self, out: &mut Vec<u8>) {
        if let Some(depth) = self.depth {
            out.extend_from_slice(b"\r\n");
            out.extend(std::iter::repeat_n(b' ', 2 * depth));
        }
    }

    /// Writes an element or a tag on its own line.
    fn push(self, out: &mut Vec<u8>, parts: &[&str]) {
        self.start(out);
        push(out, parts);
    }
}

/// Writes one entity as a complete document.
pub fn write_single_entity(
    out: &mut Vec<u8>,
    context: &EntityContext<'_>,
    entity: &EntityView<'_>,
) -> Result<(), DamagedRecord> {
    start_root(out, context.response, "entry", Some(entity.record.timestamp()));
    write_entity(out, context, entity, Lines::at_depth(context.response, 1))
}

/// Writes one entity as part of a feed.
pub fn write_entity_in_feed(
    out: &mut Vec<u8>,
    context: &EntityContext<'_>,
    entity: &EntityView<'_>,
) -> Result<(), DamagedRecord> {
    let lines = Lines::at_depth(context.response, 1);
    lines.push(out, &["<entry"]);
    write_etag(out, entity.record.timestamp());
    out.push(b'>');
    write_entity(out, context, entity, lines.deeper())
}

/// Writes the beginning of a feed, up to its first entity, with the number of all entities that match the query if it
/// is known.
pub fn write_start_of_entity_feed(out: &mut Vec<u8>, context: &EntityContext<'_>, is_empty: bool, count: Option<u64>) {
    start_feed(out, context.response, context.table, is_empty);
    if let Some(count) = count {
        Lines::at_depth(context.response, 1).push(out, &["<m:count>", &count.to_string(), "</m:count>"]);
    }
}

/// Writes the end of a feed, after its last entry.
pub fn end_feed(out: &mut Vec<u8>, context: ResponseContext<'_>) {
    Lines::at_depth(context, 0).push(out, &["</feed>"]);
}

/// Writes the response to Create Table and to a query of one table.
pub fn write_single_table(out: &mut Vec<u8>, context: ResponseContext<'_>, table: &str) {
    start_root(out, context, "entry", None);
    write_table(out, context, table, Lines::at_depth(context, 1));
}

/// Writes the response to Query Tables.
pub fn write_table_feed<'t>(out: &mut Vec<u8>, context: ResponseContext<'_>, tables: impl Iterator<Item = &'t str>) {
    let mut tables = tables.peekable();
    start_feed(out, context, "Tables", tables.peek().is_none());
    let lines = Lines::at_depth(context, 1);
    for table in tables {
        lines.push(out, &["<entry>"]);
        write_table(out, context, table, lines.deeper());
    }
    end_feed(out, context);
}

/// Writes the declaration and the start tag of the root element.
fn start_root(out: &mut Vec<u8>, context: ResponseContext<'_>, name: &str, etag: Option<DateTime>) {
    let is_first_form = context.version.has_first_form();
    push(out, &[if is_first_form { FIRST_DECLARATION } else { DECLARATION }]);
    Lines::at_depth(context, 0).push(out, &["<", name, " xml:base=\""]);
    write_attribute(out, context.base);
    push(out, &["/\""]);
    let default = |out: &mut Vec<u8>| push(out, &[" xmlns=\"", ATOM, "\""]);
    if !is_first_form {
        default(out);
    }
    push(out, &[" xmlns:d=\"", DATA, "\" xmlns:m=\"", METADATA, "\""]);
    if let Some(timestamp) = etag {
        write_etag(out, timestamp);
    }
    if is_first_form {
        default(out);
    }
    out.push(b'>');
}

fn write_etag(out: &mut Vec<u8>, timestamp: DateTime) {
    out.extend_from_slice(b" m:etag=\"W/&quot;datetime'");
    timestamp.write_etag_to(out);
    out.extend_from_slice(b"'&quot;\"");
}

/// An empty feed has an author, as Atom requires. UNVERIFIED (03 §5.4): its position from version 2012-02-12 on; it
/// was recorded in earlier versions.
fn start_feed(out: &mut Vec<u8>, context: ResponseContext<'_>, name: &str, is_empty: bool) {
    start_root(out, context, "feed", None);
    let lines = Lines::at_depth(context, 1);
    let title = |out: &mut Vec<u8>| lines.push(out, &["<title type=\"text\">", name, "</title>"]);
    if context.version.has_first_form() {
        title(out);
    }
    lines.push(out, &["<id>"]);
    write_text(out, context.base);
    push(out, &["/", name, "</id>"]);
    if !context.version.has_first_form() {
        title(out);
    }
    write_updated(out, context, lines);
    if is_empty {
        write_author(out, lines);
    }
    lines.push(out, &["<link rel=\"self\" title=\"", name, "\" href=\"", name, "\" />"]);
}

fn write_author(out: &mut Vec<u8>, lines: Lines) {
    lines.push(out, &["<author>"]);
    lines.deeper().push(out, &["<name />"]);
    lines.push(out, &["</author>"]);
}

fn write_updated(out: &mut Vec<u8>, context: ResponseContext<'_>, lines: Lines) {
    lines.push(out, &["<updated>"]);
    context.now.write_whole_seconds_to(out);
    out.extend_from_slice(b"</updated>");
}

/// Writes an entity after its start tag. `lines` belongs to the elements of the entry.
fn write_entity(
    out: &mut Vec<u8>,
    context: &EntityContext<'_>,
    entity: &EntityView<'_>,
    lines: Lines,
) -> Result<(), DamagedRecord> {
    let address = |out: &mut Vec<u8>| {
        write_entity_address(out, context.table, &entity.key.partition, &entity.key.row);
    };
    write_metadata(out, context.response, context.table, address, lines);
    write_properties(out, context, entity, lines.deeper().deeper())?;
    end_entry(out, lines);
    Ok(())
}

/// Writes a table after its start tag. `lines` belongs to the elements of the entry.
fn write_table(out: &mut Vec<u8>, context: ResponseContext<'_>, table: &str, lines: Lines) {
    write_metadata(out, context, "Tables", |out| write_table_address(out, table), lines);
    lines.deeper().deeper().push(out, &["<d:TableName>", table, "</d:TableName>"]);
    end_entry(out, lines);
}

fn end_entry(out: &mut Vec<u8>, lines: Lines) {
    lines.deeper().push(out, &["</m:properties>"]);
    lines.push(out, &["</content>"]);
    let outer = Lines { depth: lines.depth.map(|depth| depth.saturating_sub(1)) };
    outer.push(out, &["</entry>"]);
}

/// Writes the metadata of an entry, up to its properties. URLs need no XML escaping: their special characters are
/// percent-encoded, and quotes are valid as they are.
fn write_metadata(
    out: &mut Vec<u8>,
    context: ResponseContext<'_>,
    set: &str,
    address: impl Fn(&mut Vec<u8>),
    lines: Lines,
) {
    let is_first_form = context.version.has_first_form();
    let category = |out: &mut Vec<u8>| {
        lines.push(out, &["<category term=\"", context.account.as_str(), ".", set, "\" scheme=\"", SCHEME, "\" />"]);
    };
    let link = |out: &mut Vec<u8>| {
        lines.push(out, &["<link rel=\"edit\" title=\"", set, "\" href=\""]);
        address(out);
        out.extend_from_slice(b"\" />");
    };
    lines.push(out, &["<id>"]);
    write_text(out, context.base);
    out.push(b'/');
    address(out);
    out.extend_from_slice(b"</id>");
    if is_first_form {
        lines.push(out, &["<title type=\"text\"></title>"]);
    } else {
        category(out);
        link(out);
        out.extend_from_slice(b"<title />");
    }
    write_updated(out, context, lines);
    write_author(out, lines);
    if is_first_form {
        link(out);
        category(out);
    }
    lines.push(out, &["<content type=\"application/xml\">"]);
    lines.deeper().push(out, &["<m:properties>"]);
}

/// Selected names that the entity lacks are written as null.
fn write_properties(
    out: &mut Vec<u8>,
    context: &EntityContext<'_>,
    entity: &EntityView<'_>,
    lines: Lines,
) -> Result<(), DamagedRecord> {
    let Some(select) = context.select.filter(|select| !select.is_all()) else {
        write_system_properties(out, entity, |_| true, lines);
        for property in entity.record.properties() {
            let property = property?;
            write_property(out, property.name()?, property.value()?, lines);
        }
        return Ok(());
    };
    write_system_properties(out, entity, |name| select.has(name), lines);
    let projection = select.project(entity.record)?;
    for property in projection.present {
        write_property(out, property.name()?, property.value()?, lines);
    }
    for name in projection.missing.into_iter().filter(|name| is_element_name(name)) {
        lines.push(out, &["<d:", name, " m:null=\"true\" />"]);
    }
    Ok(())
}

fn write_system_properties(out: &mut Vec<u8>, entity: &EntityView<'_>, selected: impl Fn(&str) -> bool, lines: Lines) {
    for (name, value) in [
        (PARTITION_KEY, EdmValue::String(&entity.key.partition)),
        (ROW_KEY, EdmValue::String(&entity.key.row)),
        (TIMESTAMP, EdmValue::DateTime(entity.record.timestamp())),
    ] {
        if selected(name) {
            write_property(out, name, value, lines);
        }
    }
}

/// Returns true if a selected name, which may have characters that no property name has, is a valid element name.
/// UNVERIFIED (03 §5.3): how the service handles an invalid name.
fn is_element_name(name: &str) -> bool {
    check_property_name_within(name, EntityLimits::WIDEST.name_units_max).is_ok()
}

fn write_property(out: &mut Vec<u8>, name: &str, value: EdmValue<'_>, lines: Lines) {
    lines.push(out, &["<d:", name]);
    match value {
        EdmValue::String(text) if text.starts_with(is_white_space) || text.ends_with(is_white_space) => {
            out.extend_from_slice(b" xml:space=\"preserve\"");
        }
        _ if value.edm_type() == EdmType::String => {}
        _ => push(out, &[" m:type=\"", value.edm_type().name(), "\""]),
    }
    out.push(b'>');
    write_value(out, value);
    push(out, &["</d:", name, ">"]);
}

fn push(out: &mut Vec<u8>, parts: &[&str]) {
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atom::read_table;
    use crate::entity_body::KeyLocation;
    use crate::json;
    use crate::negotiation::Format;
    use crate::select::Select;
    use crate::version::Version;
    use model::{AccountName, Dialect, EntityKey, KeyText, Record};

    fn account() -> AccountName {
        AccountName::new("acct").unwrap()
    }

    fn context(account: &AccountName, is_first_form: bool) -> ResponseContext<'_> {
        let now = DateTime::parse("2023-11-05T06:31:02.7Z").unwrap();
        let version = if is_first_form { Version::UPSERT } else { Version::JSON };
        ResponseContext {
            base: "https://acct.table.example",
            account,
            dialect: Dialect::Storage,
            format: Format::Atom,
            version,
            now,
        }
    }

    fn key(partition: &str, row: &str) -> EntityKey {
        EntityKey { partition: KeyText::new(partition).unwrap(), row: KeyText::new(row).unwrap() }
    }

    fn record(body: &str) -> Record {
        let timestamp = DateTime::parse("2023-11-05T06:31:02.1Z").unwrap();
        json::read_entity(body.as_bytes(), KeyLocation::Address, &EntityLimits::STORAGE)
            .unwrap()
            .properties
            .finish(timestamp)
    }

    fn single(is_first_form: bool, select: Option<&Select>, key: &EntityKey, record: &Record) -> String {
        let account = account();
        let context = EntityContext { response: context(&account, is_first_form), table: "cars", select };
        let mut out = Vec::new();
        write_single_entity(&mut out, &context, &EntityView::from_parts(key, record).unwrap()).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn properties(document: &str) -> &str {
        let (_, rest) = document.split_once("<m:properties>").unwrap();
        rest.split_once("</m:properties>").unwrap().0
    }

    const NAMESPACES: &str = "xmlns=\"http://www.w3.org/2005/Atom\" xmlns:d=\"http://schemas.microsoft.com/ado/2007/08/dataservices\" xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\"";

    /// The start tag of a root in versions in the first form, without the declaration.
    fn first_root(name: &str, etag: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\r\n<{name} xml:base=\"https://acct.table.example/\" xmlns:d=\"http://schemas.microsoft.com/ado/2007/08/dataservices\" xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\"{etag} xmlns=\"http://www.w3.org/2005/Atom\">\r\n"
        )
    }

    /// The elements of an entry in the first form, at the given indentation.
    fn first_entry(indent: &str, set: &str, address: &str, properties: &[&str]) -> String {
        let mut lines = vec![
            format!("  <id>https://acct.table.example/{address}</id>"),
            "  <title type=\"text\"></title>".to_owned(),
            "  <updated>2023-11-05T06:31:02Z</updated>".to_owned(),
            "  <author>".to_owned(),
            "    <name />".to_owned(),
            "  </author>".to_owned(),
            format!("  <link rel=\"edit\" title=\"{set}\" href=\"{address}\" />"),
            format!("  <category term=\"acct.{set}\" scheme=\"{SCHEME}\" />"),
            "  <content type=\"application/xml\">".to_owned(),
            "    <m:properties>".to_owned(),
        ];
        lines.extend(properties.iter().map(|property| format!("      {property}")));
        lines.extend(["    </m:properties>", "  </content>", "</entry>"].map(str::to_owned));
        lines.iter().fold(String::new(), |text, line| text + indent + line + "\r\n")
    }

    const ETAG: &str = " m:etag=\"W/&quot;datetime'2023-11-05T06%3A31%3A02.1Z'&quot;\"";

    #[test]
    fn an_entity_in_the_first_form() {
        let address = "cars(PartitionKey='cars',RowKey='a%20b''c')";
        let key = key("cars", "a b'c");
        let stored = record(r#"{"Empty":"","Doors":4}"#);
        let timestamp = "<d:Timestamp m:type=\"Edm.DateTime\">2023-11-05T06:31:02.1Z</d:Timestamp>";
        let doors = "<d:Doors m:type=\"Edm.Int32\">4</d:Doors>";
        let all = [
            "<d:PartitionKey>cars</d:PartitionKey>",
            "<d:RowKey>a b'c</d:RowKey>",
            timestamp,
            "<d:Empty></d:Empty>",
            doors,
        ];
        let document = |properties: &[&str]| {
            let text = first_root("entry", ETAG) + &first_entry("", "cars", address, properties);
            text.strip_suffix("\r\n").unwrap().to_owned()
        };
        assert_eq!(single(true, None, &key, &stored), document(&all));
        let select = Select::parse("Doors,None").unwrap();
        assert_eq!(single(true, Some(&select), &key, &stored), document(&[doors, "<d:None m:null=\"true\" />"]));

        let account = account();
        let context = EntityContext { response: context(&account, true), table: "cars", select: None };
        let mut out = Vec::new();
        write_start_of_entity_feed(&mut out, &context, false, None);
        write_entity_in_feed(&mut out, &context, &EntityView::from_parts(&key, &stored).unwrap()).unwrap();
        end_feed(&mut out, context.response);
        let start = "  <title type=\"text\">cars</title>\r\n  <id>https://acct.table.example/cars</id>\r\n  <updated>2023-11-05T06:31:02Z</updated>\r\n  <link rel=\"self\" title=\"cars\" href=\"cars\" />\r\n";
        let entry = format!("  <entry{ETAG}>\r\n") + &first_entry("  ", "cars", address, &all);
        assert_eq!(String::from_utf8(out).unwrap(), first_root("feed", "") + start + &entry + "</feed>");
    }

    #[test]
    fn values_of_every_type() {
        let body = r#"{"s":"<a & \"b\">\r\n","blank":" x","empty":"","odd":"\u0001","yes":true,"no":false,"n":-5,
            "l@odata.type":"Edm.Int64","l":"9007199254740993","b@odata.type":"Edm.Binary","b":"AQIDBA==",
            "t@odata.type":"Edm.DateTime","t":"2023-11-05T06:30:00.10Z","g@odata.type":"Edm.Guid","g":"0B0C0D0E-1111-4222-8333-444455556666",
            "half":0.5,"five":5.0,"huge":1e300,"nan@odata.type":"Edm.Double","nan":"NaN","up@odata.type":"Edm.Double","up":"Infinity",
            "down@odata.type":"Edm.Double","down":"-Infinity"}"#;
        let document = single(false, None, &key("p", "r"), &record(body));
        let (_, custom) = properties(&document).split_once("</d:Timestamp>").unwrap();
        assert_eq!(
            custom,
            "<d:s xml:space=\"preserve\">&lt;a &amp; \"b\"&gt;&#xD;\n</d:s><d:blank xml:space=\"preserve\"> x</d:blank><d:empty></d:empty><d:odd>&#x1;</d:odd><d:yes m:type=\"Edm.Boolean\">true</d:yes><d:no m:type=\"Edm.Boolean\">false</d:no><d:n m:type=\"Edm.Int32\">-5</d:n><d:l m:type=\"Edm.Int64\">9007199254740993</d:l><d:b m:type=\"Edm.Binary\">AQIDBA==</d:b><d:t m:type=\"Edm.DateTime\">2023-11-05T06:30:00.1Z</d:t><d:g m:type=\"Edm.Guid\">0b0c0d0e-1111-4222-8333-444455556666</d:g><d:half m:type=\"Edm.Double\">0.5</d:half><d:five m:type=\"Edm.Double\">5</d:five><d:huge m:type=\"Edm.Double\">1E+300</d:huge><d:nan m:type=\"Edm.Double\">NaN</d:nan><d:up m:type=\"Edm.Double\">INF</d:up><d:down m:type=\"Edm.Double\">-INF</d:down>"
        );
    }

    #[test]
    fn projection_is_in_ordinal_order_with_missing_names_last() {
        let record = record(r#"{"sex":"male","age":39,"B":1}"#);
        for (list, expected) in [
            ("sex,age", "<d:age m:type=\"Edm.Int32\">39</d:age><d:sex>male</d:sex>"),
            ("none,sex,RowKey,a€", "<d:RowKey>r</d:RowKey><d:sex>male</d:sex><d:none m:null=\"true\" />"),
        ] {
            let document = single(false, Some(&Select::parse(list).unwrap()), &key("p", "r"), &record);
            assert_eq!(properties(&document), expected, "{list}");
        }
        let all = single(false, Some(&Select::parse("").unwrap()), &key("p", "r"), &record);
        assert_eq!(all, single(false, None, &key("p", "r"), &record));
    }

    #[test]
    fn feeds() {
        let account = account();
        let table_feed = |is_first_form, tables: &[&str]| {
            let mut out = Vec::new();
            write_table_feed(&mut out, context(&account, is_first_form), tables.iter().copied());
            String::from_utf8(out).unwrap()
        };
        let start = format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><feed xml:base=\"https://acct.table.example/\" {NAMESPACES}><id>https://acct.table.example/Tables</id><title type=\"text\">Tables</title><updated>2023-11-05T06:31:02Z</updated>"
        );
        let link = "<link rel=\"self\" title=\"Tables\" href=\"Tables\" />";
        assert_eq!(table_feed(false, &[]), format!("{start}<author><name /></author>{link}</feed>"));
        let entry = "<entry><id>https://acct.table.example/Tables('a1x')</id><category term=\"acct.Tables\" scheme=\"http://schemas.microsoft.com/ado/2007/08/dataservices/scheme\" /><link rel=\"edit\" title=\"Tables\" href=\"Tables('a1x')\" /><title /><updated>2023-11-05T06:31:02Z</updated><author><name /></author><content type=\"application/xml\"><m:properties><d:TableName>a1x</d:TableName></m:properties></content></entry>";
        assert_eq!(table_feed(false, &["a1x"]), format!("{start}{link}{entry}</feed>"));
        let first = first_root("feed", "")
            + "  <title type=\"text\">Tables</title>\r\n  <id>https://acct.table.example/Tables</id>\r\n  <updated>2023-11-05T06:31:02Z</updated>\r\n";
        let link = format!("  {link}\r\n");
        let author = "  <author>\r\n    <name />\r\n  </author>\r\n";
        assert_eq!(table_feed(true, &[]), format!("{first}{author}{link}</feed>"));
        let entry = first_entry("  ", "Tables", "Tables('a1x')", &["<d:TableName>a1x</d:TableName>"]);
        assert_eq!(table_feed(true, &["a1x"]), format!("{first}{link}  <entry>\r\n{entry}</feed>"));
    }

    #[test]
    fn a_table_reads_back() {
        let mut out = Vec::new();
        write_single_table(&mut out, context(&account(), false), "invoices");
        assert_eq!(read_table(&out), Ok(Some("invoices".to_owned())));
    }
}
