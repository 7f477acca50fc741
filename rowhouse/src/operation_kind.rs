//! Which operation a request turned out to be, as a name and a number, for logs, metrics and analytics.

/// An operation without its parameters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum OperationKind {
    /// The request was refused before it was known what it asks for.
    #[default]
    Unknown,
    PreflightRequest,
    QueryTables,
    CreateTable,
    QueryTable,
    DeleteTable,
    GetTableAcl,
    SetTableAcl,
    QueryEntities,
    InsertEntity,
    QueryEntity,
    UpdateEntity,
    MergeEntity,
    DeleteEntity,
    EntityGroupTransaction,
    GetServiceProperties,
    SetServiceProperties,
    GetServiceStats,
    /// An update without a condition.
    InsertOrReplaceEntity,
    /// A merge without a condition.
    InsertOrMergeEntity,
}

impl OperationKind {
    /// Every kind, each at the place that [`Self::index`] names.
    pub(crate) const ALL: [Self; 20] = [
        Self::Unknown,
        Self::PreflightRequest,
        Self::QueryTables,
        Self::CreateTable,
        Self::QueryTable,
        Self::DeleteTable,
        Self::GetTableAcl,
        Self::SetTableAcl,
        Self::QueryEntities,
        Self::InsertEntity,
        Self::QueryEntity,
        Self::UpdateEntity,
        Self::MergeEntity,
        Self::DeleteEntity,
        Self::EntityGroupTransaction,
        Self::GetServiceProperties,
        Self::SetServiceProperties,
        Self::GetServiceStats,
        Self::InsertOrReplaceEntity,
        Self::InsertOrMergeEntity,
    ];

    /// The kind of an operation that has no condition: an update or a merge then creates what is missing.
    pub(crate) fn without_condition(self) -> Self {
        match self {
            Self::UpdateEntity => Self::InsertOrReplaceEntity,
            Self::MergeEntity => Self::InsertOrMergeEntity,
            other => other,
        }
    }

    /// The place of the kind among all.
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// The name in logs and metrics, as the service names its operations (10 §8).
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unknown => "Unknown",
            Self::PreflightRequest => "TablePreflightRequest",
            Self::QueryTables => "QueryTables",
            Self::CreateTable => "CreateTable",
            Self::QueryTable => "QueryTable",
            Self::DeleteTable => "DeleteTable",
            Self::GetTableAcl => "GetTableACL",
            Self::SetTableAcl => "SetTableACL",
            Self::QueryEntities => "QueryEntities",
            Self::InsertEntity => "InsertEntity",
            Self::QueryEntity => "QueryEntity",
            Self::UpdateEntity => "UpdateEntity",
            Self::MergeEntity => "MergeEntity",
            Self::DeleteEntity => "DeleteEntity",
            Self::EntityGroupTransaction => "EntityGroupTransaction",
            Self::GetServiceProperties => "GetTableServiceProperties",
            Self::SetServiceProperties => "SetTableServiceProperties",
            Self::GetServiceStats => "GetTableServiceStats",
            Self::InsertOrReplaceEntity => "InsertOrReplaceEntity",
            Self::InsertOrMergeEntity => "InsertOrMergeEntity",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_stands_at_its_place_and_has_a_name_of_its_own() {
        for (place, kind) in OperationKind::ALL.iter().enumerate() {
            assert_eq!(kind.index(), place);
            assert_eq!(OperationKind::ALL.iter().filter(|other| other.name() == kind.name()).count(), 1);
        }
    }
}
