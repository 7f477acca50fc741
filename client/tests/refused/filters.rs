//! Filters with wrong names, wrong types and wrong operators.

use rowhouse_client::entity::Entity;

#[derive(Entity)]
#[entity(partition_key = "p")]
struct Customer {
    #[entity(row_key)]
    number: u32,
    name: String,
    visits: i64,
    level: i32,
    is_active: bool,
    #[entity(json)]
    tags: Vec<String>,
    #[entity(encrypt)]
    secret: String,
    #[entity(skip)]
    cache: i32,
}

#[derive(Entity)]
#[entity(partition_key = "p", row_key = "r")]
struct Order {
    total: i64,
}

fn main() {
    let p = Customer::PROPERTIES;
    p.nam.eq("Ada");
    p.cache.eq(1);
    p.tags.eq("Ada");
    p.secret.eq("Ada");
    p.secret.in_range("Ada"..);
    p.tags.contains("Ada");
    p.secret.is_true();
    p.name.eq(5);
    p.visits.eq("5");
    p.level.eq(5_i64);
    p.is_active.lt(true);
    p.visits.starts_with("5");
    p.name.is_true();
    p.number.lt(5_u32);
    p.visits.gt(5) & Order::PROPERTIES.total.gt(5);
}
