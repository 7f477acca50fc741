//! Keys: none, two, and templates that could not be read back.

use rowhouse_client::entity::Entity;

#[derive(Entity)]
struct NoKeys {
    level: i32,
}

#[derive(Entity)]
#[entity(partition_key = "p")]
struct NoRowKey {
    level: i32,
}

#[derive(Entity)]
#[entity(partition_key = "p")]
struct TwoRowKeys {
    #[entity(row_key)]
    a: String,
    #[entity(row_key)]
    b: String,
}

#[derive(Entity)]
#[entity(partition_key = "p", row_key = "{a}")]
struct KeyOfTypeAndField {
    #[entity(partition_key)]
    a: String,
}

#[derive(Entity)]
#[entity(partition_key = "{a", row_key = "a}")]
struct Braces {
    a: String,
}

#[derive(Entity)]
#[entity(partition_key = "{a}{b}", row_key = "{a:8}")]
struct NotSeparated {
    a: String,
    b: String,
}

#[derive(Entity)]
#[entity(partition_key = "a/b", row_key = "{missing}")]
struct NotKeys {
    a: String,
}

#[derive(Entity)]
#[entity(partition_key = "p", row_key = "{a}_{a}")]
struct Twice {
    a: String,
}

#[derive(Entity)]
#[entity(partition_key = "p")]
struct Formats {
    #[entity(row_key, padded = 21)]
    a: u64,
}

#[derive(Entity)]
#[entity(partition_key = "p")]
struct BothFormats {
    #[entity(row_key, padded = 8, inverted)]
    a: u64,
    #[entity(padded = 8)]
    b: u64,
}

#[derive(Entity)]
#[entity(partition_key = "p", row_key = "{a}_{b}_{c}")]
struct KeyFields {
    #[entity(default)]
    a: String,
    #[entity(rename = "B")]
    b: String,
    #[entity(json)]
    c: String,
    #[entity(stored)]
    d: String,
}

fn main() {}
