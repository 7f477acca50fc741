use crate::target::{assert_refused, entity, insert, with_table};
use azure_data_tables::prelude::TableClient;
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};

/// Inserts entities with the row keys 0000, 0001, … in transactions.
pub(crate) async fn fill(table: &TableClient, partition: &str, count: usize) {
    for start in (0..count).step_by(100) {
        let mut transaction = table.partition_key_client(partition).transaction();
        for number in start..count.min(start + 100) {
            let entity = entity(partition, &format!("{number:04}"), &json!({"Number": number}));
            transaction = transaction.insert(entity).unwrap();
        }
        let answer = transaction.await.unwrap();
        assert!(answer.operation_responses.iter().all(|part| part.status_code.is_success()), "{answer:?}");
    }
}

pub(crate) fn keys(entities: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    entities.iter().map(|found| text(&found["PartitionKey"]) + "/" + &text(&found["RowKey"])).collect()
}

pub(crate) async fn query(table: &TableClient, filter: &'static str) -> Vec<String> {
    let pages: Vec<_> = table.query().filter(filter).into_stream::<Value>().try_collect().await.unwrap();
    pages.iter().flat_map(|page| keys(&page.entities)).collect()
}

#[tokio::test]
async fn filters() {
    with_table(async |table| {
        let typed = json!({
            "Text": "it's", "Number": 7, "Flag": true, "Double": 2.5,
            "Long": "1099511627776", "Long@odata.type": "Edm.Int64",
            "Time": "2024-02-29T00:00:00Z", "Time@odata.type": "Edm.DateTime",
            "Guid": "c9da6455-213d-42c9-9a79-3e9149a57833", "Guid@odata.type": "Edm.Guid",
        });
        insert(table, "a", "1", typed).await;
        insert(table, "a", "2", json!({"Number": 8})).await;
        insert(table, "b", "1", json!({"Number": 9, "Flag": false})).await;
        for (filter, expected) in [
            ("PartitionKey eq 'a'", "a/1 a/2"),
            ("PartitionKey gt 'a' or RowKey lt '2'", "a/1 b/1"),
            ("Number ge 8 and not (Number eq 9)", "a/2"),
            ("Text eq 'it''s'", "a/1"),
            ("Long gt 1099511627775L", "a/1"),
            ("Double lt 2.75", "a/1"),
            ("Flag eq false", "b/1"),
            ("Time ge datetime'2024-02-29T00:00:00Z'", "a/1"),
            ("Guid eq guid'c9da6455-213d-42c9-9a79-3e9149a57833'", "a/1"),
            ("Missing eq 1", ""),
        ] {
            assert_eq!(query(table, filter).await.join(" "), expected, "{filter}");
        }
        let malformed = table.query().filter("Number =").into_stream::<Value>().next().await.unwrap();
        assert_refused(malformed, 400, "InvalidInput");
    })
    .await;
}

#[tokio::test]
async fn a_selection_has_the_named_properties() {
    with_table(async |table| {
        insert(table, "p", "r", json!({"A": 1, "B": 2})).await;
        let page = table.query().select("RowKey,B").into_stream::<Value>().next().await.unwrap().unwrap();
        let found = page.entities[0].as_object().unwrap();
        let names: Vec<_> = found.keys().filter(|name| !name.starts_with("odata.")).collect();
        assert_eq!(names, ["B", "RowKey"]);
    })
    .await;
}

#[tokio::test]
async fn more_than_a_thousand_entities_come_in_pages() {
    with_table(async |table| {
        fill(table, "p", 1234).await;
        let pages: Vec<_> = table.query().into_stream::<Value>().try_collect().await.unwrap();
        assert_eq!(pages.iter().map(|page| page.entities.len()).collect::<Vec<_>>(), [1000, 234]);
        let found: Vec<_> = pages.iter().flat_map(|page| keys(&page.entities)).collect();
        let expected: Vec<_> = (0..1234).map(|number| format!("p/{number:04}")).collect();
        assert_eq!(found, expected);
        assert_eq!(query(table, "Number ge 1232 or Number eq 5").await, ["p/0005", "p/1232", "p/1233"]);
    })
    .await;
}

#[tokio::test]
async fn top_is_the_size_of_a_page() {
    with_table(async |table| {
        fill(table, "p", 7).await;
        let pages: Vec<_> = table.query().top(3).into_stream::<Value>().try_collect().await.unwrap();
        assert_eq!(pages.iter().map(|page| page.entities.len()).collect::<Vec<_>>(), [3, 3, 1]);
        // A query may start at the position where another one ended.
        let query = table.query().initial_partition_key("p".to_owned()).initial_row_key("0005".to_owned());
        let rest = query.into_stream::<Value>().next().await.unwrap().unwrap();
        assert_eq!(keys(&rest.entities), ["p/0005", "p/0006"]);
        assert_refused(table.query().top(1001).into_stream::<Value>().next().await.unwrap(), 400, "InvalidInput");
    })
    .await;
}
