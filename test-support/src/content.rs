//! The content of an account: filling it, and reading it back for comparison.

use crate::{Client, Server};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use wire::batch::ChangesetWriter;
use wire::uri::write_entity_address;

/// The content of an account. A copy of the account must have the same content apart from Timestamps and ETags.
#[derive(Debug, PartialEq)]
pub struct Snapshot {
    tables: BTreeMap<String, Table>,
    properties: String,
}

#[derive(Debug, PartialEq)]
struct Table {
    entities: Vec<Value>,
    policies: String,
}

const XML: (&str, &str) = ("Content-Type", "application/xml");

/// Reads everything except Timestamps and ETags.
pub fn snapshot(server: &Server) -> Snapshot {
    read(server, false)
}

/// Reads everything, including Timestamps and ETags.
pub fn exact_snapshot(server: &Server) -> Snapshot {
    read(server, true)
}

fn read(server: &Server, with_stamps: bool) -> Snapshot {
    let mut client = server.client();
    let mut tables = BTreeMap::new();
    for entry in client.query("/Tables?", &[]).unwrap() {
        let name = entry["TableName"].as_str().unwrap().to_owned();
        tables.insert(name.clone(), table(&mut server.client(), &name, with_stamps));
    }
    let answer = client.request("GET", "/?restype=service&comp=properties", &[XML], b"");
    assert_eq!(answer.status, 200, "{answer:?}");
    Snapshot { tables, properties: String::from_utf8(answer.body).unwrap() }
}

impl Snapshot {
    /// Returns the content as JSON.
    pub fn to_json(&self) -> Value {
        let table = |table: &Table| json!({ "entities": table.entities, "policies": table.policies });
        let tables: serde_json::Map<String, Value> =
            self.tables.iter().map(|(name, content)| (name.clone(), table(content))).collect();
        json!({ "tables": tables, "properties": self.properties })
    }

    /// Returns a textual form of each table.
    pub fn tables(&self) -> BTreeMap<String, String> {
        self.tables.iter().map(|(name, table)| (name.clone(), format!("{table:?}"))).collect()
    }

    /// Returns the number of entities.
    pub fn entities(&self) -> usize {
        self.tables.values().map(|table| table.entities.len()).sum()
    }
}

fn table(client: &mut Client, name: &str, with_stamps: bool) -> Table {
    let answer = client.request("GET", &format!("/{name}?comp=acl"), &[XML], b"");
    assert_eq!(answer.status, 200, "{answer:?}");
    let policies = String::from_utf8(answer.body).unwrap();
    let mut entities = Vec::new();
    for mut entity in client.query(&format!("/{name}()?"), &[]).unwrap() {
        for given_by_the_service in ["Timestamp", "odata.etag"] {
            assert!(entity.contains_key(given_by_the_service));
            if !with_stamps {
                entity.remove(given_by_the_service);
            }
        }
        entities.push(Value::Object(entity));
    }
    Table { entities, policies }
}

/// Creates a table.
pub fn create_table(client: &mut Client, name: &str) {
    let answer = client.request("POST", "/Tables", &[], json!({ "TableName": name }).to_string().as_bytes());
    assert_eq!(answer.status, 201, "{answer:?}");
}

/// Inserts or replaces an entity with any keys.
pub fn put(client: &mut Client, table: &str, partition: &str, row: &str, properties: &Value) {
    let mut path = b"/".to_vec();
    write_entity_address(&mut path, table, partition, row);
    let path = String::from_utf8(path).unwrap();
    let answer = client.request("PUT", &path, &[], properties.to_string().as_bytes());
    assert_eq!(answer.status, 204, "{path}: {answer:?}");
}

/// Stores many entities, in transactions of 100.
pub fn fill(server: &Server, table: &str, partitions: usize, rows: usize) {
    let mut client = server.client();
    create_table(&mut client, table);
    for partition in 0..partitions {
        fill_partition(&mut client, table, partition, rows);
    }
}

/// Fills a partition of a table in batches. Each entity's number equals its row number.
pub fn fill_partition(client: &mut Client, table: &str, partition: usize, rows: usize) {
    for first in (0..rows).step_by(100) {
        let mut changeset = ChangesetWriter::new(Vec::new());
        for row in first..rows.min(first + 100) {
            let write_address = |out: &mut Vec<u8>| {
                out.extend_from_slice(b"http://127.0.0.1/devstoreaccount1/");
                write_entity_address(out, table, &format!("p{partition:05}"), &format!("{row:05}"));
            };
            let properties = json!({ "Number": row, "Text": format!("{partition} {row}").repeat(1 + row % 30) });
            changeset.operation("PUT", None, write_address, |out| out.extend(properties.to_string().bytes()));
        }
        let content_type = ("Content-Type", ChangesetWriter::CONTENT_TYPE);
        let answer = client.request("POST", "/$batch", &[content_type], &changeset.finish());
        let refusals = String::from_utf8(answer.body).unwrap().matches("HTTP/1.1 4").count();
        assert_eq!((answer.status, refusals), (202, 0));
    }
}

/// Fills an account with a variety of content: boundary values of all types, unusual keys, many properties, policies,
/// and service properties.
pub fn fill_with_everything(server: &Server) {
    let mut client = server.client();
    for name in ["Harvest", "EMPTY", "odd", "wide"] {
        create_table(&mut client, name);
    }
    put(&mut client, "Harvest", "types", "1", &every_type());
    put(&mut client, "Harvest", "types", "none", &json!({}));
    for (number, partition) in ODD_KEYS.iter().enumerate() {
        for row in ODD_KEYS {
            put(&mut client, "odd", partition, row, &json!({ "Number": number }));
        }
    }
    let wide: serde_json::Map<String, Value> =
        (0..252).map(|number| (format!("Property{number}"), number.into())).collect();
    put(&mut client, "wide", "wide", "1", &Value::Object(wide));
    let policies = b"<SignedIdentifiers><SignedIdentifier><Id>a &amp; b</Id><AccessPolicy>\
        <Start>2031-03-01T09:30:00.1234567Z</Start><Expiry>2031-04-01</Expiry><Permission>raud</Permission></AccessPolicy>\
        </SignedIdentifier><SignedIdentifier><Id>open</Id></SignedIdentifier></SignedIdentifiers>";
    let answer = client.request("PUT", "/Harvest?comp=acl", &[XML], policies);
    assert_eq!(answer.status, 204, "{answer:?}");
    set_properties(&mut client, "https://orchard.example");
}

/// Stores large entities whose characters take six bytes each in JSON, so that a transaction with them must be split.
pub fn fill_large(server: &Server) {
    let mut client = server.client();
    create_table(&mut client, "Escaped");
    let text = "\u{1}".repeat(30_000);
    let properties: serde_json::Map<String, Value> =
        (0..16).map(|number| (format!("Text{number}"), text.clone().into())).collect();
    let properties = Value::Object(properties);
    for number in 0..3 {
        put(&mut client, "Escaped", "same", &number.to_string(), &properties);
    }
}

/// Sets logging, metrics and a CORS rule for the given origin.
pub fn set_properties(client: &mut Client, origin: &str) {
    let retention = "<RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy>";
    let properties = format!(
        "<StorageServiceProperties><Logging><Version>1.0</Version><Delete>true</Delete><Read>false</Read>\
         <Write>true</Write>{retention}</Logging><HourMetrics><Version>1.0</Version><Enabled>true</Enabled>\
         <IncludeAPIs>true</IncludeAPIs>{retention}</HourMetrics><Cors><CorsRule><AllowedOrigins>{origin}\
         </AllowedOrigins><AllowedMethods>GET,PUT</AllowedMethods><MaxAgeInSeconds>60</MaxAgeInSeconds><ExposedHeaders>\
         x-ms-*</ExposedHeaders><AllowedHeaders>*</AllowedHeaders></CorsRule></Cors></StorageServiceProperties>"
    );
    let answer = client.request("PUT", "/?restype=service&comp=properties", &[XML], properties.as_bytes());
    assert_eq!(answer.status, 202, "{answer:?}");
}

/// Keys that need escapes in URLs, JSON and XML. The last two sort differently in UTF-16 order and in byte order.
const ODD_KEYS: [&str; 9] = ["", "'", "''a'", "100%25 %", "a b+c&d=e", "\"<é>\";,:@$", "日本", "\u{FFFD}", "\u{1F600}"];

fn every_type() -> Value {
    json!({
        "String": "line\r\n\"quoted\" \u{1}\u{1F600} é", "EmptyString": "",
        "Yes": true, "No": false,
        "Int32Min": i32::MIN, "Int32Max": i32::MAX,
        "Int64Min@odata.type": "Edm.Int64", "Int64Min": i64::MIN.to_string(),
        "Int64Max@odata.type": "Edm.Int64", "Int64Max": i64::MAX.to_string(),
        "Whole@odata.type": "Edm.Double", "Whole": 5.0,
        "Least@odata.type": "Edm.Double", "Least": 5e-324,
        "Third@odata.type": "Edm.Double", "Third": 1.0 / 3.0,
        "NaN@odata.type": "Edm.Double", "NaN": "NaN",
        "Endless@odata.type": "Edm.Double", "Endless": "-Infinity",
        "First@odata.type": "Edm.DateTime", "First": "1601-01-01T00:00:00Z",
        "Last@odata.type": "Edm.DateTime", "Last": "9999-12-31T23:59:59.9999999Z",
        "Id@odata.type": "Edm.Guid", "Id": "01234567-89ab-cdef-0123-456789abcdef",
        "Binary@odata.type": "Edm.Binary", "Binary": "AP8HAA==",
        "Nothing@odata.type": "Edm.Binary", "Nothing": "",
        "Ünïcode_名": 1
    })
}
