//! Wide entities: more than 252 properties, in several entities of one partition.
//!
//! A year of daily counts has 365 properties. They are distributed across entities whose row keys have a common prefix.
//! A transaction writes these entities together, a query reads them together, and a merge changes a single day.

use crate::support::{Pattern, Result, requests};
use rowhouse_client::{EntityError, IfMatch, PropertyBag, Transaction};

/// The days in each part.
const PARTS: [std::ops::RangeInclusive<i32>; 2] = [1..=183, 184..=365];

fn row_key(part: usize) -> String {
    format!("2031_{part}")
}

fn part(meter: &str, number: usize, count: impl Fn(i32) -> i32) -> Result<PropertyBag> {
    let mut bag = PropertyBag::new(meter, &row_key(number))?;
    for day in PARTS.get(number).cloned().into_iter().flatten() {
        bag.set(&format!("d{day:03}"), count(day))?;
    }
    Ok(bag)
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("wide_entities").await?;
    let years = pattern.table("years").await?;

    // The limit is checked before anything is sent.
    let mut all = PropertyBag::new("meter7", "2031")?;
    let refused = (1..=365).find_map(|day| all.set(&format!("d{day:03}"), 0).err());
    assert!(matches!(refused, Some(EntityError::TooManyProperties)));

    let (one, other) = (part("meter7", 0, |day| day)?, part("meter7", 1, |day| day)?);
    let written = years.commit(Transaction::new().insert(&one).insert(&other));
    pattern.step("write a year of 365 properties", requests(1).written(2), written).await?;

    let change = PropertyBag::new("meter7", &row_key(1))?.with("d200", 7)?;
    let changed = years.merge(&change, IfMatch::Any);
    pattern.step("change one day", requests(1).written(1), changed).await?;

    let read = years.query::<PropertyBag>().partition("meter7").row_prefix("2031_").collect();
    let year = pattern.step("read the year", requests(1).examined(2).returned(2), read).await?;
    let mut total = 0;
    for (number, part) in year.iter().enumerate() {
        for day in PARTS.get(number).cloned().into_iter().flatten() {
            total += part.get::<i32>(&format!("d{day:03}"))?;
        }
    }
    assert_eq!(total, (1..=365).sum::<i32>() - 200 + 7);

    let cost = requests(1).examined(1).returned(1);
    let days = years.get_properties::<PropertyBag>("meter7", "2031_0", &["d001", "d002"]);
    let days = pattern.step("read two days", cost, days).await?;
    assert_eq!(days.properties.len(), 2);

    pattern.finish().await
}
