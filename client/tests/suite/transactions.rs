use crate::support::{Customer, customer, new_table};
use rowhouse_client::{ErrorKind, IfMatch, PropertyBag, Transaction};

#[tokio::test]
async fn any_mix_of_operations_is_one_transaction() {
    let (_account, table) = new_table().await;
    let old = (0..4).map(|id| customer("Turin", &id.to_string(), id));
    table.commit(old.fold(Transaction::new(), |all, entity| all.insert(&entity))).await.unwrap();
    let known = table.get::<Customer>("Turin", "0").await.unwrap();

    let bag = |id: &str| PropertyBag::new("Turin", id).unwrap().with("visits", 70).unwrap();
    let mixed = Transaction::new()
        .replace(&customer("Turin", "0", 50), &known)
        .merge(&bag("1"), IfMatch::Any)
        .delete("Turin", "2", IfMatch::Any)
        .insert_or_replace(&customer("Turin", "3", 60))
        .insert_or_merge(&customer("Turin", "4", 4))
        .insert(&customer("Turin", "it's 100%", 5));
    let written = table.commit(mixed).await.unwrap();
    assert_eq!(written.len(), 6);
    let all = table.query::<Customer>().collect().await.unwrap();
    let seen: Vec<(&str, i32)> = all.iter().map(|customer| (customer.id.as_str(), customer.visits)).collect();
    assert_eq!(seen, [("0", 50), ("1", 70), ("3", 60), ("4", 4), ("it's 100%", 5)]);
    assert_eq!(written[0].etag, all[0].etag);
    assert_eq!(written[0].timestamp, all[0].timestamp);
    assert_eq!(written[2].etag.as_str(), "", "a deleted entity has no ETag");
}

#[tokio::test]
async fn one_failure_undoes_everything_and_is_named() {
    let (_account, table) = new_table().await;
    table.insert(&customer("Turin", "50", 1)).await.unwrap();
    let stale = table.get::<Customer>("Turin", "50").await.unwrap();
    table.replace(&customer("Turin", "50", 2), IfMatch::Any).await.unwrap();

    let begin = || (0..50).fold(Transaction::new(), |all, id| all.insert(&customer("Turin", &format!("{id:02}"), id)));
    for (transaction, kind, code) in [
        (begin().insert(&customer("Turin", "50", 3)), ErrorKind::Conflict, "EntityAlreadyExists"),
        (
            begin().replace(&customer("Turin", "50", 3), &stale),
            ErrorKind::PreconditionFailed,
            "UpdateConditionNotSatisfied",
        ),
        (begin().delete("Turin", "99", IfMatch::Any), ErrorKind::NotFound, "ResourceNotFound"),
    ] {
        let error = table.commit(transaction).await.unwrap_err();
        assert_eq!((error.kind(), error.code(), error.operation_index()), (kind, Some(code), Some(50)), "{error}");
    }
    let all = table.query::<Customer>().collect().await.unwrap();
    assert_eq!(all.iter().map(|customer| customer.visits).collect::<Vec<_>>(), [2], "nothing else is written");
}
