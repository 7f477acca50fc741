//! Writes response bodies with the same order of elements and the same spelling as the service (specification 03 §5.3,
//! §5.4).
//!
//! This module must not depend on HTTP. It reads only the stored record of an entity.

use super::value::{is_white_space, write_attribute, write_text, write_value};
use super::{ATOM, DATA, METADATA, SCHEME};
use crate::entities::response_context::{EntityContext, ResponseContext};
use crate::uri::{write_entity_address, write_table_address};
use crate::version::Version;
use model::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use model::record::DamagedRecord;
use model::{EdmType, EdmValue, EntityView};

/// Returns true if elements are written in the order used before version 2013-08-15.
fn is_old(context: ResponseContext<'_>) -> bool {
    context.version < Version::JSON
}

/// Writes one entity as a complete document.
pub fn write_single_entity(
    out: &mut Vec<u8>,
    context: &EntityContext<'_>,
    entity: &EntityView<'_>,
) -> Result<(), DamagedRecord> {
    write_declaration(out, context.response);
    start_root(out, context.response, "entry");
    write_entity(out, context, entity)
}

/// Writes one entity as part of a feed.
pub fn write_entity_in_feed(
    out: &mut Vec<u8>,
    context: &EntityContext<'_>,
    entity: &EntityView<'_>,
) -> Result<(), DamagedRecord> {
    out.extend_from_slice(b"<entry");
    write_entity(out, context, entity)
}

/// Writes the beginning of a feed, up to its first entity.
pub fn write_start_of_entity_feed(out: &mut Vec<u8>, context: &EntityContext<'_>, is_empty: bool) {
    start_feed(out, context.response, context.table, is_empty);
}

/// Writes the end of a feed, after its last entry.
pub fn end_feed(out: &mut Vec<u8>) {
    out.extend_from_slice(b"</feed>");
}

/// Writes the response to Create Table and to a query of one table.
pub fn write_single_table(out: &mut Vec<u8>, context: ResponseContext<'_>, table: &str) {
    write_declaration(out, context);
    start_root(out, context, "entry");
    write_table(out, context, table);
}

/// Writes the response to Query Tables.
pub fn write_table_feed<'t>(out: &mut Vec<u8>, context: ResponseContext<'_>, tables: impl Iterator<Item = &'t str>) {
    let mut tables = tables.peekable();
    start_feed(out, context, "Tables", tables.peek().is_none());
    for table in tables {
        out.extend_from_slice(b"<entry");
        write_table(out, context, table);
    }
    end_feed(out);
}

fn write_declaration(out: &mut Vec<u8>, context: ResponseContext<'_>) {
    let standalone = if is_old(context) { " standalone=\"yes\"" } else { "" };
    push(out, &["<?xml version=\"1.0\" encoding=\"utf-8\"", standalone, "?>"]);
}

/// Writes the start tag of a root element, up to the last attribute that all documents have.
fn start_root(out: &mut Vec<u8>, context: ResponseContext<'_>, name: &str) {
    push(out, &["<", name, " xml:base=\""]);
    write_attribute(out, context.base);
    push(out, &["/\" xmlns=\"", ATOM, "\" xmlns:d=\"", DATA, "\" xmlns:m=\"", METADATA, "\""]);
}

/// UNVERIFIED (03 §5.4): an empty feed has an author, as Atom requires, and the author is at this position.
fn start_feed(out: &mut Vec<u8>, context: ResponseContext<'_>, name: &str, is_empty: bool) {
    write_declaration(out, context);
    start_root(out, context, "feed");
    out.push(b'>');
    let id = |out: &mut Vec<u8>| {
        out.extend_from_slice(b"<id>");
        write_text(out, context.base);
        push(out, &["/", name, "</id>"]);
    };
    let title = |out: &mut Vec<u8>| push(out, &["<title type=\"text\">", name, "</title>"]);
    if is_old(context) {
        title(out);
        id(out);
    } else {
        id(out);
        title(out);
    }
    write_updated(out, context);
    if is_empty {
        out.extend_from_slice(AUTHOR);
    }
    push(out, &["<link rel=\"self\" title=\"", name, "\" href=\"", name, "\" />"]);
}

const AUTHOR: &[u8] = b"<author><name /></author>";

fn write_updated(out: &mut Vec<u8>, context: ResponseContext<'_>) {
    out.extend_from_slice(b"<updated>");
    context.now.write_whole_seconds_to(out);
    out.extend_from_slice(b"</updated>");
}

/// Writes an entity, starting after the attributes that every start tag has.
fn write_entity(out: &mut Vec<u8>, context: &EntityContext<'_>, entity: &EntityView<'_>) -> Result<(), DamagedRecord> {
    out.extend_from_slice(b" m:etag=\"W/&quot;datetime'");
    entity.record.timestamp().write_etag_to(out);
    out.extend_from_slice(b"'&quot;\">");
    let address = |out: &mut Vec<u8>| {
        write_entity_address(out, context.table, &entity.key.partition, &entity.key.row);
    };
    write_metadata(out, context.response, context.table, address);
    write_properties(out, context, entity)?;
    end_entry(out);
    Ok(())
}

/// Writes a table, starting after the attributes of its start tag.
fn write_table(out: &mut Vec<u8>, context: ResponseContext<'_>, table: &str) {
    out.push(b'>');
    write_metadata(out, context, "Tables", |out| write_table_address(out, table));
    push(out, &["<d:TableName>", table, "</d:TableName>"]);
    end_entry(out);
}

fn end_entry(out: &mut Vec<u8>) {
    out.extend_from_slice(b"</m:properties></content></entry>");
}

/// Writes the metadata of an entry, up to its properties. URLs need no XML escaping: their special characters are
/// percent-encoded, and quotes are valid as they are. UNVERIFIED (03 §5.3): the order before version 2013-08-15, which
/// follows the documentation.
fn write_metadata(out: &mut Vec<u8>, context: ResponseContext<'_>, set: &str, address: impl Fn(&mut Vec<u8>)) {
    let category = |out: &mut Vec<u8>| {
        push(out, &["<category term=\"", context.account.as_str(), ".", set, "\" scheme=\"", SCHEME, "\" />"]);
    };
    let link = |out: &mut Vec<u8>| {
        push(out, &["<link rel=\"edit\" title=\"", set, "\" href=\""]);
        address(out);
        out.extend_from_slice(b"\" />");
    };
    out.extend_from_slice(b"<id>");
    write_text(out, context.base);
    out.push(b'/');
    address(out);
    out.extend_from_slice(b"</id>");
    if is_old(context) {
        out.extend_from_slice(b"<title type=\"text\"></title>");
    } else {
        category(out);
        link(out);
        out.extend_from_slice(b"<title />");
    }
    write_updated(out, context);
    out.extend_from_slice(AUTHOR);
    if is_old(context) {
        link(out);
        category(out);
    }
    out.extend_from_slice(b"<content type=\"application/xml\"><m:properties>");
}

/// Selected names that the entity lacks are written as null.
fn write_properties(
    out: &mut Vec<u8>,
    context: &EntityContext<'_>,
    entity: &EntityView<'_>,
) -> Result<(), DamagedRecord> {
    let Some(select) = context.select.filter(|select| !select.is_all()) else {
        write_system_properties(out, entity, |_| true);
        for property in entity.record.properties() {
            let property = property?;
            write_property(out, property.name()?, property.value()?);
        }
        return Ok(());
    };
    write_system_properties(out, entity, |name| select.has(name));
    let projection = select.project(entity.record)?;
    for property in projection.present {
        write_property(out, property.name()?, property.value()?);
    }
    for name in projection.missing.into_iter().filter(|name| is_element_name(name)) {
        push(out, &["<d:", name, " m:null=\"true\" />"]);
    }
    Ok(())
}

fn write_system_properties(out: &mut Vec<u8>, entity: &EntityView<'_>, selected: impl Fn(&str) -> bool) {
    for (name, value) in [
        (PARTITION_KEY, EdmValue::String(&entity.key.partition)),
        (ROW_KEY, EdmValue::String(&entity.key.row)),
        (TIMESTAMP, EdmValue::DateTime(entity.record.timestamp())),
    ] {
        if selected(name) {
            write_property(out, name, value);
        }
    }
}

/// Returns true if a selected name, which may have characters that no property name has, is a valid element name.
/// UNVERIFIED (03 §5.3): how the service handles an invalid name.
fn is_element_name(name: &str) -> bool {
    model::name::check_property_name(name).is_ok()
}

fn write_property(out: &mut Vec<u8>, name: &str, value: EdmValue<'_>) {
    push(out, &["<d:", name]);
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
    use model::{AccountName, DateTime, EntityKey, KeyText, Record};

    fn account() -> AccountName {
        AccountName::new("acct").unwrap()
    }

    fn context(account: &AccountName, is_old: bool) -> ResponseContext<'_> {
        let now = DateTime::parse("2023-11-05T06:31:02.7Z").unwrap();
        let version = if is_old { Version::UPSERT } else { Version::JSON };
        ResponseContext { base: "https://acct.table.example", account, format: Format::Atom, version, now }
    }

    fn key(partition: &str, row: &str) -> EntityKey {
        EntityKey { partition: KeyText::new(partition).unwrap(), row: KeyText::new(row).unwrap() }
    }

    fn record(body: &str) -> Record {
        let timestamp = DateTime::parse("2023-11-05T06:31:02.1Z").unwrap();
        json::read_entity(body.as_bytes(), KeyLocation::Address).unwrap().properties.finish(timestamp)
    }

    fn single(is_old: bool, select: Option<&Select>, key: &EntityKey, record: &Record) -> String {
        let account = account();
        let context = EntityContext { response: context(&account, is_old), table: "cars", select };
        let mut out = Vec::new();
        write_single_entity(&mut out, &context, &EntityView::from_parts(key, record).unwrap()).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn properties(document: &str) -> &str {
        let (_, rest) = document.split_once("<m:properties>").unwrap();
        rest.split_once("</m:properties>").unwrap().0
    }

    const NAMESPACES: &str = "xmlns=\"http://www.w3.org/2005/Atom\" xmlns:d=\"http://schemas.microsoft.com/ado/2007/08/dataservices\" xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\"";

    #[test]
    fn an_entity_in_the_older_order() {
        let document = single(true, None, &key("cars", "a b'c"), &record("{}"));
        let (head, rest) = document.split_once("<id>").unwrap();
        assert!(
            head.starts_with("<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?><entry xml:base"),
            "{head}"
        );
        assert_eq!(
            rest.split_once("<content").unwrap().0,
            "https://acct.table.example/cars(PartitionKey='cars',RowKey='a%20b''c')</id><title type=\"text\"></title><updated>2023-11-05T06:31:02Z</updated><author><name /></author><link rel=\"edit\" title=\"cars\" href=\"cars(PartitionKey='cars',RowKey='a%20b''c')\" /><category term=\"acct.cars\" scheme=\"http://schemas.microsoft.com/ado/2007/08/dataservices/scheme\" />"
        );
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
        let table_feed = |is_old, tables: &[&str]| {
            let mut out = Vec::new();
            write_table_feed(&mut out, context(&account, is_old), tables.iter().copied());
            String::from_utf8(out).unwrap()
        };
        let start = format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><feed xml:base=\"https://acct.table.example/\" {NAMESPACES}><id>https://acct.table.example/Tables</id><title type=\"text\">Tables</title><updated>2023-11-05T06:31:02Z</updated>"
        );
        let link = "<link rel=\"self\" title=\"Tables\" href=\"Tables\" />";
        assert_eq!(table_feed(false, &[]), format!("{start}<author><name /></author>{link}</feed>"));
        let entry = "<entry><id>https://acct.table.example/Tables('a1x')</id><category term=\"acct.Tables\" scheme=\"http://schemas.microsoft.com/ado/2007/08/dataservices/scheme\" /><link rel=\"edit\" title=\"Tables\" href=\"Tables('a1x')\" /><title /><updated>2023-11-05T06:31:02Z</updated><author><name /></author><content type=\"application/xml\"><m:properties><d:TableName>a1x</d:TableName></m:properties></content></entry>";
        assert_eq!(table_feed(false, &["a1x"]), format!("{start}{link}{entry}</feed>"));
        assert!(table_feed(true, &["a1x"]).contains("><title type=\"text\">Tables</title><id>"));
    }

    #[test]
    fn a_table_reads_back() {
        let mut out = Vec::new();
        write_single_table(&mut out, context(&account(), false), "invoices");
        assert_eq!(read_table(&out), Ok(Some("invoices".to_owned())));
    }
}
