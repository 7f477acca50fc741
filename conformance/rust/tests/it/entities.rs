use crate::target::{assert_refused, at, entity, insert, new_name, service, with_table};
use azure_data_tables::IfMatchCondition;
use azure_data_tables::prelude::{ReturnEntity, TableClient};
use serde_json::{Value, json};

async fn get(table: &TableClient, row: &str) -> Value {
    at(table, "p", row).get::<Value>().await.unwrap().entity
}

#[tokio::test]
async fn every_type_comes_back_at_its_limits() {
    let sent = json!({
        "BooleanFalse": false,
        "BooleanTrue": true,
        "Int32Lowest": i32::MIN,
        "Int32Highest": i32::MAX,
        "Int64Lowest": i64::MIN.to_string(), "Int64Lowest@odata.type": "Edm.Int64",
        "Int64Highest": i64::MAX.to_string(), "Int64Highest@odata.type": "Edm.Int64",
        "DoubleLowest": f64::MIN,
        "DoubleHighest": f64::MAX,
        "DoubleLeast": 5e-324,
        "DoubleWhole": 5.0,
        "DoubleNotANumber": "NaN", "DoubleNotANumber@odata.type": "Edm.Double",
        "TimeFirst": "1601-01-01T00:00:00Z", "TimeFirst@odata.type": "Edm.DateTime",
        "TimeLast": "9999-12-31T23:59:59.9999999Z", "TimeLast@odata.type": "Edm.DateTime",
        "Guid": "c9da6455-213d-42c9-9a79-3e9149a57833", "Guid@odata.type": "Edm.Guid",
        "BinaryEmpty": "", "BinaryEmpty@odata.type": "Edm.Binary",
        "Binary": "AAH/", "Binary@odata.type": "Edm.Binary",
        "TextEmpty": "",
        "TextLongest": "ä".repeat(32 * 1024),
        "TextUnicode": "quotes ' \" \\, control \u{1}, 😀",
    });
    with_table(async |table| {
        insert(table, "p", "r", sent.clone()).await;
        let mut found = get(table, "r").await;
        let found = found.as_object_mut().unwrap();
        for (name, value) in sent.as_object().unwrap() {
            assert_eq!(found.remove(name).as_ref(), Some(value), "{name}");
        }
        // Only the keys and the metadata may remain.
        found.retain(|name, _| !name.starts_with("odata."));
        let rest: Vec<_> = found.keys().map(String::as_str).collect();
        assert_eq!(rest, ["PartitionKey", "RowKey", "Timestamp", "Timestamp@odata.type"]);
    })
    .await;
}

#[tokio::test]
async fn an_insert_returns_the_entity_if_it_is_wanted() {
    with_table(async |table| {
        let insert = |row: &str| table.insert::<_, Value>(entity("p", row, &json!({"A": 1}))).unwrap();
        let answer = insert("quiet").await.unwrap();
        assert!(answer.entity_with_metadata.is_none());
        let answer = insert("loud").return_entity(ReturnEntity::new(true)).await.unwrap();
        let returned = answer.entity_with_metadata.unwrap();
        assert_eq!((&returned.entity["RowKey"], &returned.entity["A"]), (&json!("loud"), &json!(1)));
        assert_eq!(returned.metadata.etag, answer.etag.to_string());
        let address = format!("{}(PartitionKey='p',RowKey='loud')", table.table_name());
        assert_eq!(returned.metadata.edit_link, address);
        let again = insert("loud").await;
        assert_refused(again, 409, "EntityAlreadyExists");
    })
    .await;
}

#[tokio::test]
async fn keys_are_what_the_address_says() {
    with_table(async |table| {
        for key in [" ", "it's", "100% + & =", "ä€😀", "(a,b;c:d)"] {
            insert(table, key, key, json!({})).await;
            let in_address = key.replace('\'', "''");
            let found = at(table, &in_address, &in_address).get::<Value>().await.unwrap().entity;
            assert_eq!((&found["PartitionKey"], &found["RowKey"]), (&json!(key), &json!(key)));
        }
    })
    .await;
}

#[tokio::test]
async fn a_merge_keeps_what_a_replacement_removes() {
    with_table(async |table| {
        let client = at(table, "p", "r");
        let body = |properties: Value| entity("p", "r", &properties);
        let missing = client.update(body(json!({})), IfMatchCondition::Any).unwrap().await;
        assert_refused(missing, 404, "ResourceNotFound");
        let missing = client.merge(body(json!({})), IfMatchCondition::Any).unwrap().await;
        assert_refused(missing, 404, "ResourceNotFound");

        client.insert_or_merge(body(json!({"A": 1, "B": 1}))).unwrap().await.unwrap();
        client.insert_or_merge(body(json!({"B": 2}))).unwrap().await.unwrap();
        client.merge(body(json!({"C": 3})), IfMatchCondition::Any).unwrap().await.unwrap();
        let merged = get(table, "r").await;
        assert_eq!((&merged["A"], &merged["B"], &merged["C"]), (&json!(1), &json!(2), &json!(3)));

        client.update(body(json!({"D": 4})), IfMatchCondition::Any).unwrap().await.unwrap();
        let replaced = get(table, "r").await;
        assert_eq!((replaced.get("A"), &replaced["D"]), (None, &json!(4)));
        client.insert_or_replace(body(json!({"E": 5}))).unwrap().await.unwrap();
        let replaced = get(table, "r").await;
        assert_eq!((replaced.get("D"), &replaced["E"]), (None, &json!(5)));
    })
    .await;
}

#[tokio::test]
async fn conditions_need_the_current_etag() {
    with_table(async |table| {
        let client = at(table, "p", "r");
        let body = || entity("p", "r", &json!({"A": 1}));
        insert(table, "p", "r", json!({"A": 0})).await;
        let first = client.get::<Value>().await.unwrap().etag;
        let second = client.update(body(), first.clone().into()).unwrap().await.unwrap().etag;
        assert_ne!(first, second);
        let third = client.merge(body(), second.clone().into()).unwrap().await.unwrap().etag;
        assert_eq!(client.get::<Value>().await.unwrap().etag, third);

        for outdated in [first, second] {
            let condition = IfMatchCondition::Etag(outdated);
            let code = "UpdateConditionNotSatisfied";
            assert_refused(client.update(body(), condition.clone()).unwrap().await, 412, code);
            assert_refused(client.merge(body(), condition.clone()).unwrap().await, 412, code);
            assert_refused(client.delete().if_match(condition).await, 412, code);
        }
        client.delete().if_match(IfMatchCondition::Etag(third)).await.unwrap();
        assert_refused(client.delete().await, 404, "ResourceNotFound");
        assert_refused(client.get::<Value>().await, 404, "ResourceNotFound");
    })
    .await;
}

#[tokio::test]
async fn a_point_query_selects_properties() {
    with_table(async |table| {
        insert(table, "p", "r", json!({"A": 1, "B": 2})).await;
        let found = at(table, "p", "r").get::<Value>().select("B").await.unwrap().entity;
        assert_eq!((found.get("A"), &found["B"]), (None, &json!(2)));
    })
    .await;
}

#[tokio::test]
async fn entities_beyond_the_limits_are_refused() {
    with_table(async |table| {
        let many: serde_json::Map<_, _> = (0..253).map(|number| (format!("P{number}"), json!(true))).collect();
        for (code, properties) in [
            ("TooManyProperties", Value::Object(many)),
            ("PropertyValueTooLarge", json!({"A": "a".repeat(32 * 1024 + 1)})),
            ("PropertyNameTooLong", json!({"a".repeat(256): 1})),
            ("PropertyNameInvalid", json!({"with-hyphen": 1})),
        ] {
            let refused = table.insert::<_, Value>(entity("p", "r", &properties)).unwrap().await;
            assert_refused(refused, 400, code);
        }
        let missing = service().table_client(new_name());
        assert_refused(missing.insert::<_, Value>(entity("p", "r", &json!({}))).unwrap().await, 404, "TableNotFound");
    })
    .await;
}
