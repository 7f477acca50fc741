//! The settings of a storage service in the environment. The library reads them; this module rejects the values for
//! which it would panic.

use crate::address::{Service, StorageAddress};
use crate::error::StorageError;
use crate::http_service::Http;
use http::Uri;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::{Error, ObjectStore, RetryConfig};
use std::fmt::Display;
use std::sync::Arc;

const ACCOUNT_MISSING: &str =
    "set AZURE_STORAGE_ACCOUNT_NAME to the name of the storage account, and AZURE_STORAGE_ACCOUNT_KEY to its key";

pub(crate) struct Settings {
    /// The environment contains no credentials, so the machine is asked for them.
    pub(crate) asks_machine: bool,
    pub(crate) build: BuildStore,
}

type BuildStore = Box<dyn Fn(RetryConfig) -> Result<Arc<dyn ObjectStore>, StorageError>>;

pub(crate) fn read(address: &StorageAddress) -> Result<Settings, StorageError> {
    let variables: Vec<_> = std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        .collect();
    let prefix = match address.service {
        Service::S3 => "AWS_",
        Service::AzureBlob => "AZUR",
    };
    check(variables.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(name, value)| (&**name, &**value)))?;
    let http = Http::new().map_err(|error| malformed(&error))?;
    match address.service {
        Service::S3 => Ok(s3(&address.bucket, http)),
        Service::AzureBlob => azure_blob(&address.bucket, http),
    }
}

fn malformed(error: &dyn Display) -> StorageError {
    StorageError::Settings(format!("the environment does not describe the storage: {error}"))
}

/// Values become parts of URLs and headers.
fn check<'v>(variables: impl Iterator<Item = (&'v str, &'v str)>) -> Result<(), StorageError> {
    for (name, value) in variables {
        let error = |problem: &str| Err(StorageError::Settings(format!("{name} {problem}")));
        if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return error("contains a line break or another character that is not allowed in it");
        }
        let is_url = name.contains("ENDPOINT") || name == "AZURITE_BLOB_STORAGE_URL";
        let uri = || value.parse::<Uri>().ok().filter(|uri| uri.host().is_some_and(|host| !host.is_empty()));
        if is_url && !uri().is_some_and(|uri| matches!(uri.scheme_str(), Some("http" | "https"))) {
            return error("must be a URL such as https://storage.example.net");
        }
        let is_region = matches!(name, "AWS_REGION" | "AWS_DEFAULT_REGION");
        if is_region && !value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return error("must be the name of a region such as eu-central-1");
        }
    }
    Ok(())
}

fn s3(bucket: &str, http: Http) -> Settings {
    let builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_http_connector(http);
    let sources = [
        AmazonS3ConfigKey::AccessKeyId,
        AmazonS3ConfigKey::SecretAccessKey,
        AmazonS3ConfigKey::WebIdentityTokenFile,
        AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
        AmazonS3ConfigKey::ContainerCredentialsFullUri,
        AmazonS3ConfigKey::SkipSignature,
    ];
    let asks_machine = !sources.iter().any(|key| is_set(builder.get_config_value(key)));
    let build = move |retry| match builder.clone().with_retry(retry).build() {
        Ok(store) => Ok(Arc::new(store) as _),
        Err(error) => Err(explain(error)),
    };
    Settings { asks_machine, build: Box::new(build) }
}

fn azure_blob(container: &str, http: Http) -> Result<Settings, StorageError> {
    let builder = MicrosoftAzureBuilder::from_env().with_container_name(container).with_http_connector(http);
    let has = |key| is_set(builder.get_config_value(&key));
    if !has(AzureConfigKey::AccountName) && !has(AzureConfigKey::UseEmulator) {
        return Err(StorageError::Settings(ACCOUNT_MISSING.to_owned()));
    }
    let sources = [
        AzureConfigKey::AccessKey,
        AzureConfigKey::SasKey,
        AzureConfigKey::Token,
        AzureConfigKey::ClientSecret,
        AzureConfigKey::FederatedTokenFile,
        AzureConfigKey::UseAzureCli,
        AzureConfigKey::UseEmulator,
        AzureConfigKey::SkipSignature,
    ];
    let asks_machine = !sources.into_iter().any(has);
    let build = move |retry| match builder.clone().with_retry(retry).build() {
        Ok(store) => Ok(Arc::new(store) as _),
        Err(error) => Err(explain(error)),
    };
    Ok(Settings { asks_machine, build: Box::new(build) })
}

/// A switch that is not in the environment has the value `false`.
fn is_set(value: Option<String>) -> bool {
    value.is_some_and(|value| !value.is_empty() && value != "false")
}

fn explain(error: Error) -> StorageError {
    match error {
        Error::Generic { source, .. } => malformed(&source),
        error => malformed(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_cannot_be_in_a_request_are_refused_with_their_variable() {
        let told = |name, value| check([(name, value)].into_iter()).map_err(|error| error.to_string());
        for (name, value) in [
            ("AWS_ACCESS_KEY_ID", "key\n"),
            ("AWS_SESSION_TOKEN", "t\u{f6}ken"),
            ("AWS_ENDPOINT_URL", "storage.example.net"),
            ("AWS_ENDPOINT_URL_S3", "ftp://storage.example.net"),
            ("AWS_ENDPOINT_URL", "https://storage example net"),
            ("AWS_ENDPOINT_URL", "https://"),
            ("AWS_REGION", "eu central"),
            ("AZURE_STORAGE_ENDPOINT", "account"),
            ("AZURITE_BLOB_STORAGE_URL", ""),
        ] {
            let error = told(name, value).unwrap_err();
            assert!(error.starts_with(name) && !error.contains("key") && !error.contains("ken"), "{error}");
        }
        for (name, value) in [
            ("AWS_SECRET_ACCESS_KEY", "a+b/c=="),
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:9000"),
            ("AWS_REGION", "eu-central-1"),
            ("AZURE_STORAGE_SAS_TOKEN", "?sv=2022-11-02&sig=a%2Bb%3D"),
            ("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:10000/devstoreaccount1"),
        ] {
            assert_eq!(told(name, value), Ok(()));
        }
    }
}
