//! The layer around a [`Service`] that delays requests, refuses them and loses their responses on purpose: the faults
//! that a test scripts for single requests, and the conditions of a rehearsal that do not concern the engine.
//!
//! Only a server with scripted faults or a rehearsal has this layer.

use crate::clock;
use crate::connection::handler::{Handler, RequestAborted};
use crate::connection::refusal::Refusal;
use crate::limits::connections::RequestInProgress;
use crate::limits::memory::MemoryPermit;
use crate::rehearsal::Rehearsal;
use crate::request::body;
use crate::request::{ConnectionInfo, FaultScript, ScriptedRefusal};
use crate::response::Segments;
use crate::service::Service;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Request, Response};
use hyper::body::{Body, Incoming};
use std::sync::Arc;
use std::time::Instant;

pub(crate) struct RehearsedService {
    pub(crate) service: Arc<Service>,
    pub(crate) rehearsal: Arc<Rehearsal>,
    /// `None` if no test scripts faults.
    pub(crate) faults: Option<FaultScript>,
}

impl Handler for RehearsedService {
    async fn handle(
        &self,
        request: Request<Incoming>,
        connection: ConnectionInfo,
        started: Instant,
        in_progress: &RequestInProgress,
    ) -> Result<Response<Segments>, RequestAborted> {
        let faults = self.faults.as_ref().and_then(|script| script.faults(request.method(), request.uri().path()));
        let Some(faults) = faults else {
            return self.rehearse(request, connection, started, in_progress).await;
        };
        tokio::time::sleep(faults.delay).await;
        if let Some(refusal) = faults.refusal {
            let mut body = request.into_body();
            body::discard(&mut body).await;
            return Ok(scripted_refusal(&refusal, body.is_end_stream()));
        }
        let response = self.rehearse(request, connection, clock::instant(), in_progress).await?;
        if faults.loses_response { Err(RequestAborted) } else { Ok(response) }
    }

    fn refuse(&self, refusal: &Refusal<'_>, connection: ConnectionInfo, started: Instant) -> Response<Segments> {
        self.service.refuse(refusal, connection, started)
    }
}

impl RehearsedService {
    async fn rehearse(
        &self,
        request: Request<Incoming>,
        connection: ConnectionInfo,
        started: Instant,
        in_progress: &RequestInProgress,
    ) -> Result<Response<Segments>, RequestAborted> {
        let started = match self.service.explorer_address(request.method(), request.uri(), request.headers()) {
            None => self.rehearsal.delay(started).await,
            Some(_) => started,
        };
        // Boxed, because every function that passes a future by value reserves space for all of it.
        let handling = Box::pin(self.service.handle(request, connection, started, in_progress));
        self.rehearsal.follow(handling).await.unwrap_or(Err(RequestAborted))
    }
}

/// If the request body was not read, the connection is closed.
fn scripted_refusal(refusal: &ScriptedRefusal, is_body_read: bool) -> Response<Segments> {
    let mut response = Response::<Segments>::default();
    *response.status_mut() = refusal.status;
    if let Some(code) = &refusal.code {
        let message = serde_json::json!({ "lang": "en-US", "value": "A scripted fault." });
        let body = serde_json::json!({ "odata.error": { "code": code, "message": message } });
        *response.body_mut() = Segments::new(vec![Bytes::from(body.to_string())], MemoryPermit::default());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    if !is_body_read {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
