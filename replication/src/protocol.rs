//! The requests of a standby, and the responses of its primary.
//!
//! A request is a GET request with a bearer token, and an [`Ask`] as JSON in a header. A response consists of the
//! length of its head (4 bytes, big-endian), the head as JSON (an [`Answer`]), and the records or the entries.

use anyhow::{Context, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use engine_embedded::{Awaited, Epoch, FOLDER_FORMAT, Identity, Lineage, Role};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use http_client::{
    HttpClient, HttpError, HttpOptions, Proxies, is_permanent, may_carry_token, system_roots, tls_config,
};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::time::Duration;
use subtle::ConstantTimeEq;

const ASK: HeaderName = HeaderName::from_static("x-rowhouse-ask");
/// The minimum length of a token, in characters.
const TOKEN_MIN: usize = 16;
/// A response contains at most a batch, and one transaction more.
const BODY_BYTES_MAX: usize = 512 * 1024 * 1024;
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// The time for which a primary holds a request for records until there are some.
pub(crate) const HELD: Duration = Duration::from_secs(1);
/// The size at which a batch of records is complete, in bytes.
pub(crate) const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// The secret with which standbys prove their identity.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Reads the token in a file.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let token = text.trim();
        let is_good = token.len() >= TOKEN_MIN && token.bytes().all(|byte| byte.is_ascii_graphic());
        ensure!(
            is_good,
            "{} must contain one line with a token of at least {TOKEN_MIN} printable characters without spaces, for \
             example from `openssl rand -hex 32`",
            path.display()
        );
        Ok(Self(token.to_owned()))
    }

    fn header(&self) -> HeaderValue {
        HeaderValue::from_str(&format!("Bearer {}", self.0)).expect("a token is printable")
    }

    /// Compares in a time that does not depend on where the tokens differ.
    pub(crate) fn is_in(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(AUTHORIZATION);
        given.is_some_and(|given| given.as_bytes().ct_eq(self.header().as_bytes()).into())
    }
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask")]
pub(crate) enum Ask {
    /// Begins a base copy.
    Begin { standby: String, replaces: bool, format: Option<u32> },
    /// Asks for the chunk of the base copy that follows a key, in Base64; for the first one without a key. It can be
    /// asked for again.
    Chunk { standby: String, sequence: u64, after: Option<String> },
    /// Asks for the records that follow the last one that the standby has on disk.
    Records { standby: String, replaces: bool, log: String, epoch: NamedEpoch, last: u64, format: Option<u32> },
    /// Says that a standby was promoted.
    Fence { log: String, epoch: NamedEpoch },
}

/// An epoch: its number, its first transaction, and its identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NamedEpoch(u64, u64, String);

impl From<&Epoch> for NamedEpoch {
    fn from(epoch: &Epoch) -> Self {
        Self(epoch.number, epoch.first, epoch.id.to_string())
    }
}

impl NamedEpoch {
    pub(crate) fn epoch(&self) -> anyhow::Result<Epoch> {
        Ok(Epoch { number: self.0, first: self.1, id: identity(&self.2)? })
    }
}

/// Fails if another server has data of another format. A standby stores keys, values and records as its primary has
/// them. Versions from before the first release name no format.
pub(crate) fn check_format(format: Option<u32>) -> anyhow::Result<()> {
    ensure!(
        format == Some(FOLDER_FORMAT),
        "the data of the primary and of the standby have different formats; both must run versions of Rowhouse with the \
         same format"
    );
    Ok(())
}

/// The head of a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) format: Option<u32>,
    pub(crate) log: String,
    pub(crate) epochs: Vec<NamedEpoch>,
    /// The time of the primary, in milliseconds since 1970. It was read before `last`.
    pub(crate) time: u64,
    /// The last transaction that is on disk.
    pub(crate) last: u64,
    pub(crate) content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub(crate) enum Content {
    /// The base copy contains the transactions up to this one.
    Copy { sequence: u64, waits: Waits },
    /// The body is a chunk of the base copy.
    Chunk,
    /// The base copy is complete.
    CopyEnd,
    /// The base copy does not exist any more, or cannot be completed; the standby must begin again.
    NoCopy { reason: String },
    /// The primary sends too many base copies to begin another one; the standby must wait.
    TooManyCopies,
    /// The body contains records; none if the count is 0.
    Records { first: u64, count: u32, waits: Waits },
    /// Whether the server refuses writes because a standby was promoted.
    Fenced { is_fenced: bool },
    /// The request is refused. If it is known for whom writes wait, or that the standby is cut off, the response says
    /// so.
    Refused { reason: String, waits: Option<Waits> },
}

/// Whether the primary waits for the standby that asked, or cannot serve it any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Waits {
    No,
    ForThis,
    ForAnother,
    CutOff,
}

impl From<Awaited> for Waits {
    fn from(awaited: Awaited) -> Self {
        match awaited {
            Awaited::None => Self::No,
            Awaited::This => Self::ForThis,
            Awaited::Other => Self::ForAnother,
            Awaited::CutOff => Self::CutOff,
        }
    }
}

impl From<Waits> for Awaited {
    fn from(waits: Waits) -> Self {
        match waits {
            Waits::No => Self::None,
            Waits::ForThis => Self::This,
            Waits::ForAnother => Self::Other,
            Waits::CutOff => Self::CutOff,
        }
    }
}

impl Answer {
    pub(crate) fn new(lineage: &Lineage, (time, last): (u64, u64), content: Content) -> Self {
        let epochs = lineage.epochs.iter().map(NamedEpoch::from).collect();
        Self { format: Some(FOLDER_FORMAT), log: lineage.log.to_string(), epochs, time, last, content }
    }

    /// Returns the lineage of a primary whose data a standby can store.
    pub(crate) fn lineage(&self) -> anyhow::Result<Lineage> {
        check_format(self.format)?;
        let log = identity(&self.log)?;
        let epochs = self.epochs.iter().map(NamedEpoch::epoch).collect::<anyhow::Result<Vec<_>>>()?;
        ensure!(!epochs.is_empty(), "the response names no epoch");
        Ok(Lineage { log, epochs, role: Role::Primary { confirming: None } })
    }

    pub(crate) fn encode(&self, body: &[u8]) -> Bytes {
        let head = serde_json::to_vec(self).expect("the head consists of texts and numbers");
        let bytes = u32::try_from(head.len()).expect("the head is short");
        [&bytes.to_be_bytes(), head.as_slice(), body].concat().into()
    }

    pub(crate) fn decode(bytes: &Bytes) -> anyhow::Result<(Self, Bytes)> {
        let (length, rest) = bytes.split_first_chunk().context("the response is too short")?;
        let length = usize::try_from(u32::from_be_bytes(*length))?;
        let head = rest.get(..length).context("the response is too short")?;
        Ok((serde_json::from_slice(head).context("the response is malformed")?, bytes.slice(4 + length..)))
    }
}

pub(crate) fn identity(text: &str) -> anyhow::Result<Identity> {
    Identity::parse(text).context("an identity is malformed")
}

impl Ask {
    pub(crate) fn begin(standby: Identity, replaces: bool) -> Self {
        Self::Begin { standby: standby.to_string(), replaces, format: Some(FOLDER_FORMAT) }
    }

    pub(crate) fn chunk(standby: Identity, sequence: u64, after: Option<&[u8]>) -> Self {
        Self::Chunk { standby: standby.to_string(), sequence, after: after.map(|key| STANDARD.encode(key)) }
    }

    /// Asks for what follows the last transaction of a standby with this lineage.
    pub(crate) fn records(standby: Identity, lineage: &Lineage, last: u64, replaces: bool) -> Self {
        let epoch = NamedEpoch::from(&lineage.newest());
        let (standby, log) = (standby.to_string(), lineage.log.to_string());
        Self::Records { standby, replaces, log, epoch, last, format: Some(FOLDER_FORMAT) }
    }

    pub(crate) fn read(headers: &HeaderMap) -> anyhow::Result<Self> {
        let ask = headers.get(ASK).context("the request asks for nothing")?;
        serde_json::from_slice(ask.as_bytes()).context("the request is malformed")
    }
}

/// Reads the key in a request for a chunk.
pub(crate) fn key(text: &str) -> anyhow::Result<Vec<u8>> {
    STANDARD.decode(text).context("a key is malformed")
}

/// The reason why a request fails now, but may succeed later, although a response arrived.
#[derive(Debug)]
struct Unavailable(u16);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the primary answered with the status {}", self.0)
    }
}

impl std::error::Error for Unavailable {}

/// Returns whether the same request may succeed later without a change of any setting.
pub(crate) fn is_transient(error: &anyhow::Error) -> bool {
    let response = error.downcast_ref::<HttpError>();
    error.is::<Unavailable>() || response.is_some_and(|error| !is_permanent(error))
}

/// Sends requests to a primary.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    http: HttpClient,
    url: Uri,
    token: Token,
}

impl Link {
    /// `primary` is the address of the primary without an account, for example `https://tables.example.org`.
    pub(crate) fn new(primary: &str, token: Token) -> anyhow::Result<Self> {
        let url = format!("{}{}", primary.trim_end_matches('/'), server::REPLICATION_PATH);
        let uri: Uri = url.parse().with_context(|| format!("'{primary}' is not the address of a server"))?;
        let is_server = uri.scheme_str().is_some_and(|scheme| scheme == "http" || scheme == "https");
        ensure!(is_server, "'{primary}' is not the address of a server, such as https://tables.example.org:10002");
        ensure!(
            may_carry_token(&uri),
            "plain HTTP to another machine would reveal the token, which gives access to all data: use the https address \
             of '{primary}', or a tunnel to this machine"
        );
        let options = HttpOptions {
            request_time_max: REQUEST_TIME_MAX,
            body_bytes_max: BODY_BYTES_MAX,
            ..HttpOptions::default()
        };
        let tls = tls_config(system_roots()).context("choosing the TLS versions")?;
        let proxies = Proxies::from_environment().context("reading the proxies from the environment")?;
        Ok(Self { http: HttpClient::with_proxies(options, tls, &proxies), url: uri, token })
    }

    pub(crate) async fn ask(&self, ask: &Ask) -> anyhow::Result<(Answer, Bytes)> {
        let json = serde_json::to_string(ask).context("writing the request")?;
        let request = Request::get(self.url.clone()).header(ASK, json).header(AUTHORIZATION, self.token.header());
        let mut response = self.http.send(request.body(Bytes::new())?).await?;
        let body = response.read_body().await?;
        match response.status.as_u16() {
            200 | 409 => Answer::decode(&body),
            401 => bail!("the primary does not accept the token"),
            400 | 403 | 404 => bail!(
                "the server offers nothing to standbys: check its address, and start it with --standby-token-file and \
                 --keep-log"
            ),
            status @ 500.. => Err(Unavailable(status).into()),
            status => bail!("the primary answered with the status {status}"),
        }
    }
}
