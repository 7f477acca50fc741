//! Attributes that are unknown, given twice, in the wrong place or mutually exclusive.

use rowhouse_client::entity::{Entity, Properties, ETag};

#[derive(Entity)]
#[entity(partition_key = "p", row_key = "r", table = "x")]
struct UnknownOfType {
    level: i32,
}

#[derive(Entity)]
#[entity(partition_key = "p", row_key = "r")]
struct Unknown {
    #[entity(column = "x")]
    a: i32,
    #[entity(skip, skip)]
    b: i32,
    #[entity(lenient = 5)]
    c: i32,
    #[entity(rename = 5)]
    d: i32,
    #[entity(default = 5)]
    e: i32,
    #[entity(skip, rename = "X")]
    f: i32,
    #[entity(etag, default)]
    g: Option<ETag>,
}

#[derive(Entity)]
#[entity(partition_key = "p", row_key = "r", mismatch = "panic", rename_all = "kebab-case")]
struct Values {
    level: i32,
}

#[derive(Entity)]
#[entity(partition_key = "p", row_key = "r", row_key = "s", tag = "Kind")]
struct Again {
    level: i32,
}

#[derive(Entity)]
#[entity(partition_key = "p", row_key = "r")]
struct TwoRests {
    #[entity(rest)]
    a: Properties,
    #[entity(rest)]
    b: Properties,
    #[entity(etag)]
    c: Option<ETag>,
    #[entity(etag)]
    d: Option<ETag>,
}

#[derive(Entity)]
#[entity(partition_key = "p", row_key = "r")]
struct Names {
    #[entity(rename = "not a name")]
    a: i32,
    #[entity(rename = "Timestamp")]
    b: i32,
    #[entity(rename = "d")]
    c: i32,
    d: i32,
}

#[derive(Entity)]
#[entity(partition_key = "p", row_key = "r", rename_all = "lowercase")]
struct RenamedToOne {
    a_b: i32,
    ab: i32,
}

#[derive(Entity)]
#[entity(partition_key = "p", row_key = "r")]
struct Tuple(i32);

#[derive(Entity)]
#[entity(partition_key = "p", row_key = "r")]
struct Borrowed<'a> {
    name: &'a str,
}

#[derive(Entity)]
union Union {
    a: i32,
}

fn main() {}
