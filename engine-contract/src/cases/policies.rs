use crate::support::*;
use engine::{CatalogError, Engine, ReadError};
use model::{DateTime, Permissions, StoredAccessPolicies, StoredAccessPolicy};
use std::sync::Arc;

/// Returns policies with the given IDs. All fields of the first one are set.
pub fn policies(ids: &[&str]) -> StoredAccessPolicies {
    let mut policies: Vec<_> = ids.iter().map(|id| StoredAccessPolicy::new(id).unwrap()).collect();
    if let Some(first) = policies.first_mut() {
        first.start = Some(DateTime::MIN);
        first.expiry = Some(DateTime::MAX);
        first.permissions = Some(Permissions::ENTITIES);
    }
    StoredAccessPolicies::new(policies).unwrap()
}

pub async fn policies_are_replaced_as_a_whole_and_seen_at_once(engine: Arc<dyn Engine>, _: ManualClock) {
    engine.create_table(&table("Guarded")).await.unwrap();
    engine.create_table(&table("Other")).await.unwrap();
    assert!(engine.policies(&table("Guarded")).await.unwrap().is_empty());
    for ids in [&["b", "a"][..], &["c"], &["1", "2", "3", "4", "5"], &[]] {
        engine.set_policies(&table("GUARDED"), policies(ids)).await.unwrap();
        assert_eq!(
            engine.policies(&table("guarded")).await.unwrap(),
            policies(ids),
            "order and contents are preserved"
        );
        assert_eq!(engine.policies_in_effect(&table("guarded")).await.unwrap(), policies(ids));
    }
    assert!(engine.policies(&table("Other")).await.unwrap().is_empty());
    assert_eq!(
        engine.table(&table("guarded")).await.unwrap().unwrap().as_str(),
        "Guarded",
        "the spelling is preserved"
    );
}

pub async fn policies_leave_the_entities_alone(engine: Arc<dyn Engine>, _: ManualClock) {
    engine.create_table(&table("Guarded")).await.unwrap();
    commit_one(&*engine, &table("Guarded"), insert("p", "r", 1)).await.unwrap();
    engine.set_policies(&table("Guarded"), policies(&["a"])).await.unwrap();
    assert_eq!(names(&all(&*engine, &table("Guarded")).await), ["p/r"]);
}

pub async fn policies_go_with_their_table(engine: Arc<dyn Engine>, _: ManualClock) {
    engine.create_table(&table("Guarded")).await.unwrap();
    engine.set_policies(&table("Guarded"), policies(&["a"])).await.unwrap();
    engine.delete_table(&table("Guarded")).await.unwrap();
    assert!(matches!(engine.policies(&table("Guarded")).await, Err(ReadError::TableNotFound)));
    let refused = engine.set_policies(&table("Guarded"), policies(&["a"])).await;
    assert!(matches!(refused, Err(CatalogError::NotFound)));
    engine.create_table(&table("Guarded")).await.unwrap();
    assert!(engine.policies(&table("Guarded")).await.unwrap().is_empty());
}
