//! The operations on an account as a whole.

use crate::failure::Failure;
use crate::replication::{Replicated, StandbyState};
use crate::request::OperationContext;
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use bytes::Bytes;
use engine::LoadMonitor;
use model::cors::CorsError;
use wire::reason::ReasonKind;
use wire::sas::user_delegation::KeyInfo;
use wire::service_properties::{self, ServicePropertiesError};
use wire::service_stats::{self, GeoReplication};
use wire::{ErrorCode, ServiceError, Version};

/// Get Table Service Properties (specification 10 §1).
#[allow(clippy::unused_async, reason = "the table of operations calls all operations the same way")]
pub(super) async fn get_properties(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let properties = tables.service_properties()?;
    Ok(OperationResponse::xml(service_properties::write(&properties, context.response.version)))
}

/// Set Table Service Properties (specification 10 §1).
pub(super) async fn set_properties(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let update = service_properties::read(context.body, context.response.version).map_err(refusal)?;
    tables.update_service_properties(update).await?;
    Ok(OperationResponse::accepted())
}

/// Returns the failure for rejected XML; the log shows the cause.
///
/// UNVERIFIED (10 §1): the responses to too many rules, invalid `Days`, missing elements and an empty root were
/// recorded, and the response to a rule with too many origins or headers was tested. The codes for all other errors,
/// and for an empty body, are derived from these.
fn refusal(refusal: ServicePropertiesError) -> Failure {
    let code = match refusal {
        ServicePropertiesError::Cors(
            CorsError::Origins | CorsError::Methods | CorsError::Headers | CorsError::Item | CorsError::MaxAge,
        ) => ErrorCode::InvalidXmlNodeValue,
        _ => ErrorCode::InvalidXmlDocument,
    };
    let kind = match refusal {
        ServicePropertiesError::Malformed(_) => ReasonKind::XmlMalformed,
        ServicePropertiesError::Empty
        | ServicePropertiesError::Unexpected(_)
        | ServicePropertiesError::Missing(_)
        | ServicePropertiesError::DaysWithoutRetention => ReasonKind::XmlElement,
        ServicePropertiesError::Value(_) | ServicePropertiesError::Cors(_) => ReasonKind::XmlValue,
    };
    let reason = kind.because(format!("The service properties are refused: {refusal}."));
    Failure { source: Some(Box::new(refusal)), ..Failure::service(ServiceError::from(code).because(reason)) }
}

/// Get Table Service Stats (specification 10 §6).
///
/// Responds with the time up to which a standby has the writes of its primary. Otherwise, the secondary endpoint is up
/// to date, because it reads the data of the primary endpoint.
#[allow(clippy::unused_async, reason = "the table of operations calls all operations the same way")]
pub(super) async fn get_stats(
    _: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let replication = match context.replication.and_then(Replicated::standby) {
        None => GeoReplication::Live(context.request.incoming.now),
        Some(StandbyState { last_sync: Some(time) }) => GeoReplication::Live(time),
        Some(StandbyState { last_sync: None }) => GeoReplication::Unavailable,
    };
    Ok(OperationResponse::xml(service_stats::write(replication)))
}

/// Get User Delegation Key (specification 08 §11).
#[allow(clippy::unused_async, reason = "the table of operations calls all operations the same way")]
pub(super) async fn get_user_delegation_key(
    _: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    // UNVERIFIED (08 §11.1): the error code, which is the same as for an operation that no version has.
    if context.response.version < Version::USER_DELEGATION {
        let detail = format!("comp=userdelegationkey exists since version {}.", Version::USER_DELEGATION);
        let error = ServiceError::from(ErrorCode::InvalidQueryParameterValue);
        return Err(Failure::query(error.because(ReasonKind::CompUnknown.because(detail))));
    }
    let info = KeyInfo::read(context.body, context.response.now).map_err(Failure::service)?;
    // `authorize` admits only requests with a token.
    let delegator = context.request.delegator.as_ref().ok_or_else(Failure::needs_bearer)?;
    Ok(OperationResponse::xml(delegator.issue(&info, context.response.version)))
}

/// Get Cluster Load, an extension: the load of the nodes and shards of a cluster, and what would even it out.
///
/// The response never waits for the database. Of the hottest partitions, it contains only those in the account.
#[allow(clippy::unused_async, reason = "the table of operations calls all operations the same way")]
pub(super) async fn get_cluster_load(
    _: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let report = context.load.and_then(LoadMonitor::latest).ok_or_else(|| {
        Failure::service(ErrorCode::ServerBusy).with_cause("the load of the cluster has not been read recently")
    })?;
    let json = serde_json::to_vec(&report.visible_to(context.account()));
    let json = json.expect("the report has no maps, whose keys could be invalid");
    Ok(OperationResponse::ok("application/json", vec![Bytes::from(json)]))
}
