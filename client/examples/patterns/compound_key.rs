//! Compound key: row keys with several parts, so that one query reads related entities.
//!
//! The row key of a review contains the number of the employee and the year. Reviews are stored next to the employee. A
//! query with one prefix reads the employee with all reviews, and a query with a longer prefix reads only the reviews.
//! A get reads a single review. Numbers are zero-padded because keys are sorted as strings.

use crate::support::{Pattern, Result, requests};
use rowhouse_client::{Entity, Transaction};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "{id:06}")]
struct Employee {
    #[entity(partition_key)]
    department: String,
    id: u32,
    name: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "{id:06}_{year:04}")]
struct Review {
    #[entity(partition_key)]
    department: String,
    id: u32,
    year: u32,
    rating: i32,
}

/// The kinds of entities in this table.
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(tag = "Kind")]
enum Record {
    Employee(Employee),
    Review(Review),
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("compound_key").await?;
    let table = pattern.table("employees").await?;
    let review = |id, year| Review { department: "sales".into(), id, year, rating: 4 };
    let hired = async {
        for id in 1..=30 {
            let employee = Employee { department: "sales".into(), id, name: format!("Employee {id}") };
            let transaction = Transaction::new().insert(&Record::Employee(employee));
            let reviews = (2021..=2030).map(|year| Record::Review(review(id, year)));
            table.commit(reviews.fold(transaction, |all, review| all.insert(&review))).await?;
        }
        Ok::<_, rowhouse_client::Error>(())
    };
    pattern.step("write 30 employees with ten reviews each", requests(30).written(330), hired).await?;

    let key = Review::key_of("sales", 7, 2025)?;
    let cost = requests(1).examined(1).returned(1);
    let found = pattern.step("get the review of one year", cost, table.get_by_key::<Review>(&key)).await?;
    assert_eq!(found.entity, review(7, 2025));

    let all = table.query::<Record>().partition("sales").row_prefix("000007").collect();
    let cost = requests(1).examined(11).returned(11);
    let all = pattern.step("read an employee with all reviews", cost, all).await?;
    assert!(matches!(all.first().map(|first| &first.entity), Some(Record::Employee(employee)) if employee.id == 7));

    let (first, last) = (Review::key_of("sales", 7, 2026)?, Review::key_of("sales", 7, 2030)?);
    let recent = table.query::<Review>().partition("sales").rows(first.row.as_str()..=last.row.as_str());
    let cost = requests(1).examined(5).returned(5);
    let ratings = pattern.step("read the reviews of five years", cost, recent.select(|r| r.rating).collect()).await?;
    assert_eq!(ratings, [4; 5]);

    // Reviews by year would require another table: a query without the first key part examines the whole partition.
    let year = table.query::<Record>().partition("sales").filter(|r| r.kind.eq("Review")).collect();
    let cost = requests(1).examined(330).returned(300);
    pattern.step("read all reviews, whose keys start with different numbers", cost, year).await?;

    pattern.finish().await
}
