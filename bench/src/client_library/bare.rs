//! The reference for the client library: pre-signed requests are sent with plain hyper, and the responses are read and
//! discarded.
//!
//! This module must not use the client library.

use super::Operation;
use super::sample::{PARTITION, ROW};
use crate::dataset::Dataset;
use crate::generator::endpoint::Endpoint;
use crate::generator::request::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use anyhow::{Context, ensure};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};
use wire::signing::{AccountKey, Scheme, SignedRequest};

pub(crate) const TABLE: &str = "Compared";

/// Clones share their connections.
#[derive(Debug, Clone)]
pub(crate) struct BareClient {
    http: Client<HttpConnector, Full<Bytes>>,
    endpoint: Endpoint,
    key: AccountKey,
    /// The properties as JSON members, without the keys.
    members: Arc<str>,
}

impl BareClient {
    pub(crate) fn new(endpoint: Endpoint, dataset: &Dataset) -> anyhow::Result<Self> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let http = Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        let mut members = Vec::new();
        dataset.write_members(&mut members, 0, 0);
        let key = AccountKey::parse(DEVELOPMENT_KEY).context("decoding the development key")?;
        Ok(Self { http, endpoint, key, members: String::from_utf8(members)?.into() })
    }

    /// All requests have the same signature. Returns the number of repetitions.
    pub(crate) async fn repeat(
        self,
        operation: Operation,
        numbers: Arc<AtomicU64>,
        until: Instant,
    ) -> anyhow::Result<u64> {
        let request = match operation {
            Operation::Get => {
                self.request(Method::GET, &format!("{TABLE}(PartitionKey='{PARTITION}',RowKey='{ROW}')"))?
            }
            Operation::Insert => self.request(Method::POST, TABLE)?,
        };
        let mut count = 0;
        while Instant::now() < until {
            let mut request = request.clone();
            if operation == Operation::Insert {
                let row = Dataset::row(numbers.fetch_add(1, Ordering::Relaxed));
                let body = format!(r#"{{"PartitionKey":"{PARTITION}","RowKey":"{row}",{}}}"#, self.members);
                *request.body_mut() = Full::new(Bytes::from(body));
            }
            let response = self.http.request(request).await?;
            let status = response.status();
            ensure!(status.is_success(), "the server returned {status}");
            std::hint::black_box(response.into_body().collect().await?.to_bytes());
            count += 1;
        }
        Ok(count)
    }

    /// The request has the headers that the library sends.
    fn request(&self, method: Method, path: &str) -> anyhow::Result<Request<Full<Bytes>>> {
        let path = format!("{}/{path}", self.endpoint.base_path);
        let content_type = if method == Method::POST { "application/json" } else { "" };
        let date = httpdate::fmt_http_date(SystemTime::now());
        let signed = SignedRequest {
            method: method.as_str(),
            content_md5: "",
            content_type,
            date: &date,
            account: DEVELOPMENT_ACCOUNT,
            path: &path,
            comp: None,
        };
        let signature = self.key.sign(&signed.string_to_sign(Scheme::SharedKey));
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.endpoint.address))
            .header("accept", "application/json;odata=minimalmetadata")
            .header("x-ms-version", "2019-02-02")
            .header("x-ms-date", &date)
            .header("dataserviceversion", "3.0;")
            .header("maxdataserviceversion", "3.0;NetFx")
            .header("user-agent", "rowhouse-bench")
            .header("authorization", format!("SharedKey {DEVELOPMENT_ACCOUNT}:{signature}"));
        if !content_type.is_empty() {
            request = request.header("content-type", content_type).header("prefer", "return-no-content");
        }
        Ok(request.body(Full::default())?)
    }
}
