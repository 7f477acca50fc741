//! Which operation a method on a resource asks for (specification 02 §1).

use crate::operation_kind::OperationKind;
use http::Method;
use std::borrow::Cow;
use wire::target::Resource;
use wire::{ErrorCode, ServiceError};

/// An operation and what the address says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operation<'a> {
    QueryTables,
    CreateTable,
    GetTable(Cow<'a, str>),
    DeleteTable(Cow<'a, str>),
    GetTableAcl(Cow<'a, str>),
    SetTableAcl(Cow<'a, str>),
    QueryEntities(Cow<'a, str>),
    InsertEntity(Cow<'a, str>),
    GetEntity(EntityAddress<'a>),
    UpdateEntity(EntityAddress<'a>),
    MergeEntity(EntityAddress<'a>),
    DeleteEntity(EntityAddress<'a>),
    Batch,
    GetServiceProperties,
    SetServiceProperties,
    GetServiceStats,
}

/// The address of an entity; nothing is checked but its form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntityAddress<'a> {
    pub(crate) table: Cow<'a, str>,
    pub(crate) partition: Cow<'a, str>,
    pub(crate) row: Cow<'a, str>,
}

impl Operation<'_> {
    /// Which operation this is, without its parameters.
    pub(crate) fn kind(&self) -> OperationKind {
        match self {
            Self::QueryTables => OperationKind::QueryTables,
            Self::CreateTable => OperationKind::CreateTable,
            Self::GetTable(_) => OperationKind::QueryTable,
            Self::DeleteTable(_) => OperationKind::DeleteTable,
            Self::GetTableAcl(_) => OperationKind::GetTableAcl,
            Self::SetTableAcl(_) => OperationKind::SetTableAcl,
            Self::QueryEntities(_) => OperationKind::QueryEntities,
            Self::InsertEntity(_) => OperationKind::InsertEntity,
            Self::GetEntity(_) => OperationKind::QueryEntity,
            Self::UpdateEntity(_) => OperationKind::UpdateEntity,
            Self::MergeEntity(_) => OperationKind::MergeEntity,
            Self::DeleteEntity(_) => OperationKind::DeleteEntity,
            Self::Batch => OperationKind::EntityGroupTransaction,
            Self::GetServiceProperties => OperationKind::GetServiceProperties,
            Self::SetServiceProperties => OperationKind::SetServiceProperties,
            Self::GetServiceStats => OperationKind::GetServiceStats,
        }
    }

    /// The name in logs, as the service names its operations (10 §8).
    pub(crate) fn name(&self) -> &'static str {
        self.kind().name()
    }
}

impl<'a> Operation<'a> {
    /// The table that the address names.
    pub(crate) fn table(&self) -> Option<&Cow<'a, str>> {
        match self {
            Self::GetTable(table)
            | Self::DeleteTable(table)
            | Self::GetTableAcl(table)
            | Self::SetTableAcl(table)
            | Self::QueryEntities(table)
            | Self::InsertEntity(table) => Some(table),
            Self::GetEntity(address)
            | Self::UpdateEntity(address)
            | Self::MergeEntity(address)
            | Self::DeleteEntity(address) => Some(&address.table),
            Self::QueryTables
            | Self::CreateTable
            | Self::Batch
            | Self::GetServiceProperties
            | Self::SetServiceProperties
            | Self::GetServiceStats => None,
        }
    }
}

impl Operation<'_> {
    /// Whether the operation reads or writes entities, so that these are what counts when requests are throttled.
    pub(crate) fn is_of_entities(&self) -> bool {
        let is_write = matches!(
            self,
            Self::InsertEntity(_) | Self::UpdateEntity(_) | Self::MergeEntity(_) | Self::DeleteEntity(_) | Self::Batch
        );
        is_write || matches!(self, Self::QueryEntities(_) | Self::GetEntity(_))
    }

    /// Whether the operation changes anything, so that the secondary endpoint refuses it.
    ///
    /// Whether a batch does is known only once it has been read.
    pub(crate) fn is_write(&self) -> bool {
        let is_read =
            matches!(self, Self::QueryTables | Self::GetTable(_) | Self::QueryEntities(_) | Self::GetEntity(_));
        let is_xml_read = matches!(self, Self::GetTableAcl(_) | Self::GetServiceProperties | Self::GetServiceStats);
        !is_read && !is_xml_read && *self != Self::Batch
    }

    /// Whether the operation may have changed something once it is done.
    pub(crate) fn may_write(&self) -> bool {
        self.is_write() || *self == Self::Batch
    }

    /// Whether a client may say if it wants to see what it made (02 §2).
    pub(crate) fn has_preference(&self) -> bool {
        matches!(self, Self::CreateTable | Self::InsertEntity(_))
    }

    /// Whether a request has a body that matters.
    pub(crate) fn has_body(&self) -> bool {
        let is_entity_body = matches!(self, Self::InsertEntity(_) | Self::UpdateEntity(_) | Self::MergeEntity(_));
        let is_xml_body = matches!(self, Self::SetTableAcl(_) | Self::SetServiceProperties);
        is_entity_body || is_xml_body || matches!(self, Self::CreateTable | Self::Batch)
    }

    /// Whether bodies and errors are XML whatever the client accepts (10).
    pub(crate) fn is_xml(&self) -> bool {
        let is_of_table = matches!(self, Self::GetTableAcl(_) | Self::SetTableAcl(_));
        is_of_table || matches!(self, Self::GetServiceProperties | Self::SetServiceProperties | Self::GetServiceStats)
    }

    /// Whether a successful answer has a body, so that a format must be resolved for it.
    pub(crate) fn answers_with_body(&self) -> bool {
        !matches!(self, Self::DeleteTable(_) | Self::UpdateEntity(_) | Self::MergeEntity(_) | Self::DeleteEntity(_))
    }
}

/// The method that counts: the one on the wire, or the one that `X-HTTP-Method` puts in place of POST (02 §2).
pub(crate) fn effective_method<'h>(
    method: &Method,
    overrides: impl Iterator<Item = &'h [u8]>,
) -> Result<Method, ServiceError> {
    let mut overrides = overrides.peekable();
    let Some(value) = overrides.next() else { return Ok(method.clone()) };
    if overrides.peek().is_some() {
        return Err(ErrorCode::XMethodIncorrectCount.into());
    }
    if method != Method::POST {
        return Err(ErrorCode::XMethodNotUsingPost.into());
    }
    match value {
        b"MERGE" | b"PUT" | b"DELETE" | b"PATCH" => {
            Method::from_bytes(value).map_err(|_| ErrorCode::XMethodIncorrectValue.into())
        }
        _ => Err(ErrorCode::XMethodIncorrectValue.into()),
    }
}

/// The operation that a method on a resource asks for. `comp` is the query parameter of that name.
pub(crate) fn route<'a>(
    method: &Method,
    resource: Resource<'a>,
    comp: Option<&str>,
) -> Result<Operation<'a>, ServiceError> {
    let verb = Verb::of(method).ok_or(ErrorCode::InvalidHttpVerb)?;
    if let Some(comp) = comp {
        return route_comp(method, resource, comp);
    }
    let entity = |table, partition, row| EntityAddress { table, partition, row };
    match (verb, resource) {
        (Verb::Get, Resource::Tables) => Ok(Operation::QueryTables),
        (Verb::Post, Resource::Tables) => Ok(Operation::CreateTable),
        (Verb::Get, Resource::Table(name)) => Ok(Operation::GetTable(name)),
        (Verb::Delete, Resource::Table(name)) => Ok(Operation::DeleteTable(name)),
        (Verb::Get, Resource::Entities(table)) => Ok(Operation::QueryEntities(table)),
        (Verb::Post, Resource::Entities(table)) => Ok(Operation::InsertEntity(table)),
        (Verb::Get, Resource::Entity { table, partition, row }) => {
            Ok(Operation::GetEntity(entity(table, partition, row)))
        }
        (Verb::Put, Resource::Entity { table, partition, row }) => {
            Ok(Operation::UpdateEntity(entity(table, partition, row)))
        }
        (Verb::Merge, Resource::Entity { table, partition, row }) => {
            Ok(Operation::MergeEntity(entity(table, partition, row)))
        }
        (Verb::Delete, Resource::Entity { table, partition, row }) => {
            Ok(Operation::DeleteEntity(entity(table, partition, row)))
        }
        (Verb::Post, Resource::Batch) => Ok(Operation::Batch),
        (_, Resource::Service | Resource::Metadata) => Err(ErrorCode::NotImplemented.into()),
        _ => Err(ErrorCode::MethodNotAllowed.into()),
    }
}

/// The operation that a method on the account itself asks for, by the query parameters of these names (10).
///
/// UNVERIFIED (10): the code where one of the two parameters is missing.
pub(crate) fn route_service(
    method: &Method,
    restype: Option<&str>,
    comp: Option<&str>,
) -> Result<Operation<'static>, ServiceError> {
    let verb = Verb::of(method).ok_or(ErrorCode::InvalidHttpVerb)?;
    let code = match (restype, comp, verb) {
        (Some("service"), Some("properties"), Verb::Get) => return Ok(Operation::GetServiceProperties),
        (Some("service"), Some("properties"), Verb::Put) => return Ok(Operation::SetServiceProperties),
        (Some("service"), Some("stats"), Verb::Get) => return Ok(Operation::GetServiceStats),
        (Some("service"), Some("properties" | "stats"), _) => ErrorCode::UnsupportedHttpVerb,
        // The OData service document.
        (None, None, _) => ErrorCode::NotImplemented,
        (Some("service"), None, _) | (None, Some("properties" | "stats"), _) => {
            ErrorCode::MissingRequiredQueryParameter
        }
        _ => ErrorCode::InvalidQueryParameterValue,
    };
    Err(code.into())
}

/// The operations on tables that `comp` names.
fn route_comp<'a>(method: &Method, resource: Resource<'a>, comp: &str) -> Result<Operation<'a>, ServiceError> {
    match (comp, resource) {
        ("acl", Resource::Entities(table)) => match *method {
            Method::GET | Method::HEAD => Ok(Operation::GetTableAcl(table)),
            Method::PUT => Ok(Operation::SetTableAcl(table)),
            _ => Err(ErrorCode::UnsupportedHttpVerb.into()),
        },
        _ => Err(ErrorCode::InvalidQueryParameterValue.into()),
    }
}

enum Verb {
    Get,
    Post,
    Put,
    Merge,
    Delete,
    Other,
}

impl Verb {
    fn of(method: &Method) -> Option<Self> {
        Some(match method.as_str() {
            "GET" => Self::Get,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "MERGE" | "PATCH" => Self::Merge,
            "DELETE" => Self::Delete,
            "HEAD" => Self::Other,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method(name: &str) -> Method {
        Method::from_bytes(name.as_bytes()).unwrap()
    }

    #[test]
    fn overrides() {
        let effective = |name, values: &[&'static [u8]]| {
            effective_method(&method(name), values.iter().copied()).map(|m| m.to_string()).map_err(|e| e.code)
        };
        assert_eq!(effective("GET", &[]), Ok("GET".into()));
        assert_eq!(effective("POST", &[b"MERGE"]), Ok("MERGE".into()));
        assert_eq!(effective("PUT", &[b"MERGE"]), Err(ErrorCode::XMethodNotUsingPost));
        assert_eq!(effective("POST", &[b"GET"]), Err(ErrorCode::XMethodIncorrectValue));
        assert_eq!(effective("POST", &[b"MERGE", b"MERGE"]), Err(ErrorCode::XMethodIncorrectCount));
    }

    #[test]
    fn methods_on_resources() {
        let name = |verb: &str, resource: Resource<'static>| {
            route(&method(verb), resource, None).map(|operation| operation.name()).map_err(|error| error.code)
        };
        let entity = || Resource::Entity { table: "t".into(), partition: "".into(), row: "".into() };
        for (verb, resource, expected) in [
            ("GET", Resource::Tables, Ok("QueryTables")),
            ("POST", Resource::Tables, Ok("CreateTable")),
            ("PUT", Resource::Tables, Err(ErrorCode::MethodNotAllowed)),
            ("GET", Resource::Table("t".into()), Ok("QueryTable")),
            ("DELETE", Resource::Table("t".into()), Ok("DeleteTable")),
            ("POST", Resource::Table("t".into()), Err(ErrorCode::MethodNotAllowed)),
            ("GET", Resource::Entities("t".into()), Ok("QueryEntities")),
            ("POST", Resource::Entities("t".into()), Ok("InsertEntity")),
            ("DELETE", Resource::Entities("t".into()), Err(ErrorCode::MethodNotAllowed)),
            ("GET", entity(), Ok("QueryEntity")),
            ("PUT", entity(), Ok("UpdateEntity")),
            ("MERGE", entity(), Ok("MergeEntity")),
            ("PATCH", entity(), Ok("MergeEntity")),
            ("DELETE", entity(), Ok("DeleteEntity")),
            ("POST", entity(), Err(ErrorCode::MethodNotAllowed)),
            ("POST", Resource::Batch, Ok("EntityGroupTransaction")),
            ("GET", Resource::Batch, Err(ErrorCode::MethodNotAllowed)),
            ("BREW", entity(), Err(ErrorCode::InvalidHttpVerb)),
        ] {
            assert_eq!(name(verb, resource.clone()), expected, "{verb} {resource:?}");
        }
        let service = |verb, restype, comp| {
            route_service(&method(verb), restype, comp).map(|operation| operation.name()).map_err(|error| error.code)
        };
        for (verb, restype, comp, expected) in [
            ("GET", Some("service"), Some("properties"), Ok("GetTableServiceProperties")),
            ("PUT", Some("service"), Some("properties"), Ok("SetTableServiceProperties")),
            ("GET", Some("service"), Some("stats"), Ok("GetTableServiceStats")),
            ("POST", Some("service"), Some("properties"), Err(ErrorCode::UnsupportedHttpVerb)),
            ("HEAD", Some("service"), Some("stats"), Err(ErrorCode::UnsupportedHttpVerb)),
            ("PUT", Some("service"), Some("stats"), Err(ErrorCode::UnsupportedHttpVerb)),
            ("GET", Some("service"), Some("acl"), Err(ErrorCode::InvalidQueryParameterValue)),
            ("GET", Some("account"), Some("properties"), Err(ErrorCode::InvalidQueryParameterValue)),
            ("GET", None, Some("properties"), Err(ErrorCode::MissingRequiredQueryParameter)),
            ("GET", Some("service"), None, Err(ErrorCode::MissingRequiredQueryParameter)),
            ("GET", None, None, Err(ErrorCode::NotImplemented)),
            ("BREW", Some("service"), Some("stats"), Err(ErrorCode::InvalidHttpVerb)),
        ] {
            assert_eq!(service(verb, restype, comp), expected, "{verb} {restype:?} {comp:?}");
        }
        let comp = |verb, comp| {
            route(&method(verb), Resource::Entities("t".into()), Some(comp)).map(|o| o.name()).map_err(|e| e.code)
        };
        assert_eq!(comp("GET", "nonsense"), Err(ErrorCode::InvalidQueryParameterValue));
        assert_eq!(comp("GET", "acl"), Ok("GetTableACL"));
        assert_eq!(comp("HEAD", "acl"), Ok("GetTableACL"));
        assert_eq!(comp("PUT", "acl"), Ok("SetTableACL"));
        assert_eq!(comp("POST", "acl"), Err(ErrorCode::UnsupportedHttpVerb));
    }
}
