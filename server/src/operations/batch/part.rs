//! The parts of a batch. Each becomes an operation, as a request outside a batch does.

use crate::authorization::authorize_part;
use crate::request::{Failure, OperationContext, OperationKind, effective_method, route, table_of};
use crate::tables::AccountTables;
use http::Method;
use store::Engine;
use wire::batch::{AccountMismatch, PartRequest, PartTarget};
use wire::target::Resource;
use wire::{ErrorCode, QueryOptions, ServiceError};

/// Returns the operation of a part that has the given query options. The checks have the same order as for a single
/// request (06 §6).
pub(super) fn open<'a>(
    batch: &OperationContext<'a>,
    request: &'a PartRequest<'a>,
    options: &'a QueryOptions<'a>,
) -> Result<OperationContext<'a>, Failure> {
    let (kind, resource) = operation(batch, request, options)?;
    authorize_part(batch.grant, kind, &resource)?;
    batch.for_part(request, (kind, resource), options)
}

/// Records the table of the batch for log, metrics and analytics: the table that its first part names.
pub(super) fn note_table<E: Engine>(
    tables: &AccountTables<'_, E>,
    batch: &OperationContext<'_>,
    first: &PartRequest<'_>,
) {
    if let Ok((_, resource)) = operation(batch, first, &options(batch, first))
        && let Some(name) = table_of(&resource).and_then(|name| tables.name_for_metrics(name))
    {
        batch.note_table_in_body(name);
    }
}

pub(super) fn options<'p>(batch: &OperationContext<'_>, request: &PartRequest<'p>) -> QueryOptions<'p> {
    let target = PartTarget::parse(request.target, batch.account(), batch.domains);
    QueryOptions::parse(target.map_or("", |target| target.query))
}

/// Returns the operation, which must be an operation on entities.
///
/// UNVERIFIED (05 §5.2): the error code for operations on tables and on other resources of an account, except for a
/// POST to the root of the service (recorded).
fn operation<'p>(
    batch: &OperationContext<'_>,
    request: &PartRequest<'p>,
    options: &QueryOptions<'_>,
) -> Result<(OperationKind, Resource<'p>), Failure> {
    let target = PartTarget::parse(request.target, batch.account(), batch.domains);
    let target = target.map_err(|AccountMismatch| Failure::query(ServiceError::malformed_address()))?;
    options.check().map_err(Failure::query)?;
    let resource = Resource::parse(target.path).map_err(Failure::query)?;
    if resource == Resource::Service && options.comp.is_none() && options.restype.is_none() {
        return Err(Failure::query(ErrorCode::MethodNotAllowed));
    }
    let is_of_entities =
        matches!(resource, Resource::Entities(_) | Resource::Partition { .. } | Resource::Entity { .. });
    if !is_of_entities || options.comp.is_some() {
        return Err(Failure::query(ErrorCode::InvalidInput));
    }
    let method =
        Method::from_bytes(request.method.as_bytes()).map_err(|_| Failure::query(ErrorCode::InvalidHttpVerb))?;
    // A Java client sends `X-HTTP-Method: MERGE` in addition to the method MERGE itself.
    let overrides = request.method_overrides.iter().filter(|value| **value != request.method);
    let overrides = overrides.map(|value| value.as_bytes());
    let method = effective_method(&method, overrides).map_err(Failure::query)?;
    let kind = route(&method, &resource, (None, None), request.if_match.is_some()).map_err(Failure::query)?;
    Ok((kind, resource))
}
