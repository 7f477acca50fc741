//! Fields whose types cannot be properties, parts of keys, or padded.

use rowhouse_client::entity::Entity;

struct Color;

#[derive(Entity)]
#[entity(partition_key = "p", row_key = "r")]
struct NotAValue {
    color: Color,
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

fn main() {}
