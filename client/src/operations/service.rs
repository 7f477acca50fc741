//! The client of an account: its tables, its service properties, and how to connect to it.

use super::continuation::advanced;
use super::table::Table;
use crate::account::ConnectionString;
use crate::account::Credential;
use crate::account::Endpoint;
use crate::entity::{Entity, PropertyBag};
use crate::error::Error;
use crate::http::{HttpClient, HttpOptions, Proxies, system_roots, tls_config};
use crate::limits::{ATTEMPT_TIME_MAX, TABLE_PAGES_MAX};
use crate::pipeline::RetryPolicy;
use crate::pipeline::Transport;
use crate::pipeline::{BodyFormat, Operation, VERSION, What};
use crate::pipeline::{Pipeline, ReadFrom, Shared, unreadable};
use bytes::Bytes;
use http::Method;
use model::clock::SystemClock;
use model::filter::TABLE_NAME;
use model::{Clock, ServiceProperties};
use rustls::RootCertStore;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use wire::json::read_table_set;
use wire::service_stats::{self, GeoReplication};
use wire::uri::encode_component;
use wire::{Version, service_properties, xml};

/// A client for the Table service of one account, whether Rowhouse, the emulator, or the cloud. Clones share their
/// connections.
///
/// ```
/// use rowhouse_client::TableService;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowhouse_testing::TestServer::start().await?;
/// # let connection_string = server.connection_string();
/// let service = TableService::from_connection_string(&connection_string)?;
/// service.table("orders").create_if_missing().await?;
/// assert_eq!(service.tables().all().await?, ["orders"]);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct TableService {
    pub(crate) pipeline: Pipeline,
}

/// A builder for a [`TableService`] with custom settings.
///
/// ```
/// use rowhouse_client::{RetryPolicy, TableService};
/// use std::time::Duration;
///
/// let service = TableService::builder_from_connection_string("UseDevelopmentStorage=true")?
///     .retry(RetryPolicy::exponential().attempts(8))
///     .timeout(Duration::from_secs(10))
///     .build()?;
/// # Ok::<(), rowhouse_client::Error>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct TableServiceBuilder {
    primary: Endpoint,
    secondary: Option<Endpoint>,
    credential: Credential,
    transport: Option<Arc<dyn Transport>>,
    wrap_transport: Option<WrapTransport>,
    proxies: Option<Proxies>,
    clock: Arc<dyn Clock>,
    retry: RetryPolicy,
    attempt_time_max: Duration,
    read_from: ReadFrom,
    client_request_id: Option<Arc<str>>,
}

type WrapTransport = Box<dyn FnOnce(Arc<dyn Transport>) -> Arc<dyn Transport> + Send + Sync>;

impl TableService {
    /// Creates a client for the account in a connection string. The client connects when the first operation is
    /// executed.
    ///
    /// ```
    /// # use rowhouse_client::TableService;
    /// let service = TableService::from_connection_string("UseDevelopmentStorage=true")?;
    /// assert!(TableService::from_connection_string("my account").is_err());
    /// # Ok::<(), rowhouse_client::Error>(())
    /// ```
    pub fn from_connection_string(text: &str) -> Result<Self, Error> {
        Self::builder_from_connection_string(text)?.build()
    }

    /// Creates a client for the account at an endpoint. The client connects when the first operation is executed.
    ///
    /// ```
    /// use rowhouse_client::{Credential, Endpoint, TableService};
    ///
    /// let endpoint = Endpoint::parse("https://orchard.table.core.windows.net", None)?;
    /// let credential = Credential::parse("sv=2019-02-02&sig=abc%3D").ok_or("not a credential")?;
    /// let service = TableService::new(endpoint, credential)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(endpoint: Endpoint, credential: Credential) -> Result<Self, Error> {
        Self::builder(endpoint, credential).build()
    }

    /// Returns a builder of a client for the account at an endpoint.
    ///
    /// ```
    /// # use rowhouse_client::{Credential, DEVELOPMENT_ENDPOINT, DEVELOPMENT_KEY, Endpoint, TableService};
    /// let endpoint = Endpoint::parse(DEVELOPMENT_ENDPOINT, None)?;
    /// let credential = Credential::shared_key(DEVELOPMENT_KEY).ok_or("not Base64")?;
    /// let service = TableService::builder(endpoint, credential).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder(endpoint: Endpoint, credential: Credential) -> TableServiceBuilder {
        TableServiceBuilder {
            primary: endpoint,
            secondary: None,
            credential,
            transport: None,
            wrap_transport: None,
            proxies: None,
            clock: Arc::new(SystemClock),
            retry: RetryPolicy::default(),
            attempt_time_max: ATTEMPT_TIME_MAX,
            read_from: ReadFrom::default(),
            client_request_id: None,
        }
    }

    /// Returns a builder of a client for the account in a connection string.
    ///
    /// ```
    /// # use rowhouse_client::TableService;
    /// let service = TableService::builder_from_connection_string("UseDevelopmentStorage=true")?.build()?;
    /// # Ok::<(), rowhouse_client::Error>(())
    /// ```
    pub fn builder_from_connection_string(text: &str) -> Result<TableServiceBuilder, Error> {
        let invalid = |why: &str| Error::Invalid(format!("the connection string {why}"));
        let parts = ConnectionString::parse(text).ok_or_else(|| invalid("is malformed"))?;
        let credential = parts
            .credential()
            .ok_or_else(|| invalid("has neither a valid AccountKey nor a valid SharedAccessSignature"))?;
        let endpoint = parts.endpoint().ok_or_else(|| invalid("has neither AccountName nor TableEndpoint"))?;
        let account = parts.account.as_deref();
        let mut builder = Self::builder(Endpoint::parse(&endpoint, account)?, credential);
        if let Some(secondary) = parts.secondary_endpoint() {
            builder = builder.secondary(Endpoint::parse(secondary, account)?);
        }
        Ok(builder)
    }

    /// Returns the endpoint of the account.
    ///
    /// ```
    /// # use rowhouse_client::TableService;
    /// let service = TableService::from_connection_string("UseDevelopmentStorage=true")?;
    /// assert_eq!(service.endpoint().to_string(), "http://127.0.0.1:10002/devstoreaccount1");
    /// # Ok::<(), rowhouse_client::Error>(())
    /// ```
    pub fn endpoint(&self) -> &Endpoint {
        &self.pipeline.shared.primary
    }

    /// Returns a table of the account. Nothing is sent.
    ///
    /// ```
    /// # use rowhouse_client::TableService;
    /// let service = TableService::from_connection_string("UseDevelopmentStorage=true")?;
    /// let orders = service.table("orders");
    /// # Ok::<(), rowhouse_client::Error>(())
    /// ```
    pub fn table(&self, name: &str) -> Table {
        Table::new(self.pipeline.clone(), name)
    }

    /// Returns the list of the account's tables.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// # for name in ["orders2031", "orders2032", "customers"] { service.table(name).create().await?; }
    /// let orders = service.tables().prefix("orders").all().await?;
    /// assert_eq!(orders, ["orders2031", "orders2032"]);
    /// # Ok(()) }
    /// ```
    pub fn tables(&self) -> TableList {
        TableList { service: self.clone(), filter: None, next: None, is_done: false, pages: 0 }
    }

    /// Reads the service properties of the account: CORS rules, logging and metrics.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// let properties = service.properties().await?;
    /// assert!(properties.cors.as_slice().is_empty());
    /// # Ok(()) }
    /// ```
    pub async fn properties(&self) -> Result<ServiceProperties, Error> {
        let what = What { text: "reading the service properties", table: None };
        let operation = Operation::get(what, "/".to_owned(), PROPERTIES_QUERY.to_owned(), BodyFormat::Xml);
        let response = self.pipeline.execute(&operation).await?;
        let update = service_properties::read(&response.body, version());
        let update = update.map_err(|refusal| unreadable(&operation, &refusal.to_string()))?;
        Ok(ServiceProperties::default().updated(update))
    }

    /// Replaces all service properties of the account.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowhouse_testing::TestServer::start().await?;
    /// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
    /// let mut properties = service.properties().await?;
    /// properties.logging.delete = true;
    /// service.set_properties(&properties).await?;
    /// # Ok(()) }
    /// ```
    pub async fn set_properties(&self, properties: &ServiceProperties) -> Result<(), Error> {
        let document = service_properties::write(properties, version());
        let what = What { text: "setting the service properties", table: None };
        self.pipeline.put_xml(what, "/".to_owned(), PROPERTIES_QUERY, document).await
    }

    /// Reads the state of replication to the secondary. The request goes to the secondary.
    ///
    /// ```no_run
    /// # async fn example(service: rowhouse_client::TableService) -> Result<(), rowhouse_client::Error> {
    /// println!("{:?}", service.statistics().await?);
    /// # Ok(()) }
    /// ```
    pub async fn statistics(&self) -> Result<GeoReplication, Error> {
        let what = What { text: "reading the service statistics", table: None };
        let query = "restype=service&comp=stats".to_owned();
        let operation = Operation::get(what, "/".to_owned(), query, BodyFormat::Xml);
        let mut pipeline = self.pipeline.clone();
        pipeline.read_from = ReadFrom::Secondary;
        let response = pipeline.execute(&operation).await?;
        service_stats::read(&response.body).ok_or_else(|| unreadable(&operation, "it contains no valid statistics"))
    }
}

impl TableServiceBuilder {
    /// Sets the retry policy.
    ///
    /// ```
    /// # use rowhouse_client::{RetryPolicy, TableService};
    /// let builder = TableService::builder_from_connection_string("UseDevelopmentStorage=true")?.retry(RetryPolicy::none());
    /// # Ok::<(), rowhouse_client::Error>(())
    /// ```
    pub fn retry(self, retry: RetryPolicy) -> Self {
        Self { retry, ..self }
    }

    /// Sets the timeout for one attempt, including the body of the response: 60 s by default. The service's own timeout
    /// is 30 s.
    ///
    /// ```
    /// # use rowhouse_client::TableService;
    /// # use std::time::Duration;
    /// let builder = TableService::builder_from_connection_string("UseDevelopmentStorage=true")?.timeout(Duration::from_secs(5));
    /// # Ok::<(), rowhouse_client::Error>(())
    /// ```
    pub fn timeout(self, attempt_time_max: Duration) -> Self {
        Self { attempt_time_max, ..self }
    }

    /// Sets the endpoint from which entities are read.
    ///
    /// ```
    /// # use rowhouse_client::{ReadFrom, TableService};
    /// let builder =
    ///     TableService::builder_from_connection_string("UseDevelopmentStorage=true")?.read_from(ReadFrom::PrimaryThenSecondary);
    /// # Ok::<(), rowhouse_client::Error>(())
    /// ```
    pub fn read_from(self, read_from: ReadFrom) -> Self {
        Self { read_from, ..self }
    }

    /// Sets the ID that each request carries in `x-ms-client-request-id`, instead of a random ID for each operation.
    /// The ID has 1 to 1,024 ASCII characters. [`Table::with_client_request_id`] sets it for single operations.
    ///
    /// ```
    /// # use rowhouse_client::TableService;
    /// let builder = TableService::builder_from_connection_string("UseDevelopmentStorage=true")?.client_request_id("nightly-import");
    /// # Ok::<(), rowhouse_client::Error>(())
    /// ```
    pub fn client_request_id(self, id: &str) -> Self {
        Self { client_request_id: Some(Arc::from(id)), ..self }
    }

    /// Sets the URL of the secondary. By default, it is derived from the URL of the primary.
    ///
    /// ```
    /// # use rowhouse_client::{Endpoint, TableService};
    /// let secondary = Endpoint::parse("https://replica.example.net", Some("orchard"))?;
    /// let builder = TableService::builder_from_connection_string("UseDevelopmentStorage=true")?.secondary(secondary);
    /// # Ok::<(), rowhouse_client::Error>(())
    /// ```
    pub fn secondary(self, secondary: Endpoint) -> Self {
        Self { secondary: Some(secondary), ..self }
    }

    /// Sets the proxies. By default, the library uses the proxies [in the environment](Proxies::from_environment), but
    /// never for the local machine. They have no effect on your own [`transport`](Self::transport).
    ///
    /// ```
    /// # use rowhouse_client::TableService;
    /// use rowhouse_client::http::Proxies;
    ///
    /// let builder = TableService::builder_from_connection_string("UseDevelopmentStorage=true")?.proxies(Proxies::none());
    /// # Ok::<(), rowhouse_client::Error>(())
    /// ```
    pub fn proxies(self, proxies: Proxies) -> Self {
        Self { proxies: Some(proxies), ..self }
    }

    /// Replaces the transport. With its own transport, a test can respond to requests itself; see the example of
    /// [`Transport`].
    ///
    /// ```
    /// # use rowhouse_client::TableService;
    /// use rowhouse_client::http::{HttpClient, HttpOptions, system_roots, tls_config};
    ///
    /// let http = HttpClient::new(HttpOptions::default(), tls_config(system_roots())?);
    /// let builder = TableService::builder_from_connection_string("UseDevelopmentStorage=true")?.transport(http);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn transport(self, transport: impl Transport + 'static) -> Self {
        Self { transport: Some(Arc::new(transport)), ..self }
    }

    /// Wraps the transport, for example to observe every attempt. The function receives the transport that the client
    /// would otherwise use: the HTTP client, or the one passed to [`transport`](Self::transport).
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http::{Request, Response};
    /// use rowhouse_client::{BoxFuture, HttpError, TableService, Transport};
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// #[derive(Debug)]
    /// struct Announced(Arc<dyn Transport>);
    ///
    /// impl Transport for Announced {
    ///     fn send(&self, request: Request<Bytes>, time_max: Duration) -> BoxFuture<'_, Result<Response<Bytes>, HttpError>> {
    ///         println!("{} {}", request.method(), request.uri().path());
    ///         self.0.send(request, time_max)
    ///     }
    /// }
    ///
    /// let service = TableService::builder_from_connection_string("UseDevelopmentStorage=true")?
    ///     .wrap_transport(Announced)
    ///     .build()?;
    /// # Ok::<(), rowhouse_client::Error>(())
    /// ```
    pub fn wrap_transport<T: Transport + 'static>(
        self,
        wrap: impl FnOnce(Arc<dyn Transport>) -> T + Send + Sync + 'static,
    ) -> Self {
        Self { wrap_transport: Some(Box::new(|inner| Arc::new(wrap(inner)))), ..self }
    }

    /// Replaces the clock that dates requests, for tests against a server whose clock the test controls.
    ///
    /// ```
    /// # use rowhouse_client::TableService;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = rowhouse_testing::TestServer::start().await?;
    /// let service = TableService::builder_from_connection_string(&server.connection_string())?
    ///     .clock(server.clock().clone())
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    pub fn clock(self, clock: impl Clock) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    /// Creates the client. Nothing is sent.
    ///
    /// ```
    /// # use rowhouse_client::TableService;
    /// let service = TableService::builder_from_connection_string("UseDevelopmentStorage=true")?.build()?;
    /// # Ok::<(), rowhouse_client::Error>(())
    /// ```
    pub fn build(self) -> Result<TableService, Error> {
        let Self {
            primary,
            secondary,
            credential,
            transport,
            wrap_transport,
            proxies,
            clock,
            retry,
            attempt_time_max,
            read_from,
            client_request_id,
        } = self;
        let transport = if let Some(transport) = transport {
            transport
        } else {
            let roots = if primary.is_https() { system_roots() } else { RootCertStore::empty() };
            let tls = tls_config(roots).map_err(|error| Error::Invalid(format!("cannot configure TLS: {error}")))?;
            let proxies = match proxies {
                Some(proxies) => proxies,
                // A proxy that the library does not support must not prevent work with a local server.
                None if primary.is_loopback() => Proxies::none(),
                None => Proxies::from_environment().map_err(|error| Error::Invalid(error.to_string()))?,
            };
            Arc::new(HttpClient::with_proxies(HttpOptions::default(), tls, &proxies))
        };
        let transport = match wrap_transport {
            Some(wrap) => wrap(transport),
            None => transport,
        };
        let secondary = secondary.unwrap_or_else(|| primary.secondary());
        let shared = Shared { primary, secondary, credential, transport, clock, token: Mutex::new(None) };
        let pipeline = Pipeline { shared: Arc::new(shared), retry, attempt_time_max, read_from, client_request_id };
        Ok(TableService { pipeline })
    }
}

impl fmt::Debug for TableServiceBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableServiceBuilder")
            .field("primary", &self.primary)
            .field("credential", &self.credential)
            .finish_non_exhaustive()
    }
}

/// The tables of an account, in the service's spelling and order. The list is read in pages.
///
/// ```
/// # async fn example(service: rowhouse_client::TableService) -> Result<(), rowhouse_client::Error> {
/// for name in service.tables().all().await? {
///     println!("{name}");
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct TableList {
    service: TableService,
    filter: Option<String>,
    next: Option<String>,
    is_done: bool,
    pages: usize,
}

impl TableList {
    /// Selects only tables whose names start with a prefix.
    ///
    /// ```
    /// # fn example(service: rowhouse_client::TableService) {
    /// let orders = service.tables().prefix("orders");
    /// # }
    /// ```
    pub fn prefix(self, prefix: &str) -> Self {
        let filter = table_names_from(prefix);
        Self { filter: Some(filter), ..self }
    }

    /// Returns the next page of names, or `None` after the last page.
    ///
    /// ```
    /// # async fn example(service: rowhouse_client::TableService) -> Result<(), rowhouse_client::Error> {
    /// let mut tables = service.tables();
    /// while let Some(names) = tables.next().await {
    ///     println!("{} tables", names?.len());
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn next(&mut self) -> Option<Result<Vec<String>, Error>> {
        if self.is_done {
            return None;
        }
        let page = self.page().await;
        self.is_done = self.next.is_none() || page.is_err();
        Some(page)
    }

    /// Returns the names of all tables.
    ///
    /// ```
    /// # async fn example(service: rowhouse_client::TableService) -> Result<(), rowhouse_client::Error> {
    /// println!("{} tables", service.tables().all().await?.len());
    /// # Ok(()) }
    /// ```
    pub async fn all(mut self) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        while let Some(page) = self.next().await {
            names.append(&mut page?);
        }
        Ok(names)
    }

    async fn page(&mut self) -> Result<Vec<String>, Error> {
        let filter = self.filter.as_ref().map(|filter| format!("$filter={}", encode_component(filter)));
        // `self.next` must not change before the response arrives, because this future can be dropped while it
        // waits.
        let next = self.next.as_ref().map(|next| format!("NextTableName={}", encode_component(next)));
        let query = filter.into_iter().chain(next).collect::<Vec<_>>().join("&");
        let what = What { text: "listing the tables", table: None };
        let operation = Operation::get(what, "/Tables".to_owned(), query, BodyFormat::Json);
        if self.pages == TABLE_PAGES_MAX {
            return Err(unreadable(&operation, "the list never ends"));
        }
        self.pages += 1;
        let response = self.service.pipeline.execute(&operation).await?;
        let names = read_table_set(&response.body).map_err(|_| unreadable(&operation, "it is not a table list"))?;
        let next = response.continuation(&operation, "x-ms-continuation-NextTableName")?;
        self.next = advanced(&operation, self.next.as_ref(), next)?;
        Ok(names)
    }
}

impl Pipeline {
    pub(crate) async fn put_xml(&self, what: What, path: String, query: &str, document: Vec<u8>) -> Result<(), Error> {
        // The service writes a byte order mark, but clients send none.
        let mark = xml::BYTE_ORDER_MARK.as_bytes();
        let body = Bytes::from(document);
        let body = if body.starts_with(mark) { body.slice(mark.len()..) } else { body };
        let operation =
            Operation { method: Method::PUT, body, ..Operation::get(what, path, query.to_owned(), BodyFormat::Xml) };
        self.execute(&operation).await.map(drop)
    }
}

fn table_names_from(prefix: &str) -> String {
    PropertyBag::PROPERTIES.property::<String>(TABLE_NAME).starts_with(prefix).to_string()
}

const PROPERTIES_QUERY: &str = "restype=service&comp=properties";

fn version() -> Version {
    Version::parse(VERSION).expect("the version is a date")
}
