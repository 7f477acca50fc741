//! Fields whose types are unsuitable for what they store. Each is reported once.

use rowhouse_client::entity::{Entity, PropertyBag};

struct Color;

#[derive(Entity)]
#[entity(partition_key = "p", row_key = "r")]
struct NotAValue {
    color: Color,
    list: Vec<Color>,
    #[entity(default)]
    without_default: Color,
    #[entity(encrypt)]
    secret: Option<Color>,
    #[entity(skip)]
    skipped: Color,
}

#[derive(Entity)]
#[entity(partition_key = "p", row_key = "r")]
struct NotJson {
    #[entity(json)]
    color: Color,
    #[entity(json, encrypt, lenient)]
    secret: Vec<String>,
    #[entity(json, default)]
    list: Vec<Color>,
}

#[derive(Entity)]
#[entity(partition_key = "p", row_key = "r")]
struct NotMetadata {
    #[entity(etag)]
    version: String,
    #[entity(timestamp)]
    changed: Color,
    #[entity(rest)]
    rest: PropertyBag,
}

#[derive(Entity)]
#[entity(partition_key = "p")]
struct NotAKey {
    #[entity(row_key)]
    score: f64,
}

#[derive(Entity)]
#[entity(partition_key = "p", row_key = "{name:08}")]
struct NotANumber {
    name: String,
}

#[derive(Entity)]
#[entity(partition_key = "p", row_key = "{color}_{color2}")]
struct NotKeys {
    #[entity(stored)]
    color: Color,
    color2: Color,
}

#[derive(Entity)]
#[entity(tag = "Kind")]
enum NotEntities {
    Color(Color),
}

fn main() {}
