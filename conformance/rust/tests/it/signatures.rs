//! Account signatures, the only ones that the client can create for tables.

use crate::queries::query;
use crate::target::{account, assert_refused, at, entity, insert, key, new_name, service_with, with_table};
use azure_data_tables::prelude::TableServiceClient;
use azure_storage::StorageCredentials;
use azure_storage::shared_access_signature::SasToken;
use azure_storage::shared_access_signature::account_sas::{
    AccountSasPermissions, AccountSasResource, AccountSasResourceType, AccountSharedAccessSignature,
};
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};

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
