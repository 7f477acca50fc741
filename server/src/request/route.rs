//! Routing: determines which operation a method on a resource requests (specification 02 §1), as a row of the table in
//! `operation.rs`.

use super::operation::{Address, OperationKind};
use super::virtual_table::Offered;
use http::Method;
use wire::reason::{Reason, ReasonKind};
use wire::target::Resource;
use wire::{ErrorCode, ServiceError};

/// Returns the effective method: the method on the wire, or the method that `X-HTTP-Method` names in a POST (02 §2).
pub(crate) fn effective_method<'h>(
    method: &Method,
    overrides: impl Iterator<Item = &'h [u8]>,
) -> Result<Method, ServiceError> {
    let mut overrides = overrides.peekable();
    let Some(value) = overrides.next() else { return Ok(method.clone()) };
    let refused = |code, detail| because(code, ReasonKind::TunnelledMethod.because(detail));
    if overrides.peek().is_some() {
        return Err(refused(ErrorCode::XMethodIncorrectCount, "X-HTTP-Method is given more than once."));
    }
    if method != Method::POST {
        return Err(refused(ErrorCode::XMethodNotUsingPost, "X-HTTP-Method is given in a request other than POST."));
    }
    let tunnelled = [Method::PUT, Method::DELETE, Method::PATCH];
    match tunnelled.into_iter().find(|known| known.as_str().as_bytes() == value) {
        Some(method) => Ok(method),
        None if value == b"MERGE" => Method::from_bytes(value).map_err(|_| ErrorCode::XMethodIncorrectValue.into()),
        None => Err(refused(ErrorCode::XMethodIncorrectValue, "X-HTTP-Method is not MERGE, PUT, PATCH or DELETE.")),
    }
}

/// `restype` and `comp` are the query options with these names. `offered` determines what the server offers that the
/// cloud service does not have.
pub(crate) fn route(
    method: &Method,
    resource: &Resource<'_>,
    (restype, comp): (Option<&str>, Option<&str>),
    has_if_match: bool,
    offered: Offered,
) -> Result<OperationKind, ServiceError> {
    if !METHODS.contains(&method.as_str()) {
        return Err(because(
            ErrorCode::InvalidHttpVerb,
            ReasonKind::MethodUnknown.because("").quoting(method.as_str()),
        ));
    }
    let address = match address(resource, restype, comp, offered)? {
        Address::Entities if matches!(resource, Resource::Partition { .. }) && method != Method::GET => Address::Entity,
        address => address,
    };
    // Extensions have no operations on URLs below a table.
    let is_extensible =
        !matches!(resource, Resource::Nested(_) | Resource::NestedEntity(_) | Resource::WrongKeyCount(_));
    let extensions = offered.extensions && is_extensible;
    OperationKind::find(method, address, has_if_match, extensions).ok_or_else(|| {
        let is_xml = OperationKind::find_all(address).any(|kind| kind.info().is_xml());
        let code = if is_xml { ErrorCode::UnsupportedHttpVerb } else { ErrorCode::MethodNotAllowed };
        let extension = OperationKind::find(method, address, has_if_match, is_extensible);
        match extension.filter(|_| code == ErrorCode::MethodNotAllowed) {
            Some(OperationKind::DeleteEntities) => because(
                code,
                ReasonKind::ExtensionsOff.because(
                    "Deleting the entities of a table is an extension. A table is deleted with DELETE /Tables('name').",
                ),
            ),
            Some(_) => because(code, ReasonKind::ExtensionsOff.because("")),
            None => {
                let kinds = OperationKind::find_all(address).filter(|kind| extensions || !kind.is_extension());
                let mut methods: Vec<_> = kinds.filter_map(|kind| Some(kind.info().route?.methods)).flatten().collect();
                methods.sort_unstable();
                methods.dedup();
                let methods = methods.into_iter().copied().collect::<Vec<_>>().join(", ");
                let detail = format!("The resource in the URL does not have the method {method}; it has {methods}.");
                because(code, ReasonKind::MethodNotAllowed.because(detail))
            }
        }
    })
}

fn because(code: ErrorCode, reason: Reason) -> ServiceError {
    ServiceError::from(code).because(reason)
}

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "MERGE", "PATCH", "DELETE"];

/// Returns the form of a URL, or an error if there is no such URL.
///
/// UNVERIFIED (10 §1): the error code if one of the two query options of an operation on the service is missing.
fn address(
    resource: &Resource<'_>,
    restype: Option<&str>,
    comp: Option<&str>,
    offered: Offered,
) -> Result<Address, ServiceError> {
    let incomplete =
        |detail| because(ErrorCode::MissingRequiredQueryParameter, ReasonKind::CompIncomplete.because(detail));
    let unknown = |comp: &str| {
        let (kind, detail) = match comp {
            "retention" | "indexes" if !offered.extensions => (ReasonKind::ExtensionsOff, ""),
            "balance" => (ReasonKind::ExtensionsOff, "Only a server of a cluster with --extensions has comp=balance."),
            _ => (ReasonKind::CompUnknown, ""),
        };
        because(ErrorCode::InvalidQueryParameterValue, kind.because(detail).quoting(comp))
    };
    let document = || because(ErrorCode::NotImplemented, ReasonKind::DocumentMissing.because(""));
    match (resource, restype, comp) {
        (Resource::Service, Some("service"), Some(comp)) => service_address(comp, offered).ok_or_else(|| unknown(comp)),
        // The OData service document.
        (Resource::Service, None, None) => Err(document()),
        (Resource::Service, Some("service"), None) => Err(incomplete("The query option comp is missing.")),
        (Resource::Service, None, Some(comp)) if service_address(comp, offered).is_some() => {
            Err(incomplete("The query option restype=service is missing."))
        }
        (Resource::Entities(_), _, Some("acl")) => Ok(Address::TablePolicies),
        (Resource::Entities(_), _, Some("retention")) if offered.extensions => Ok(Address::TableRetention),
        (Resource::Entities(_), _, Some("indexes")) if offered.extensions => Ok(Address::TableIndexes),
        (Resource::Service, restype, None) => {
            let reason = ReasonKind::CompUnknown.because("The query option restype must be 'service'.");
            let reason = reason.quoting(restype.unwrap_or_default());
            Err(because(ErrorCode::InvalidQueryParameterValue, reason))
        }
        (_, _, Some(comp)) => Err(unknown(comp)),
        (Resource::Metadata, ..) => Err(document()),
        (Resource::Tables, ..) => Ok(Address::Tables),
        (Resource::Table(_), ..) => Ok(Address::Table),
        (Resource::Entities(_) | Resource::Partition { .. }, ..) => Ok(Address::Entities),
        (Resource::EntityCount(_), ..) => Ok(Address::EntityCount),
        (Resource::Entity { .. }, ..) => Ok(Address::Entity),
        (Resource::Nested(_), ..) => Ok(Address::Entities),
        (Resource::NestedEntity(_) | Resource::WrongKeyCount(_), ..) => Ok(Address::Entity),
        (Resource::Batch, ..) => Ok(Address::Batch),
    }
}

/// Returns the form of a URL of the service itself, given the option `comp`.
fn service_address(comp: &str, offered: Offered) -> Option<Address> {
    match comp {
        "properties" => Some(Address::ServiceProperties),
        "stats" => Some(Address::ServiceStats),
        "userdelegationkey" => Some(Address::UserDelegationKey),
        "balance" if offered.load => Some(Address::ClusterLoad),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENDED: Offered = Offered { extensions: true, changes: false, load: false };

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
        let name = |verb: &str, resource: Resource<'static>, has_if_match| {
            route(&method(verb), &resource, (None, None), has_if_match, Offered::default())
                .map(OperationKind::name)
                .map_err(|error| error.code)
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
            ("PUT", entity(), Ok("InsertOrReplaceEntity")),
            ("MERGE", entity(), Ok("InsertOrMergeEntity")),
            ("PATCH", entity(), Ok("InsertOrMergeEntity")),
            ("DELETE", entity(), Ok("DeleteEntity")),
            ("POST", entity(), Err(ErrorCode::MethodNotAllowed)),
            ("HEAD", entity(), Err(ErrorCode::MethodNotAllowed)),
            ("POST", Resource::Batch, Ok("EntityGroupTransaction")),
            ("GET", Resource::Batch, Err(ErrorCode::MethodNotAllowed)),
            ("GET", Resource::Metadata, Err(ErrorCode::NotImplemented)),
            ("BREW", entity(), Err(ErrorCode::InvalidHttpVerb)),
        ] {
            assert_eq!(name(verb, resource.clone(), false), expected, "{verb} {resource:?}");
        }
        for (verb, expected) in [("PUT", "UpdateEntity"), ("MERGE", "MergeEntity"), ("PATCH", "MergeEntity")] {
            assert_eq!(name(verb, entity(), true), Ok(expected), "{verb}");
        }
        assert_eq!(name("DELETE", entity(), true), Ok("DeleteEntity"));
        let partition = || Resource::Partition { table: "t".into(), partition: "p".into() };
        assert_eq!(name("GET", partition(), false), Ok("QueryEntities"));
        assert_eq!(name("DELETE", partition(), false), Ok("DeleteEntity"));
        assert_eq!(name("POST", partition(), false), Err(ErrorCode::MethodNotAllowed));
        let nested = || Resource::Nested("t".into());
        assert_eq!(name("POST", nested(), false), Ok("InsertEntity"));
        assert_eq!(name("GET", nested(), false), Ok("QueryEntities"));
        assert_eq!(name("DELETE", nested(), false), Err(ErrorCode::MethodNotAllowed));
        let nested_entity = || Resource::NestedEntity("t".into());
        assert_eq!(name("GET", nested_entity(), false), Ok("QueryEntity"));
        assert_eq!(name("POST", nested_entity(), false), Err(ErrorCode::MethodNotAllowed));
        let wrong_count = || Resource::WrongKeyCount("t".into());
        assert_eq!(name("DELETE", wrong_count(), false), Ok("DeleteEntity"));
        assert_eq!(name("GET", wrong_count(), false), Ok("QueryEntity"));
        let on_service = |verb, restype, comp, offered| {
            let kind = route(&method(verb), &Resource::Service, (restype, comp), false, offered);
            kind.map(OperationKind::name).map_err(|error| error.code)
        };
        let service = |verb, restype, comp| on_service(verb, restype, comp, Offered::default());
        for (verb, restype, comp, expected) in [
            ("GET", Some("service"), Some("properties"), Ok("GetTableServiceProperties")),
            ("PUT", Some("service"), Some("properties"), Ok("SetTableServiceProperties")),
            ("GET", Some("service"), Some("stats"), Ok("GetTableServiceStats")),
            ("POST", Some("service"), Some("properties"), Err(ErrorCode::UnsupportedHttpVerb)),
            ("HEAD", Some("service"), Some("stats"), Err(ErrorCode::UnsupportedHttpVerb)),
            ("PUT", Some("service"), Some("stats"), Err(ErrorCode::UnsupportedHttpVerb)),
            ("POST", Some("service"), Some("userdelegationkey"), Ok("GetUserDelegationKey")),
            ("GET", Some("service"), Some("userdelegationkey"), Err(ErrorCode::UnsupportedHttpVerb)),
            ("POST", None, Some("userdelegationkey"), Err(ErrorCode::MissingRequiredQueryParameter)),
            ("GET", Some("service"), Some("acl"), Err(ErrorCode::InvalidQueryParameterValue)),
            ("GET", Some("account"), Some("properties"), Err(ErrorCode::InvalidQueryParameterValue)),
            ("GET", None, Some("properties"), Err(ErrorCode::MissingRequiredQueryParameter)),
            ("GET", Some("service"), None, Err(ErrorCode::MissingRequiredQueryParameter)),
            ("GET", None, None, Err(ErrorCode::NotImplemented)),
            ("BREW", Some("service"), Some("stats"), Err(ErrorCode::InvalidHttpVerb)),
        ] {
            assert_eq!(service(verb, restype, comp), expected, "{verb} {restype:?} {comp:?}");
        }
        let balance = |verb, offered| on_service(verb, Some("service"), Some("balance"), offered);
        let with_load = Offered { load: true, ..EXTENDED };
        assert_eq!(balance("GET", with_load), Ok("GetClusterLoad"));
        assert_eq!(balance("PUT", with_load), Err(ErrorCode::MethodNotAllowed));
        assert_eq!(balance("GET", EXTENDED), Err(ErrorCode::InvalidQueryParameterValue));
        let extended = |verb, resource| {
            route(&method(verb), &resource, (None, None), false, EXTENDED)
                .map(OperationKind::name)
                .map_err(|error| error.code)
        };
        let count = || Resource::EntityCount("t".into());
        assert_eq!(extended("GET", count()), Ok("CountEntities"));
        assert_eq!(extended("DELETE", Resource::Entities("t".into())), Ok("DeleteEntities"));
        assert_eq!(extended("DELETE", count()), Err(ErrorCode::MethodNotAllowed));
        assert_eq!(extended("DELETE", partition()), Ok("DeleteEntity"));
        assert_eq!(extended("DELETE", nested()), Err(ErrorCode::MethodNotAllowed));
        assert_eq!(extended("DELETE", entity()), Ok("DeleteEntity"));
        let comp = |verb, comp, extensions| {
            let offered = Offered { extensions, ..Offered::default() };
            let kind = route(&method(verb), &Resource::Entities("t".into()), (None, Some(comp)), false, offered);
            kind.map(OperationKind::name).map_err(|error| error.code)
        };
        for (verb, option, extensions, expected) in [
            ("GET", "nonsense", true, Err(ErrorCode::InvalidQueryParameterValue)),
            ("GET", "acl", false, Ok("GetTableACL")),
            ("HEAD", "acl", false, Ok("GetTableACL")),
            ("PUT", "acl", false, Ok("SetTableACL")),
            ("POST", "acl", false, Err(ErrorCode::UnsupportedHttpVerb)),
            ("GET", "indexes", true, Ok("GetTableIndexes")),
            ("PUT", "indexes", true, Ok("SetTableIndexes")),
            ("POST", "indexes", true, Err(ErrorCode::UnsupportedHttpVerb)),
            ("GET", "retention", true, Ok("GetTableRetention")),
            ("PUT", "retention", true, Ok("SetTableRetention")),
            ("DELETE", "retention", true, Err(ErrorCode::UnsupportedHttpVerb)),
            ("GET", "retention", false, Err(ErrorCode::InvalidQueryParameterValue)),
            ("GET", "nonsense", false, Err(ErrorCode::InvalidQueryParameterValue)),
            ("GET", "indexes", false, Err(ErrorCode::InvalidQueryParameterValue)),
        ] {
            assert_eq!(comp(verb, option, extensions), expected, "{verb} {option}");
        }
    }
}
