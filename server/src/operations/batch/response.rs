//! The response to a batch: the responses to its operations as parts of one body (specification 05 §4, §5).

use crate::failure::{Failure, Layer};
use crate::request::{OperationContext, OperationKind, RequestId};
use crate::response::{OperationResponse, empty_content_type};
use bytes::Bytes;
use model::Dialect;
use wire::batch::{PartHead, end, start_changeset, start_part, write_head};
use wire::error::{ErrorOrigin, write_cosmos_error_body, write_error_body};
use wire::negotiation::{ContentKind, DataServiceVersion, Preference};
use wire::{ErrorCode, Format, MetadataLevel, ServiceError, Version};

/// The maximum size of a segment that is copied, in bytes.
const COPIED_BYTES_MAX: usize = 16 * 1024;

/// The approximate length of a part without a body, in bytes.
pub(super) const EMPTY_PART_BYTES: usize = 640;

pub(super) struct BatchResponse<'a> {
    origin: ErrorOrigin<'a>,
    dialect: Dialect,
    version: Version,
    batch: String,
    changeset: Option<String>,
    /// The number of parts so far.
    parts: usize,
    full: Vec<Bytes>,
    open: Vec<u8>,
    failed_by: Option<Box<Failure>>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FailureForm<'a> {
    pub(super) content_id: Option<&'a str>,
    pub(super) format: Option<Format>,
    pub(super) preference: Option<Preference>,
    /// Whether the operation was executed. The headers of the part depend on this (05 §5.1).
    ///
    /// UNVERIFIED: that such a part repeats a preference, and others do not.
    pub(super) was_executed: bool,
}

impl<'a> BatchResponse<'a> {
    pub(super) fn new(context: &OperationContext<'a>) -> Self {
        Self {
            origin: context.request.error_origin(context.response.now),
            dialect: context.response.dialect,
            version: context.response.version,
            batch: boundary("batchresponse"),
            changeset: None,
            parts: 0,
            full: Vec::new(),
            open: Vec::with_capacity(4096),
            failed_by: None,
        }
    }

    pub(super) fn start_changeset(&mut self, parts: usize) {
        self.open.reserve(parts * EMPTY_PART_BYTES);
        let changeset = boundary("changesetresponse");
        start_changeset(&mut self.open, &self.batch, &changeset);
        self.changeset = Some(changeset);
    }

    pub(super) fn end_changeset(&mut self) {
        if let Some(changeset) = self.changeset.take() {
            end(&mut self.open, &changeset);
        }
    }

    pub(super) fn finish(mut self) -> OperationResponse {
        self.end_changeset();
        end(&mut self.open, &self.batch);
        self.full.push(Bytes::from(self.open));
        OperationResponse { failed_by: self.failed_by, ..OperationResponse::batch(&self.batch, self.full) }
    }

    /// UNVERIFIED (05 §4): the data service version of an Atom entity in versions other than 2.0, since version
    /// 2012-02-12.
    pub(super) fn success(
        &mut self,
        content_id: Option<&str>,
        (kind, version): (OperationKind, DataServiceVersion),
        response: OperationResponse,
    ) {
        // Responses to updates and deletions keep the version of the first release, unless they honor a preference (05
        // §4).
        let is_of_version = response.content.is_some() || response.location.is_some() || response.preference.is_some();
        let version = if self.version.has_first_form() { DataServiceVersion::V1 } else { version };
        let (content_type, segments) = response.content.map_or((None, Vec::new()), |(t, segments)| (Some(t), segments));
        self.parts += 1;
        // One service numbers the operations, whatever IDs they have (11 §9).
        let number = (self.dialect == Dialect::Cosmos).then(|| self.parts.to_string());
        let head = PartHead {
            dialect: self.dialect,
            status: response.status,
            content_id: number.as_deref().or(content_id),
            is_first_form: self.version.has_first_form(),
            has_nosniff: true,
            has_no_cache: true,
            preference: response.preference,
            data_service_version: if is_of_version { version } else { DataServiceVersion::V1 }.as_str(),
            content_type: content_type.as_deref().or_else(|| empty_content_type(kind, self.dialect)),
            location: response.location.as_deref(),
            has_data_service_id: response.has_data_service_id,
            etag: response.etag,
            continuation: &response.continuation,
        };
        self.part(&head, segments);
    }

    /// Writes the part for a failure. The message begins with the index of the operation, if there is one.
    pub(super) fn failure(&mut self, failure: Failure, index: Option<usize>, form: FailureForm<'_>) {
        let failure = failure.in_dialect(self.dialect);
        let (format, data_service_version) = match (failure.layer, form.format) {
            (Layer::Format, _) | (_, Some(Format::Atom) | None) => (Format::Atom, "1.0"),
            (_, Some(format @ Format::Json(_))) => (format, "3.0"),
        };
        let error = index.map_or_else(|| failure.error.clone(), |index| failure.error.at_index(index, self.dialect));
        let head = PartHead {
            status: error.code.status(),
            content_id: form.content_id,
            has_nosniff: true,
            has_no_cache: form.was_executed,
            preference: form.preference.filter(|_| form.was_executed),
            data_service_version,
            ..PartHead::default()
        };
        self.error(&error, format, head);
        self.failed_by.get_or_insert_with(|| Box::new(Failure { error, ..failure }));
    }

    /// Writes the part for a batch that cannot be read (05 §5.3).
    pub(super) fn unreadable(&mut self, error: ServiceError) {
        let error = error.in_dialect(self.dialect);
        let head = PartHead { status: error.code.status(), data_service_version: "1.0", ..PartHead::default() };
        self.error(&error, Format::Atom, head);
        self.failed_by.get_or_insert_with(|| Box::new(Failure::query(error)));
    }

    /// Writes the part for an error. Completes the headers that depend on the format.
    fn error(&mut self, error: &ServiceError, format: Format, head: PartHead<'_>) {
        if self.dialect == Dialect::Cosmos {
            let content_type = Some(MetadataLevel::Full.content_type_in(self.dialect));
            let head = PartHead { dialect: self.dialect, status: head.status, content_type, ..PartHead::default() };
            let body = write_cosmos_error_body(error, &self.origin);
            return self.part(&head, vec![Bytes::from(body)]);
        }
        let head = PartHead {
            is_first_form: self.version.has_first_form(),
            content_type: Some(format.content_type(ContentKind::Error, self.version, self.dialect)),
            ..head
        };
        let body = write_error_body(format.error_body(self.version), error, &self.origin);
        self.part(&head, vec![Bytes::from(body)]);
    }

    fn part(&mut self, head: &PartHead<'_>, segments: Vec<Bytes>) {
        start_part(&mut self.open, self.changeset.as_deref().unwrap_or(&self.batch));
        write_head(&mut self.open, head);
        for segment in segments {
            if segment.len() <= COPIED_BYTES_MAX {
                self.open.extend_from_slice(&segment);
            } else {
                self.full.push(Bytes::from(std::mem::take(&mut self.open)));
                self.full.push(segment);
            }
        }
        self.open.extend_from_slice(LINE_BREAK);
    }
}

const LINE_BREAK: &[u8] = b"\r\n";

fn boundary(kind: &str) -> String {
    format!("{kind}_{}", RequestId::new())
}

/// Returns true for a failure of the server itself, which concerns no single operation. The client may retry the batch.
pub(super) fn is_fault(failure: &Failure) -> bool {
    matches!(failure.error.code, ErrorCode::InternalError | ErrorCode::ServerBusy | ErrorCode::OperationTimedOut)
}
