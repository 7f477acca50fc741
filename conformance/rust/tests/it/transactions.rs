//! Entity group transactions. The client ends the lines of a batch with only LF, and the closing delimiter lacks the
//! hyphens.

use crate::queries::{fill, query};
use crate::target::{at, entity, insert, with_table};
use azure_data_tables::IfMatchCondition;
use azure_data_tables::operations::TransactionBuilder;
use serde_json::{Value, json};

async fn statuses(transaction: TransactionBuilder) -> Vec<u16> {
    let answer = transaction.await.unwrap();
    answer.operation_responses.iter().map(|part| part.status_code.into()).collect()
}

#[tokio::test]
async fn a_transaction_has_every_kind_of_operation() {
    with_table(async |table| {
        for row in ["conditional", "deleted", "merged", "replaced"] {
            insert(table, "p", row, json!({"A": 1})).await;
        }
        let etag = at(table, "p", "conditional").get::<Value>().await.unwrap().etag;
        let body = |row: &str| entity("p", row, &json!({"B": "two\nlines, ä"}));
        let any = Some(IfMatchCondition::Any);
        let transaction = table.partition_key_client("p").transaction();
        let transaction = transaction
            .insert(body("inserted"))
            .and_then(|all| all.update("conditional", body("conditional"), Some(etag.into())))
            .and_then(|all| all.update("replaced", body("replaced"), any.clone()))
            .and_then(|all| all.merge("merged", body("merged"), any))
            .and_then(|all| all.insert_or_replace("written", body("written")))
            .and_then(|all| all.insert_or_merge("upserted", body("upserted")))
            .and_then(|all| all.delete("deleted", None))
            .unwrap();
        let answer = transaction.await.unwrap();
        let statuses: Vec<u16> = answer.operation_responses.iter().map(|part| part.status_code.into()).collect();
        assert_eq!(statuses, [201, 204, 204, 204, 204, 204, 204]);

        let rows = ["conditional", "inserted", "merged", "replaced", "upserted", "written"];
        assert_eq!(query(table, "B ne ''").await, rows.map(|row| format!("p/{row}")));
        assert_eq!(query(table, "A eq 1").await, ["p/merged"]);
        let merged = at(table, "p", "merged").get::<Value>().await.unwrap();
        assert_eq!(merged.entity["B"], "two\nlines, ä");
        assert_eq!(answer.operation_responses[3].etag.as_ref(), Some(&merged.etag));
        let location = answer.operation_responses[0].location.as_ref().unwrap();
        assert!(location.path().ends_with("(PartitionKey='p',RowKey='inserted')"), "{location}");
    })
    .await;
}

#[tokio::test]
async fn a_failed_transaction_changes_nothing() {
    with_table(async |table| {
        insert(table, "p", "there", json!({"A": 1})).await;
        let outdated = at(table, "p", "there").get::<Value>().await.unwrap().etag;
        at(table, "p", "there").merge(json!({}), IfMatchCondition::Any).unwrap().await.unwrap();
        let client = table.partition_key_client("p");
        let new = entity("p", "new", &json!({}));
        let begun = || client.transaction().insert(&new).unwrap().delete("there", None).unwrap();

        let exists = begun().insert(entity("p", "new", &json!({}))).unwrap();
        assert_eq!(statuses(exists).await, [400], "the same row key twice");
        let there = client.transaction().insert(&new).unwrap().insert(entity("p", "there", &json!({}))).unwrap();
        assert_eq!(statuses(there).await, [409]);
        let condition = Some(IfMatchCondition::Etag(outdated));
        let changed = client.transaction().insert(&new).unwrap().update("there", json!({}), condition).unwrap();
        assert_eq!(statuses(changed).await, [412]);
        assert_eq!(statuses(begun().delete("missing", None).unwrap()).await, [404]);
        let other = begun().insert(entity("q", "other", &json!({}))).unwrap();
        assert_eq!(statuses(other).await, [400], "two partitions");
        assert_eq!(query(table, "PartitionKey ge ''").await, ["p/there"]);
    })
    .await;
}

#[tokio::test]
async fn a_transaction_has_at_most_a_hundred_operations() {
    with_table(async |table| {
        fill(table, "hundred", 100).await;
        let mut transaction = table.partition_key_client("p").transaction();
        for number in 0..101 {
            transaction = transaction.insert(entity("p", &number.to_string(), &json!({}))).unwrap();
        }
        assert_eq!(statuses(transaction).await, [400]);
        assert_eq!(query(table, "PartitionKey eq 'p'").await, [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn a_transaction_without_operations_has_an_empty_answer() {
    with_table(async |table| {
        assert_eq!(statuses(table.partition_key_client("p").transaction()).await, [0; 0]);
    })
    .await;
}
