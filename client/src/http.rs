//! The HTTP client that sends all requests of this library: over HTTPS or plain HTTP, with limits on time and size.
//!
//! The client follows no redirects and stores no cookies. Its errors never show the address or the headers of a
//! request, because they may contain a credential.

pub use http::{HeaderMap, Request, Response, Uri, header};
#[doc(inline)]
pub use http_client::{
    HttpClient, HttpError, HttpOptions, HttpResponse, MalformedProxy, Proxies, bare_host, system_roots, tls_config,
};
