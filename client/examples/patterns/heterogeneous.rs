//! Heterogeneous entity types: several kinds of entities in one partition, read by one query.
//!
//! A customer and the customer's orders and payments are kinds of one enum. They share a partition, so a transaction
//! can change an order together with the balance, and one query reads everything about a customer. The property `Kind`
//! contains the kind of an entity. This version of the program preserves entities of unknown kinds.

use crate::support::{Pattern, Result, requests};
use rowhouse_client::{Entity, IfMatch, PropertyBag, Transaction};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "customer")]
struct Customer {
    #[entity(partition_key)]
    id: String,
    name: String,
    /// In cents.
    balance: i64,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "order_{number:06}")]
struct Order {
    #[entity(partition_key)]
    customer: String,
    number: u32,
    total: i64,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "payment_{number:06}")]
struct Payment {
    #[entity(partition_key)]
    customer: String,
    number: u32,
    amount: i64,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(tag = "Kind")]
enum Record {
    Customer(Customer),
    Order(Order),
    Payment(Payment),
    #[entity(other)]
    Other(PropertyBag),
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("heterogeneous").await?;
    let table = pattern.table("accounts").await?;
    let ada = Customer { id: "ada".into(), name: "Ada".into(), balance: 0 };
    table.insert(&Record::Customer(ada.clone())).await?;

    let ordered = async {
        let customer = table.get::<Record>("ada", "customer").await?;
        let owing = Customer { balance: ada.balance - 4200, ..ada.clone() };
        let order = Order { customer: "ada".into(), number: 1, total: 4200 };
        let transaction = Transaction::new().insert(&Record::Order(order));
        table.commit(transaction.replace(&Record::Customer(owing), &customer)).await
    };
    let cost = requests(2).examined(1).returned(1).written(2);
    pattern.step("an order and the new balance", cost, ordered).await?;

    let paid = Transaction::new()
        .insert(&Record::Payment(Payment { customer: "ada".into(), number: 1, amount: 4200 }))
        .replace(&Record::Customer(ada.clone()), IfMatch::Any);
    pattern.step("a payment", requests(1).written(2), table.commit(paid)).await?;

    // Simulates an entity written by a later version of the program.
    let refund =
        PropertyBag::new("ada", "refund_000001")?.with("Kind", "Refund".to_owned())?.with("amount", 100_i64)?;
    table.insert(&refund).await?;

    let read = table.query::<Record>().partition("ada").collect();
    let all = pattern.step("everything about a customer", requests(1).examined(4).returned(4), read).await?;
    let (mut balance, mut others) = (0, 0);
    for record in all {
        match record.into_entity() {
            Record::Customer(customer) => assert_eq!(customer, ada),
            Record::Order(order) => balance -= order.total,
            Record::Payment(payment) => balance += payment.amount,
            Record::Other(_) => others += 1,
        }
    }
    assert_eq!((balance, others), (0, 1));

    // Each kind has its own prefix, so a single kind is a range of keys.
    let orders = table.query::<Order>().partition("ada").row_prefix("order_").collect();
    let orders = pattern.step("the orders of a customer", requests(1).examined(1).returned(1), orders).await?;
    assert_eq!(orders.first().map(|order| order.total), Some(4200));

    pattern.finish().await
}
