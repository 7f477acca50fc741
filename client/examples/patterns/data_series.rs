//! Data series: a whole series in one entity, with one property for each value.
//!
//! The 24 hourly counts of a day can be stored in 24 entities or in one. With one entity, a get reads a day, and a
//! short query reads a month. A merge writes one hour and sends only the property for that hour. An entity has at most
//! 252 custom properties; store longer series in several entities (see wide entities).

use crate::support::{Pattern, Result, requests};
use rowhouse_client::{Entity, PropertyBag, Table};

/// The count of one hour, as a separate entity.
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "{day}_{hour:02}")]
struct HourCount {
    #[entity(partition_key)]
    meter: String,
    day: String,
    hour: u32,
    count: i64,
}

async fn record(days: &Table, meter: &str, day: &str, hour: u32, count: i64) -> Result {
    days.insert_or_merge(&PropertyBag::new(meter, day)?.with(&format!("h{hour:02}"), count)?).await?;
    Ok(())
}

fn total(day: &PropertyBag) -> Result<i64> {
    let mut total = 0;
    for hour in 0..24 {
        total += day.get::<Option<i64>>(&format!("h{hour:02}"))?.unwrap_or_default();
    }
    Ok(total)
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("data_series").await?;
    let (hours, days) = (pattern.table("hours").await?, pattern.table("days").await?);
    let (meter, day) = ("meter7", "2031-04-01");

    let recorded = async {
        for hour in 0..24 {
            let count = i64::from(hour) * 10;
            hours.insert_or_replace(&HourCount { meter: meter.into(), day: day.into(), hour, count }).await?;
        }
        Ok::<_, rowhouse_client::Error>(())
    };
    pattern.step("record a day, an entity for each hour", requests(24).written(24), recorded).await?;
    let recorded = async {
        for hour in 0..24 {
            record(&days, meter, day, hour, i64::from(hour) * 10).await?;
        }
        Result::Ok(())
    };
    pattern.step("record a day, a property for each hour", requests(24).written(24), recorded).await?;

    let read = hours.query::<HourCount>().partition(meter).row_prefix("2031-04-01_").select(|h| h.count).collect();
    let cost = requests(1).examined(24).returned(24);
    let counts = pattern.step("read a day of entities", cost, read).await?;

    let cost = requests(1).examined(1).returned(1);
    let series = pattern.step("read a day of properties", cost, days.get::<PropertyBag>(meter, day)).await?;
    assert_eq!((counts.iter().sum::<i64>(), total(&series)?), (2760, 2760));

    // Sensors that increment a count must read it first. The ETag prevents lost increments.
    let added = days.update::<PropertyBag>(meter, day, |day| {
        let count: i64 = day.get("h09")?;
        Ok(day.set("h09", count + 1)?)
    });
    pattern.step("add to one hour", requests(2).examined(1).returned(1).written(1), added).await?;

    for day in 2..=30 {
        record(&days, meter, &format!("2031-04-{day:02}"), 0, 1).await?;
    }
    let month = days.query::<PropertyBag>().partition(meter).row_prefix("2031-04-").collect();
    let month = pattern.step("read a month of days", requests(1).examined(30).returned(30), month).await?;
    assert_eq!(month.len(), 30);

    pattern.finish().await
}
