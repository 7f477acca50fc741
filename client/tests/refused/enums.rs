//! Enums without a tag, and variants that cannot be entities.

use rowhouse_client::entity::{Entity, PropertyBag};

#[derive(Entity)]
#[entity(partition_key = "p", row_key = "r")]
struct A {
    level: i32,
}

#[derive(Entity)]
enum NoTag {
    A(A),
}

#[derive(Entity)]
#[entity(tag = "RowKey")]
enum SystemTag {
    A(A),
}

#[derive(Entity)]
#[entity(tag = "Kind")]
enum Variants {
    A(A),
    #[entity(kind = "A")]
    B(A),
    #[entity(other)]
    C(PropertyBag),
    #[entity(other)]
    D(PropertyBag),
    #[entity(other, kind = "E")]
    E(PropertyBag),
    #[entity(name = "F")]
    F(A),
    G,
    H { a: A },
    I(A, A),
}

#[derive(Entity)]
#[entity(tag = "Kind", rename_all = "PascalCase")]
enum Generic<T> {
    A(T),
}

#[derive(Entity)]
#[entity(tag = "Kind")]
enum Empty {}

fn main() {}
