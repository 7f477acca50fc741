//! The server under test, from the environment, and its clients.

use azure_core::{Error, RetryOptions, error::HttpError};
use azure_data_tables::clients::TableServiceClientBuilder;
use azure_data_tables::prelude::{EntityClient, TableClient, TableServiceClient};
use azure_storage::{CloudLocation, StorageCredentials};
use futures::FutureExt;
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, resume_unwind};

pub(crate) const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";
pub(crate) const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

// The defaults are the public development account, so a local server needs no settings.
pub(crate) fn account() -> String {
    std::env::var("TABLES_ACCOUNT").unwrap_or_else(|_| DEVELOPMENT_ACCOUNT.to_owned())
}

pub(crate) fn key() -> String {
    std::env::var("TABLES_KEY").unwrap_or_else(|_| DEVELOPMENT_KEY.to_owned())
}

pub(crate) fn endpoint() -> String {
    let endpoint = std::env::var("TABLES_ENDPOINT").unwrap_or_else(|_| format!("http://127.0.0.1:10002/{}", account()));
    endpoint.trim_end_matches('/').to_owned()
}

/// Creates a client of the account. The client does not retry, because cases check the first response, and an unnoticed
/// second request could hide a wrong one.
pub(crate) fn service_with(credentials: StorageCredentials) -> TableServiceClient {
    let location = CloudLocation::Custom { account: account(), uri: endpoint() };
    TableServiceClientBuilder::with_location(location, credentials).retry(RetryOptions::none()).build()
}

pub(crate) fn service() -> TableServiceClient {
    service_with(StorageCredentials::access_key(account(), key()))
}

/// Returns a table name that no other run uses.
pub(crate) fn new_name() -> String {
    format!("rust{}", uuid::Uuid::new_v4().simple())
}

/// Runs a case with a new table, and deletes the table even if the case fails.
pub(crate) async fn with_table(case: impl AsyncFnOnce(&TableClient)) {
    let table = service().table_client(new_name());
    table.create().await.unwrap();
    let outcome = AssertUnwindSafe(case(&table)).catch_unwind().await;
    table.delete().await.unwrap();
    outcome.unwrap_or_else(|panic| resume_unwind(panic));
}

pub(crate) fn entity(partition: &str, row: &str, properties: &Value) -> Value {
    let mut entity = json!({"PartitionKey": partition, "RowKey": row});
    for (name, value) in properties.as_object().unwrap() {
        entity[name] = value.clone();
    }
    entity
}

/// Returns the client of one entity. Quotes in keys must be doubled, which the client does not do.
pub(crate) fn at(table: &TableClient, partition: &str, row: &str) -> EntityClient {
    table.partition_key_client(partition).entity_client(row)
}

pub(crate) async fn insert(table: &TableClient, partition: &str, row: &str, properties: Value) {
    table.insert::<_, Value>(entity(partition, row, &properties)).unwrap().await.unwrap();
}

#[track_caller]
pub(crate) fn assert_refused<T: std::fmt::Debug>(outcome: Result<T, Error>, status: u16, code: &str) {
    let error = outcome.expect_err("the request should have been rejected");
    let answer: &HttpError =
        error.as_http_error().unwrap_or_else(|| panic!("the error is not a response of the service: {error:?}"));
    assert_eq!((u16::from(answer.status()), answer.error_code()), (status, Some(code)), "{error:?}");
}
