//! Cases about tables, and about signatures for the account.

use crate::queries::query;
use crate::target::{account, assert_refused, at, entity, insert, key, new_name, service, service_with, with_table};
use azure_data_tables::prelude::TableServiceClient;
use azure_storage::StorageCredentials;
use azure_storage::shared_access_signature::SasToken;
use azure_storage::shared_access_signature::account_sas::{
    AccountSasPermissions, AccountSasResource, AccountSasResourceType, AccountSharedAccessSignature,
};
use futures::TryStreamExt;
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};

async fn list(service: &TableServiceClient, filter: String, top: u32) -> Vec<Vec<String>> {
    let pages: Vec<_> = service.list().filter(filter).top(top).into_stream().try_collect().await.unwrap();
    pages.into_iter().map(|page| page.tables.into_iter().map(|table| table.name).collect()).collect()
}

#[tokio::test]
async fn tables_are_created_listed_and_deleted() {
    let service = service();
    let names: Vec<_> = {
        let prefix = new_name();
        ["a", "b", "c"].iter().map(|end| format!("{prefix}{end}")).collect()
    };
    for name in &names {
        let created = service.table_client(name).create().await.unwrap();
        assert_eq!(created.table.name, *name);
        assert!(created.table.id.ends_with(&format!("/Tables('{name}')")), "{:?}", created.table);
    }
    assert_refused(service.table_client(names[0].to_uppercase()).create().await, 409, "TableAlreadyExists");

    let filter = format!("TableName ge '{}' and TableName le '{}'", names[0], names[2]);
    let pages = list(&service, filter.clone(), 2).await;
    assert_eq!(pages[0].len(), 2);
    assert_eq!(pages.concat(), names);

    for name in &names {
        service.table_client(name).delete().await.unwrap();
    }
    assert!(list(&service, filter, 1000).await.concat().is_empty());
    assert_refused(service.table_client(&names[0]).delete().await, 404, "ResourceNotFound");
}

#[tokio::test]
async fn names_of_tables_are_checked() {
    for (name, code) in [("with-hyphen", "InvalidResourceName"), ("ab", "OutOfRangeInput")] {
        assert_refused(service().table_client(name).create().await, 400, code);
    }
}

#[tokio::test]
async fn a_fresh_table_is_empty() {
    with_table(async |table| {
        let pages: Vec<_> = table.query().into_stream::<serde_json::Value>().try_collect().await.unwrap();
        assert_eq!(pages.iter().map(|page| page.entities.len()).collect::<Vec<_>>(), [0]);
    })
    .await;
}

fn reader(resource_type: AccountSasResourceType, hours: i64) -> TableServiceClient {
    let permissions = AccountSasPermissions { read: true, list: true, ..Default::default() };
    let expiry = OffsetDateTime::now_utc() + Duration::hours(hours);
    let resource = AccountSasResource::Table;
    let signature =
        AccountSharedAccessSignature::new(account(), key().into(), resource, resource_type, expiry, permissions);
    service_with(StorageCredentials::sas_token(signature.token().unwrap()).unwrap())
}

#[tokio::test]
async fn a_reader_does_not_write() {
    with_table(async |table| {
        insert(table, "p", "r", json!({})).await;
        let reader = reader(AccountSasResourceType::Object, 1).table_client(table.table_name());
        assert_eq!(query(&reader, "RowKey eq 'r'").await, ["p/r"]);
        let code = "AuthorizationPermissionMismatch";
        assert_refused(reader.insert::<_, Value>(entity("p", "new", &json!({}))).unwrap().await, 403, code);
        assert_refused(at(&reader, "p", "r").delete().await, 403, code);
    })
    .await;
}

#[tokio::test]
async fn signatures_are_for_resource_types_and_a_time() {
    with_table(async |table| {
        let other = reader(AccountSasResourceType::Service, 1).table_client(table.table_name());
        assert_refused(at(&other, "p", "r").get::<Value>().await, 403, "AuthorizationResourceTypeMismatch");
        let expired = reader(AccountSasResourceType::Object, -1).table_client(table.table_name());
        assert_refused(at(&expired, "p", "r").get::<Value>().await, 403, "AuthenticationFailed");
    })
    .await;
}

#[tokio::test]
async fn another_key_is_refused() {
    let service = service_with(StorageCredentials::access_key(account(), "AAAA".repeat(16)));
    assert_refused(service.table_client(new_name()).create().await, 403, "AuthenticationFailed");
}
