//! `floor`: the reference server. It does only what every Table service must do: handle HTTP/1.1, verify a signature,
//! and sync a write.
//!
//! It answers every request of the load generator with the same status as a Table service and a response of about the
//! same size, but stores nothing. `run` can therefore measure it like any other server.

use crate::dataset::Dataset;
use crate::generator::workload::BATCH_ENTITIES;
use anyhow::Context;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use model::{DateTime, Dialect, EntityView};
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use wire::payload::{EncoderCache, EntityContext, ResponseContext, write_entity_in_set};
use wire::signing::{AccountKey, Authorization, SignedRequest, any_verifies};
use wire::{Format, MetadataLevel, Version};

const PAGE_ENTITIES: u64 = 1000;
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Floor {
    /// Requests must be signed with this key. `None` accepts all requests.
    key: Option<AccountKey>,
    /// Bodies are appended to this log before they are acknowledged. `None` discards them.
    log: Option<GroupLog>,
    entity: Bytes,
    page: Bytes,
    batch: Bytes,
}

impl Floor {
    pub(crate) fn new(key: Option<AccountKey>, log: Option<GroupLog>) -> Self {
        let dataset = Dataset::new(PAGE_ENTITIES, PAGE_ENTITIES);
        let entities: Vec<Vec<u8>> = (0..PAGE_ENTITIES).map(|number| entity(&dataset, number)).collect();
        let page = [b"{\"value\":[".as_slice(), &entities.join(&b','), b"]}"].concat();
        let part = "--changesetresponse\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
                    HTTP/1.1 204 No Content\r\nETag: W/\"datetime'2024-05-06T07%3A08%3A09.1234567Z'\"\r\n\r\n\r\n";
        Self {
            key,
            log,
            entity: Bytes::from(entities.into_iter().next().unwrap_or_default()),
            page: Bytes::from(page),
            batch: Bytes::from(part.repeat(usize::try_from(BATCH_ENTITIES).unwrap_or_default())),
        }
    }

    pub(crate) async fn serve(self, listen: SocketAddr) -> anyhow::Result<()> {
        let listener = TcpListener::bind(listen).await.with_context(|| format!("listening on {listen}"))?;
        writeln!(std::io::stdout().lock(), "listening on http://{}", listener.local_addr()?)?;
        let floor = Arc::new(self);
        loop {
            let (stream, _) = listener.accept().await.context("accepting a connection")?;
            tokio::spawn(connection(stream, Arc::clone(&floor)));
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        if self.key.as_ref().is_some_and(|key| !is_signed(&parts, key)) {
            return empty(StatusCode::FORBIDDEN);
        }
        let path = parts.uri.path();
        if parts.method == Method::GET {
            let body = if path.ends_with("()") { &self.page } else { &self.entity };
            return with_body(StatusCode::OK, "application/json;odata=minimalmetadata", body);
        }
        let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
            return empty(StatusCode::BAD_REQUEST);
        };
        if let Some(log) = &self.log
            && log.append(body.to_bytes()).await.is_err()
        {
            return empty(StatusCode::INTERNAL_SERVER_ERROR);
        }
        if path.ends_with("/$batch") {
            with_body(StatusCode::ACCEPTED, "multipart/mixed; boundary=batchresponse", &self.batch)
        } else {
            empty(StatusCode::NO_CONTENT)
        }
    }
}

async fn connection(stream: TcpStream, floor: Arc<Floor>) {
    let handler = service_fn(move |request| {
        let floor = Arc::clone(&floor);
        async move { Ok::<_, Infallible>(floor.answer(request).await) }
    });
    if stream.set_nodelay(true).is_ok() {
        // A client may close a connection at any time.
        drop(http1::Builder::new().serve_connection(TokioIo::new(stream), handler).await);
    }
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

fn with_body(status: StatusCode, content_type: &'static str, body: &Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.clone()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn is_signed(parts: &Parts, key: &AccountKey) -> bool {
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let Some(authorization) = Authorization::parse(header(AUTHORIZATION.as_str())) else { return false };
    let signed = SignedRequest {
        method: parts.method.as_str(),
        content_md5: "",
        content_type: header(CONTENT_TYPE.as_str()),
        date: header("x-ms-date"),
        account: authorization.account,
        path: parts.uri.path(),
        comp: None,
    };
    let text = signed.string_to_sign(authorization.scheme);
    authorization.signature.is_some_and(|signature| any_verifies([key], &text, &signature))
}

fn entity(dataset: &Dataset, number: u64) -> Vec<u8> {
    let (key, record) = (dataset.key(number), dataset.record(number, 0).finish(DateTime::MIN));
    let account = model::AccountName::new(crate::generator::request::DEVELOPMENT_ACCOUNT)
        .expect("the development account name is valid");
    let (format, version) = (Format::Json(MetadataLevel::Minimal), Version::ETAG_IN_MINIMAL);
    let response =
        ResponseContext { base: "", account: &account, dialect: Dialect::Storage, format, version, now: DateTime::MIN };
    let context = EntityContext { response, table: "Bench", select: None };
    let mut out = Vec::new();
    let view = EntityView::from_parts(&key, &record).expect("the record was just built");
    write_entity_in_set(&mut out, &context, &view, &mut EncoderCache::default(), true)
        .expect("the record was just built");
    out
}

const GROUP_BODIES_MAX: usize = 1024;
/// The size at which writing restarts at the beginning of the log, in bytes. The log therefore never fills a disk.
const LOG_BYTES_MAX: u64 = 1 << 30;

type Appended = oneshot::Sender<Result<(), Arc<io::Error>>>;

#[derive(Debug, Clone)]
pub(crate) struct GroupLog {
    queue: mpsc::Sender<(Bytes, Appended)>,
}

impl GroupLog {
    /// Truncates an existing file. The writing thread exits when the last handle is dropped.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut file = File::create(path)?;
        let (queue, mut bodies) = mpsc::channel::<(Bytes, Appended)>(4096);
        std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            let (mut group, mut bytes, mut size) = (Vec::new(), Vec::new(), 0);
            while bodies.blocking_recv_many(&mut group, GROUP_BODIES_MAX) > 0 {
                bytes.clear();
                for (body, _) in &group {
                    bytes.extend_from_slice(body);
                }
                let result = write(&mut file, &mut size, &bytes).map_err(Arc::new);
                for (_, appended) in group.drain(..) {
                    // The client may have closed its connection.
                    drop(appended.send(result.clone()));
                }
            }
        })?;
        Ok(Self { queue })
    }

    /// Returns once the body is on disk.
    pub(crate) async fn append(&self, body: Bytes) -> Result<(), Arc<io::Error>> {
        let gone = || Arc::new(io::Error::other("the log is closed"));
        let (appended, answer) = oneshot::channel();
        self.queue.send((body, appended)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

fn write(file: &mut File, size: &mut u64, bytes: &[u8]) -> io::Result<()> {
    if *size > LOG_BYTES_MAX {
        file.set_len(0)?;
        file.rewind()?;
        *size = 0;
    }
    *size += bytes.len() as u64;
    file.write_all(bytes)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::request::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Endpoint, Request as Sent, Signer};

    #[test]
    fn the_fixed_bodies_have_the_size_of_the_real_ones() {
        let floor = Floor::new(None, None);
        assert!((1080..1120).contains(&floor.entity.len()), "{}", floor.entity.len());
        assert!((1_080_000..1_120_000).contains(&floor.page.len()), "{}", floor.page.len());
        serde_json::from_slice::<serde_json::Value>(&floor.page).unwrap();
        assert_eq!(memchr::memmem::find_iter(&floor.page, b"\"RowKey\":").count(), 1000);
        assert_eq!(memchr::memmem::find_iter(&floor.batch, b"HTTP/1.1 204").count(), 100);
    }

    #[test]
    fn only_signed_requests_are_accepted() {
        let key = AccountKey::parse(DEVELOPMENT_KEY).unwrap();
        let endpoint = Endpoint::parse("http://127.0.0.1:1", DEVELOPMENT_ACCOUNT, false).unwrap();
        let mut signer = Signer::new(endpoint, DEVELOPMENT_ACCOUNT, key.clone());
        let mut bytes = b"left over from the previous request".to_vec();
        let path = b"/Bench(PartitionKey='a%20b''c',RowKey='1')";
        for sent in [
            Sent::get(path, ""),
            Sent::get(b"/Bench()", "?$filter=Count%20eq%207"),
            Sent::with_json("PUT", path, "If-Match: *\r\n", b"{}"),
            Sent { content_type: "multipart/mixed; boundary=b", ..Sent::with_json("POST", b"/$batch", "", b"x") },
        ] {
            signer.write_head(&mut bytes, &sent);
            let mut headers = [httparse::EMPTY_HEADER; 32];
            let mut parsed = httparse::Request::new(&mut headers);
            assert_eq!(parsed.parse(&bytes).unwrap(), httparse::Status::Complete(bytes.len()));
            let mut request = Request::builder().method(parsed.method.unwrap()).uri(parsed.path.unwrap());
            for header in parsed.headers.iter() {
                request = request.header(header.name, header.value);
            }
            let (mut parts, ()) = request.body(()).unwrap().into_parts();
            let length = parts.headers.get("content-length").map(|length| length.to_str().unwrap().to_owned());
            assert_eq!(
                length.unwrap_or_default(),
                if sent.body.is_empty() { String::new() } else { sent.body.len().to_string() }
            );
            assert!(is_signed(&parts, &key));
            assert!(!is_signed(&parts, &AccountKey::parse("AAAAAAAAAAAAAAAAAAAAAA==").unwrap()));
            parts.method = Method::DELETE;
            assert!(!is_signed(&parts, &key));
            parts.headers.remove(AUTHORIZATION);
            assert!(!is_signed(&parts, &key));
        }
        assert!(bytes.starts_with(b"POST /devstoreaccount1/$batch HTTP/1.1\r\nHost: 127.0.0.1:1\r\n"));
    }

    #[tokio::test]
    async fn acknowledged_bodies_are_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = GroupLog::create(&path).unwrap();
        let appends = (0..20).map(|_| {
            let log = log.clone();
            tokio::spawn(async move { log.append(Bytes::from_static(b"body")).await.is_ok() })
        });
        for append in appends.collect::<Vec<_>>() {
            assert!(append.await.unwrap());
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"body".repeat(20));
    }
}
