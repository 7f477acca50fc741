//! The table of operations. Routing, authorization, throttling, metrics, analytics and `docs/operations.md` are
//! derived from it.
//!
//! An operation consists of one row here, one function in `operations/`, and its tests. Dispatch (`operations/mod.rs`)
//! is generated from the same rows, so every operation that can be routed has a function that runs it.

use http::Method;
use model::grant::EntityAccess;
use model::{Action, Dialect};
use wire::negotiation::{DataServiceVersion, Preference};

/// The form of an operation's URL, including query options (specification 02 §1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Address {
    /// `/Tables`
    Tables,
    /// `/Tables('name')`
    Table,
    /// `/name` and `/name()`
    Entities,
    /// `/name/$count` and `/name()/$count`
    EntityCount,
    /// `/name?comp=acl`
    TablePolicies,
    /// `/name?comp=retention`
    TableRetention,
    /// `/name?comp=indexes`
    TableIndexes,
    /// `/name(PartitionKey='…',RowKey='…')`
    Entity,
    /// `/$batch`
    Batch,
    /// `/?restype=service&comp=properties`
    ServiceProperties,
    /// `/?restype=service&comp=stats`
    ServiceStats,
    /// `/?restype=service&comp=userdelegationkey`
    UserDelegationKey,
    /// `/?restype=service&comp=balance`
    ClusterLoad,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PayloadKind {
    /// No body, or one that is not read.
    Nothing,
    /// Entities or tables, in JSON or Atom.
    Negotiated,
    /// An entity, in JSON or Atom, if the client prefers content; otherwise nothing.
    Preferred,
    /// Service XML, whatever the client accepts (specification 10).
    Xml,
    /// Plain text, whatever the client accepts.
    Text,
    /// JSON, whatever the client accepts.
    Json,
    /// The parts of a batch, each in its own format.
    Parts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMatch {
    /// The operation is the same with and without the header.
    Any,
    Present,
    Absent,
}

/// How a request counts against the targets of `--throttle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThrottleUnit {
    Request,
    Entity,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    pub(crate) methods: &'static [&'static str],
    pub(crate) address: Address,
    pub(crate) if_match: IfMatch,
}

#[derive(Debug)]
pub(crate) struct OperationInfo {
    /// The name in logs, metrics and analytics. The service uses the same names for its operations (10 §8).
    pub(crate) name: &'static str,
    /// `None` for requests that were rejected before routing, for preflight requests and for the explorer.
    pub(crate) route: Option<Route>,
    /// What a credential must allow, given the table in the URL; `None` if each part of the body is checked
    /// separately.
    pub(crate) action: for<'t> fn(&'t str) -> Option<Action<'t>>,
    /// Whether the operation changes something, so that the secondary endpoint rejects it.
    pub(crate) is_write: bool,
    pub(crate) request: PayloadKind,
    pub(crate) response: PayloadKind,
    /// Whether the response honors `Prefer` and states that it did (02 §2).
    pub(crate) has_preference: bool,
    pub(crate) throttle_unit: ThrottleUnit,
}

/// A row contains the kind and its name, the function in `operations/` that runs it, methods and URL, what a credential
/// must allow, whether it writes, the bodies of request and response, whether it honors `Prefer`, and its throttling
/// unit.
macro_rules! operation_table {
    ($callback:ident) => {
        $callback! {
            QueryTables "QueryTables" table_list::query {
                route: ["GET"] Tables Any, action: |_| Some(Action::QueryTables), is_write: false,
                request: Nothing, response: Negotiated, has_preference: false, unit: Request,
            }
            CreateTable "CreateTable" table_list::create {
                route: ["POST"] Tables Any, action: |_| Some(Action::CreateTable), is_write: true,
                request: Negotiated, response: Negotiated, has_preference: true, unit: Request,
            }
            QueryTable "QueryTable" table_list::get {
                route: ["GET"] Table Any, action: |_| Some(Action::QueryTables), is_write: false,
                request: Nothing, response: Negotiated, has_preference: false, unit: Request,
            }
            DeleteTable "DeleteTable" table_list::delete {
                route: ["DELETE"] Table Any, action: |table| Some(Action::DeleteTable { table }), is_write: true,
                request: Nothing, response: Nothing, has_preference: false, unit: Request,
            }
            GetTableAcl "GetTableACL" table_settings::get_acl {
                route: ["GET", "HEAD"] TablePolicies Any, action: |table| Some(Action::GetPolicies { table }), is_write: false,
                request: Nothing, response: Xml, has_preference: false, unit: Request,
            }
            SetTableAcl "SetTableACL" table_settings::set_acl {
                route: ["PUT"] TablePolicies Any, action: |table| Some(Action::SetPolicies { table }), is_write: true,
                request: Xml, response: Nothing, has_preference: false, unit: Request,
            }
            GetTableRetention "GetTableRetention" table_settings::get_retention {
                route: ["GET", "HEAD"] TableRetention Any, action: |table| Some(Action::GetPolicies { table }), is_write: false,
                request: Nothing, response: Xml, has_preference: false, unit: Request,
            }
            SetTableRetention "SetTableRetention" table_settings::set_retention {
                route: ["PUT"] TableRetention Any, action: |table| Some(Action::SetPolicies { table }), is_write: true,
                request: Xml, response: Nothing, has_preference: false, unit: Request,
            }
            GetTableIndexes "GetTableIndexes" table_settings::get_indexes {
                route: ["GET", "HEAD"] TableIndexes Any, action: |table| Some(Action::GetPolicies { table }), is_write: false,
                request: Nothing, response: Xml, has_preference: false, unit: Request,
            }
            SetTableIndexes "SetTableIndexes" table_settings::set_indexes {
                route: ["PUT"] TableIndexes Any, action: |table| Some(Action::SetPolicies { table }), is_write: true,
                request: Xml, response: Nothing, has_preference: false, unit: Request,
            }
            QueryEntities "QueryEntities" query_entities::run {
                route: ["GET"] Entities Any, action: |table| Some(entities(table, EntityAccess::Read)), is_write: false,
                request: Nothing, response: Negotiated, has_preference: false, unit: Entity,
            }
            CountEntities "CountEntities" query_entities::count {
                route: ["GET"] EntityCount Any, action: |table| Some(entities(table, EntityAccess::Read)), is_write: false,
                request: Nothing, response: Text, has_preference: false, unit: Entity,
            }
            InsertEntity "InsertEntity" insert_entity::run {
                route: ["POST"] Entities Any, action: |table| Some(entities(table, EntityAccess::Insert)), is_write: true,
                request: Negotiated, response: Negotiated, has_preference: true, unit: Entity,
            }
            QueryEntity "QueryEntity" get_entity::run {
                route: ["GET"] Entity Any, action: |table| Some(entities(table, EntityAccess::Read)), is_write: false,
                request: Nothing, response: Negotiated, has_preference: false, unit: Entity,
            }
            UpdateEntity "UpdateEntity" update_entity::update {
                route: ["PUT"] Entity Present, action: |table| Some(entities(table, EntityAccess::Update)), is_write: true,
                request: Negotiated, response: Preferred, has_preference: true, unit: Entity,
            }
            MergeEntity "MergeEntity" update_entity::update {
                route: ["MERGE", "PATCH"] Entity Present, action: |table| Some(entities(table, EntityAccess::Update)), is_write: true,
                request: Negotiated, response: Preferred, has_preference: true, unit: Entity,
            }
            InsertOrReplaceEntity "InsertOrReplaceEntity" update_entity::update {
                route: ["PUT"] Entity Absent, action: |table| Some(entities(table, EntityAccess::Upsert)), is_write: true,
                request: Negotiated, response: Preferred, has_preference: true, unit: Entity,
            }
            InsertOrMergeEntity "InsertOrMergeEntity" update_entity::update {
                route: ["MERGE", "PATCH"] Entity Absent, action: |table| Some(entities(table, EntityAccess::Upsert)), is_write: true,
                request: Negotiated, response: Preferred, has_preference: true, unit: Entity,
            }
            DeleteEntity "DeleteEntity" update_entity::delete {
                route: ["DELETE"] Entity Any, action: |table| Some(entities(table, EntityAccess::Delete)), is_write: true,
                request: Nothing, response: Nothing, has_preference: false, unit: Entity,
            }
            DeleteEntities "DeleteEntities" delete_entities::run {
                route: ["DELETE"] Entities Any, action: |table| Some(entities(table, EntityAccess::Delete)), is_write: true,
                request: Nothing, response: Text, has_preference: false, unit: Entity,
            }
            // Whether a batch writes is known only after it has been read.
            EntityGroupTransaction "EntityGroupTransaction" batch::run {
                route: ["POST"] Batch Any, action: |_| None, is_write: false,
                request: Parts, response: Parts, has_preference: false, unit: Entity,
            }
            GetServiceProperties "GetTableServiceProperties" service::get_properties {
                route: ["GET"] ServiceProperties Any, action: |_| Some(Action::GetServiceProperties), is_write: false,
                request: Nothing, response: Xml, has_preference: false, unit: Request,
            }
            SetServiceProperties "SetTableServiceProperties" service::set_properties {
                route: ["PUT"] ServiceProperties Any, action: |_| Some(Action::SetServiceProperties), is_write: true,
                request: Xml, response: Nothing, has_preference: false, unit: Request,
            }
            GetServiceStats "GetTableServiceStats" service::get_stats {
                route: ["GET"] ServiceStats Any, action: |_| Some(Action::GetServiceStats), is_write: false,
                request: Nothing, response: Xml, has_preference: false, unit: Request,
            }
            GetUserDelegationKey "GetUserDelegationKey" service::get_user_delegation_key {
                route: ["POST"] UserDelegationKey Any, action: |_| Some(Action::GetUserDelegationKey), is_write: false,
                request: Xml, response: Xml, has_preference: false, unit: Request,
            }
            GetClusterLoad "GetClusterLoad" service::get_cluster_load {
                route: ["GET"] ClusterLoad Any, action: |_| Some(Action::GetClusterLoad), is_write: false,
                request: Nothing, response: Json, has_preference: false, unit: Request,
            }
        }
    };
}
pub(crate) use operation_table;

fn entities(table: &str, access: EntityAccess) -> Action<'_> {
    Action::Entities { table, access, key: None }
}

const fn without_route(name: &'static str) -> OperationInfo {
    OperationInfo {
        name,
        route: None,
        action: |_| None,
        is_write: false,
        request: PayloadKind::Nothing,
        response: PayloadKind::Nothing,
        has_preference: false,
        throttle_unit: ThrottleUnit::Request,
    }
}

macro_rules! define_operations {
    ($($kind:ident $name:literal $run:path {
        route: [$($method:literal),+] $address:ident $if_match:ident, action: $action:expr, is_write: $is_write:literal,
        request: $request:ident, response: $response:ident, has_preference: $has_preference:literal, unit: $unit:ident,
    })+) => {
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum OperationKind {
            #[default]
            Unknown,
            /// The request that a browser sends before a request to a different origin (CORS).
            PreflightRequest,
            /// A file of the explorer, which is not an operation of the service.
            Explorer,
            /// A request of a standby, which is not an operation of the service.
            Replication,
            $(#[doc = concat!("`", $name, "`")] $kind,)+
        }

        impl OperationKind {
            /// All kinds, in the order of [`Self::index`].
            pub(crate) const ALL: &'static [Self] = &[
                Self::Unknown,
                Self::PreflightRequest,
                Self::Explorer,
                Self::Replication,
                $(Self::$kind),+
            ];

            pub(crate) fn info(self) -> &'static OperationInfo {
                match self {
                    Self::Unknown => const { &without_route("Unknown") },
                    Self::PreflightRequest => const { &without_route("TablePreflightRequest") },
                    Self::Explorer => const { &without_route("Explorer") },
                    Self::Replication => const { &without_route("Replication") },
                    $(Self::$kind => const {
                        &OperationInfo {
                            name: $name,
                            route: Some(Route {
                                methods: &[$($method),+],
                                address: Address::$address,
                                if_match: IfMatch::$if_match,
                            }),
                            action: $action,
                            is_write: $is_write,
                            request: PayloadKind::$request,
                            response: PayloadKind::$response,
                            has_preference: $has_preference,
                            throttle_unit: ThrottleUnit::$unit,
                        }
                    },)+
                }
            }
        }
    };
}

operation_table!(define_operations);

impl OperationKind {
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    pub(crate) fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns false for requests that belong to no account, even if the host names one.
    pub(crate) fn has_account(self) -> bool {
        !matches!(self, Self::Explorer | Self::Replication)
    }

    /// Returns false for operations that the service of the dialect does not have (11 §5).
    ///
    /// UNVERIFIED (11 §10): user delegation keys.
    pub(crate) fn exists_in(self, dialect: Dialect) -> bool {
        dialect == Dialect::Storage
            || !matches!(
                self,
                Self::GetTableAcl
                    | Self::SetTableAcl
                    | Self::GetServiceProperties
                    | Self::SetServiceProperties
                    | Self::GetServiceStats
                    | Self::GetUserDelegationKey
            )
    }

    /// Returns the operations with a form of URL.
    pub(super) fn find_all(address: Address) -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(move |kind| kind.info().route.is_some_and(|route| route.address == address))
    }

    /// Returns the operation for a method and a URL, with or without `If-Match`.
    pub(super) fn find(method: &Method, address: Address, has_if_match: bool, extensions: bool) -> Option<Self> {
        Self::find_all(address).filter(|kind| extensions || !kind.is_extension()).find(|kind| {
            kind.info().route.is_some_and(|route| {
                route.methods.contains(&method.as_str())
                    && match route.if_match {
                        IfMatch::Any => true,
                        IfMatch::Present => has_if_match,
                        IfMatch::Absent => !has_if_match,
                    }
            })
        })
    }
}

impl OperationKind {
    /// Returns true if the operation concerns many entities or tables and may therefore take long.
    pub(crate) fn is_long_running(self) -> bool {
        matches!(
            self,
            Self::QueryTables
                | Self::QueryEntities
                | Self::CountEntities
                | Self::DeleteEntities
                | Self::EntityGroupTransaction
        )
    }

    /// Returns true if the cloud service does not have the operation.
    pub(super) fn is_extension(self) -> bool {
        matches!(
            self,
            Self::CountEntities
                | Self::DeleteEntities
                | Self::GetClusterLoad
                | Self::GetTableIndexes
                | Self::GetTableRetention
                | Self::SetTableIndexes
                | Self::SetTableRetention
        )
    }
}

impl OperationInfo {
    pub(crate) fn has_body(&self) -> bool {
        self.request != PayloadKind::Nothing
    }

    /// Returns the preference in a `Prefer` header, if the operation has one.
    pub(crate) fn preference(&self, version: DataServiceVersion, prefer: Option<&str>) -> Option<Preference> {
        Preference::parse(version, prefer.filter(|_| self.has_preference))
    }

    /// Returns true if bodies and errors are XML, whatever the client accepts (10).
    pub(crate) fn is_xml(&self) -> bool {
        self.request == PayloadKind::Xml || self.response == PayloadKind::Xml
    }

    /// Returns true if a successful response has a body, for which a format must be resolved. It is also resolved for
    /// an insert whose client prefers no content (recorded).
    pub(crate) fn responds_with_body(&self, preference: Option<Preference>) -> bool {
        match self.response {
            PayloadKind::Nothing => false,
            PayloadKind::Preferred => preference == Some(Preference::Content),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;
    use std::path::Path;

    #[test]
    fn every_kind_is_at_its_index_and_has_a_name_of_its_own() {
        for (index, kind) in OperationKind::ALL.iter().enumerate() {
            assert_eq!(kind.index(), index);
            assert_eq!(OperationKind::ALL.iter().filter(|other| other.name() == kind.name()).count(), 1);
        }
    }

    #[test]
    fn the_document_lists_the_operations_as_the_table_has_them() {
        let mut expected = String::new();
        for kind in OperationKind::ALL {
            let info = kind.info();
            let Some(route) = info.route else { continue };
            let condition = match route.if_match {
                IfMatch::Any => "",
                IfMatch::Present => " with `If-Match`",
                IfMatch::Absent => " without `If-Match`",
            };
            let address = match route.address {
                Address::Tables => "/Tables",
                Address::Table => "/Tables('TABLE')",
                Address::Entities => "/TABLE",
                Address::EntityCount => "/TABLE/$count",
                Address::TablePolicies => "/TABLE?comp=acl",
                Address::TableRetention => "/TABLE?comp=retention",
                Address::TableIndexes => "/TABLE?comp=indexes",
                Address::Entity => "/TABLE(PartitionKey='P',RowKey='R')",
                Address::Batch => "/$batch",
                Address::ServiceProperties => "/?restype=service&comp=properties",
                Address::ServiceStats => "/?restype=service&comp=stats",
                Address::UserDelegationKey => "/?restype=service&comp=userdelegationkey",
                Address::ClusterLoad => "/?restype=service&comp=balance",
            };
            let body = |payload| match payload {
                PayloadKind::Nothing => "none",
                PayloadKind::Negotiated => "JSON or Atom",
                PayloadKind::Preferred => "JSON or Atom, if preferred",
                PayloadKind::Xml => "XML",
                PayloadKind::Text => "text",
                PayloadKind::Json => "JSON",
                PayloadKind::Parts => "multipart",
            };
            let methods = route.methods.join(", ");
            let writes = match (info.is_write, info.request == PayloadKind::Parts) {
                (true, _) => "yes",
                (false, true) => "if a part does",
                (false, false) => "no",
            };
            let (request, response) = (body(info.request), body(info.response));
            writeln!(
                expected,
                "| `{}` | {methods}{condition} | `{address}` | {request} | {response} | {writes} |",
                info.name
            )
            .unwrap();
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations.md");
        let document = std::fs::read_to_string(path).unwrap();
        let rows: Vec<&str> = document.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(rows.join("\n"), expected.trim_end());
    }
}
