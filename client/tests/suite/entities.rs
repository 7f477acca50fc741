use crate::support::{Customer, account, customer, new_name, new_table};
use rowhouse_client::{Error, ErrorKind, IfMatch, PropertyBag, Stored, Table, Transaction};
use std::sync::Arc;

#[tokio::test]
async fn an_entity_lives_and_changes() {
    let (_account, table) = new_table().await;
    let mut ada = customer("Turin", "7", 1);
    let written = table.insert(&ada).await.unwrap();
    let stored = table.get::<Customer>("Turin", "7").await.unwrap();
    assert_eq!(stored, Stored { entity: ada.clone(), etag: written.etag.clone(), timestamp: written.timestamp });
    assert!(stored.timestamp.is_some());

    ada.visits = 2;
    ada.mail = Some("ada@example.net".to_owned());
    let second = table.replace(&ada, &written).await.unwrap();
    assert!(second.timestamp > written.timestamp && second.etag != written.etag);
    let late = table.replace(&ada, &written).await.unwrap_err();
    assert_eq!((late.kind(), late.status()), (ErrorKind::PreconditionFailed, Some(412)));
    assert_eq!(late.code(), Some("UpdateConditionNotSatisfied"));
    assert!(late.request_id().is_some() && !late.message().unwrap().is_empty());

    ada.mail = None;
    ada.visits = 3;
    table.merge(&ada, &second).await.unwrap();
    let merged = table.get::<Customer>("Turin", "7").await.unwrap();
    assert_eq!((merged.visits, merged.mail.as_deref()), (3, Some("ada@example.net")), "None is not written");
    table.replace(&ada, IfMatch::Any).await.unwrap();
    assert_eq!(table.get::<Customer>("Turin", "7").await.unwrap().entity, ada);

    table.delete("Turin", "7", &merged.etag).await.unwrap_err();
    table.delete("Turin", "7", IfMatch::Any).await.unwrap();
    assert_eq!(table.find::<Customer>("Turin", "7").await.unwrap(), None);
    let missing = table.delete("Turin", "7", IfMatch::Any).await.unwrap_err();
    assert_eq!((missing.kind(), missing.code()), (ErrorKind::NotFound, Some("ResourceNotFound")));
}

#[tokio::test]
async fn the_five_ways_to_write_differ_in_what_must_exist() {
    let (_account, table) = new_table().await;
    let entity = customer("Turin", "1", 1);
    for missing in [table.replace(&entity, IfMatch::Any).await, table.merge(&entity, IfMatch::Any).await] {
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    }
    table.insert(&entity).await.unwrap();
    let exists = table.insert(&entity).await.unwrap_err();
    assert_eq!((exists.kind(), exists.code()), (ErrorKind::Conflict, Some("EntityAlreadyExists")));
    let other = PropertyBag::new("Turin", "1").unwrap().with("visits", 5).unwrap();
    table.insert_or_merge(&other).await.unwrap();
    assert_eq!(table.get::<Customer>("Turin", "1").await.unwrap().entity, Customer { visits: 5, ..entity.clone() });
    table.insert_or_replace(&other).await.unwrap();
    let replaced = table.get::<PropertyBag>("Turin", "1").await.unwrap();
    assert_eq!(replaced.properties, other.properties);
    let error = table.get::<Customer>("Turin", "1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Entity, "the name is missing: {error}");
    table.insert_or_merge(&customer("Turin", "2", 2)).await.unwrap();
    table.insert_or_replace(&customer("Turin", "3", 3)).await.unwrap();
    let echoed = table.insert_with_echo(&customer("Turin", "4", 4)).await.unwrap();
    assert_eq!(echoed.entity, customer("Turin", "4", 4));
    assert_eq!(echoed, table.get::<Customer>("Turin", "4").await.unwrap());
}

#[tokio::test]
async fn some_properties_of_an_entity() {
    let (_account, table) = new_table().await;
    table.insert(&customer("Turin", "7", 9)).await.unwrap();
    let stored = table.get_projected::<Customer, _>("Turin", "7", |c| (c.visits, c.mail, c.id)).await.unwrap();
    assert_eq!(stored.entity, (9, None, "7".to_owned()));
    assert!(stored.timestamp.is_some());
    let bag = table.get_properties::<PropertyBag>("Turin", "7", &["name"]).await.unwrap();
    assert_eq!(bag.properties.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["name"]);
    assert_eq!(bag.etag, stored.etag);
}

#[tokio::test]
async fn tables_and_entities_that_do_not_exist() {
    let account = account().await;
    let nowhere = account.service.table(&new_name());
    let error = nowhere.get::<Customer>("Turin", "7").await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::NotFound, Some("TableNotFound")));
    assert!(nowhere.find::<Customer>("Turin", "7").await.is_err(), "a missing table is an error");
    let error = nowhere.delete_table().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let error = nowhere.insert(&customer("a/b", "7", 1)).await.unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Entity, None), "nothing was sent: {error}");
    let error = account.service.table("not a name?").create().await.unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Invalid, Some(400)), "{error}");
}

#[tokio::test]
async fn keys_with_every_kind_of_character() {
    let (_account, table) = new_table().await;
    for key in ["", "it's", "100%", "a b+c&d", "(x='y',z)", "Zürich", "\u{1F600}", "`~!@$^*_-=[]{}|;:\",.<>"] {
        let entity = PropertyBag::new(key, key).unwrap().with("Text", key).unwrap();
        table.insert(&entity).await.unwrap();
        assert_eq!(table.get::<PropertyBag>(key, key).await.unwrap().properties, entity.properties, "{key}");
        let found = table.query::<PropertyBag>().partition(key).filter_text("true").collect().await;
        assert!(found.is_ok_and(|found| found.len() == 1) || key.is_empty(), "{key}");
        table.delete(key, key, IfMatch::Any).await.unwrap();
    }
}

#[tokio::test]
async fn updates_at_the_same_time_lose_nothing() {
    let (_account, table) = new_table().await;
    table.insert(&customer("Turin", "7", 0)).await.unwrap();
    let table = Arc::new(table);
    let add = |table: Arc<Table>| async move {
        for _ in 0..5 {
            let add = |customer: &mut Customer| {
                customer.visits += 1;
                Ok(())
            };
            table.update::<Customer>("Turin", "7", add).await.unwrap();
        }
    };
    let tasks: Vec<_> = (0..6).map(|_| tokio::spawn(add(Arc::clone(&table)))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(table.get::<Customer>("Turin", "7").await.unwrap().visits, 30);

    let refused = |_: &mut Customer| Err(Error::Invalid("no more visits".to_owned()));
    let error = table.update::<Customer>("Turin", "7", refused).await.unwrap_err();
    assert_eq!(error.to_string(), "no more visits");
    let error = table.update::<Customer>("Turin", "8", |_| Ok(())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn an_update_returns_the_errors_of_the_program_and_of_the_table() {
    #[derive(Debug)]
    enum Failure {
        TooManyVisits,
        Table(Error),
    }

    impl From<Error> for Failure {
        fn from(error: Error) -> Self {
            Self::Table(error)
        }
    }

    let (_account, table) = new_table().await;
    table.insert(&customer("Turin", "7", 2)).await.unwrap();
    let visit = |customer: &mut Customer| {
        customer.visits += 1;
        if customer.visits > 3 { Err(Failure::TooManyVisits) } else { Ok(()) }
    };
    assert_eq!(table.try_update("Turin", "7", visit).await.unwrap().visits, 3);
    assert!(matches!(table.try_update("Turin", "7", visit).await, Err(Failure::TooManyVisits)));
    let missing = table.try_update("Turin", "8", visit).await;
    assert!(matches!(missing, Err(Failure::Table(error)) if error.kind() == ErrorKind::NotFound));
    assert_eq!(table.get::<Customer>("Turin", "7").await.unwrap().visits, 3);
}

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
    let statuses: Vec<u16> = written.iter().map(|result| result.status).collect();
    assert_eq!(statuses, [204; 6]);
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
        assert!(error.message().is_some_and(|message| message.starts_with("The ")), "{error}");
    }
    let all = table.query::<Customer>().collect().await.unwrap();
    assert_eq!(all.iter().map(|customer| customer.visits).collect::<Vec<_>>(), [2], "nothing else is written");
}
