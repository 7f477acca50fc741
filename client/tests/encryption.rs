//! Tables with an encryption policy on a real server: every operation, what the server stores, and what is refused.

#![cfg(feature = "encryption")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic")]

use rowhouse_client::encryption::{AesKey, EncryptionError, EncryptionMode, EncryptionPolicy};
use rowhouse_client::{EdmType, Entity, Error, ErrorKind, IfMatch, PropertyBag, Table, TableService, Transaction};
use rowhouse_testing::TestServer;

const MODES: [EncryptionMode; 2] = [EncryptionMode::AesCbc, EncryptionMode::AesGcm];

fn policy(mode: EncryptionMode) -> EncryptionPolicy {
    let key = AesKey::new("key-2026", &[7; 32]).unwrap();
    EncryptionPolicy::new(mode).key(key).encrypt_where(|_, _, name| name == "Secret").required(true)
}

async fn tables(server: &TestServer, mode: EncryptionMode) -> (Table, Table) {
    let service = TableService::from_connection_string(&server.connection_string()).unwrap();
    let open = service.table(&format!("{mode:?}"));
    open.create().await.unwrap();
    let encrypted = open.with_encryption(policy(mode));
    (open, encrypted)
}

fn bag(row: &str, secret: &str) -> PropertyBag {
    let bag = PropertyBag::new("p", row).unwrap();
    bag.with("Secret", secret).unwrap().with("Open", 7).unwrap()
}

async fn secret(table: &Table, row: &str) -> String {
    table.get::<PropertyBag>("p", row).await.unwrap().get("Secret").unwrap()
}

#[tokio::test]
async fn every_write_encrypts_and_every_read_decrypts() {
    let server = TestServer::start().await.unwrap();
    for mode in MODES {
        let (open, table) = tables(&server, mode).await;
        table.insert(&bag("1", "inserted")).await.unwrap();
        assert_eq!(secret(&table, "1").await, "inserted");
        assert_eq!(
            table.insert_with_echo(&bag("2", "echoed")).await.unwrap().entity.properties,
            bag("2", "echoed").properties
        );

        table.replace(&bag("1", "replaced"), IfMatch::Any).await.unwrap();
        assert_eq!(secret(&table, "1").await, "replaced");
        table.insert_or_replace(&bag("3", "put")).await.unwrap();
        assert_eq!(secret(&table, "3").await, "put");
        let updated = table.update::<PropertyBag>("p", "1", |bag| Ok(bag.set("Secret", "updated")?)).await.unwrap();
        assert_eq!(
            (updated.get::<String>("Secret").unwrap(), secret(&table, "1").await),
            ("updated".into(), "updated".into())
        );
        let transaction = Transaction::new().insert(&bag("4", "fourth")).replace(&bag("3", "third"), IfMatch::Any);
        table.commit(transaction).await.unwrap();

        let mut secrets = Vec::new();
        let mut all = table.query::<PropertyBag>().partition("p").page_size(2).stream();
        while let Some(stored) = all.next().await {
            let stored = stored.unwrap();
            assert_eq!(stored.properties.len(), 2, "the metadata must not be returned");
            secrets.push(stored.get::<String>("Secret").unwrap());
        }
        assert_eq!(secrets, ["updated", "echoed", "third", "fourth"]);

        let stored = open.query::<PropertyBag>().collect().await.unwrap();
        assert_eq!(stored.len(), 4);
        for stored in stored {
            assert_eq!(stored.properties.get("Secret").unwrap().edm_type(), EdmType::Binary);
            assert_eq!(stored.get::<i32>("Open").unwrap(), 7);
            assert_eq!(stored.properties.len(), 4);
        }
    }
}

#[tokio::test]
async fn projections_ask_for_the_metadata_and_do_not_return_them() {
    let server = TestServer::start().await.unwrap();
    for mode in MODES {
        let (_, table) = tables(&server, mode).await;
        table.insert(&bag("1", "s")).await.unwrap();
        let one = table.get_properties::<PropertyBag>("p", "1", &["Secret"]).await.unwrap();
        assert_eq!((one.properties.len(), one.get::<String>("Secret").unwrap()), (1, "s".to_owned()));
        let open = table.get_properties::<PropertyBag>("p", "1", &["Open"]).await.unwrap();
        assert_eq!((open.properties.len(), open.get::<i32>("Open").unwrap()), (1, 7));
        let found = table.query::<PropertyBag>().select(|p| p.property::<String>("Secret")).collect().await.unwrap();
        assert_eq!(found, ["s"]);
    }
}

#[tokio::test]
async fn merges_are_refused_and_not_sent() {
    let server = TestServer::start().await.unwrap();
    for mode in MODES {
        let (_, table) = tables(&server, mode).await;
        table.insert(&bag("1", "s")).await.unwrap();
        let before = server.costs().requests;
        let changed = bag("1", "merged");
        for refused in [
            table.merge(&changed, IfMatch::Any).await.map(drop),
            table.insert_or_merge(&changed).await.map(drop),
            table.commit(Transaction::new().insert(&bag("2", "s")).insert_or_merge(&changed)).await.map(drop),
            table.commit(Transaction::new().merge(&changed, IfMatch::Any)).await.map(drop),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Encryption, "{error}");
            assert!(error.to_string().contains("a merge cannot encrypt"), "{error}");
        }
        assert_eq!(server.costs().requests, before);
        assert_eq!(secret(&table, "1").await, "s");
    }
}

#[tokio::test]
async fn what_somebody_else_wrote_is_refused() {
    let server = TestServer::start().await.unwrap();
    for mode in MODES {
        let (open, table) = tables(&server, mode).await;
        open.insert(&bag("1", "in the clear")).await.unwrap();
        let error = table.get::<PropertyBag>("p", "1").await.unwrap_err();
        assert!(matches!(error, Error::Encryption(EncryptionError::NotEncrypted { property: None })), "{error}");

        assert_eq!(table.query::<PropertyBag>().collect().await.unwrap_err().kind(), ErrorKind::Encryption);
    }
}

#[derive(Entity, Debug, Clone, PartialEq)]
struct Employee {
    #[entity(partition_key)]
    city: String,
    #[entity(row_key)]
    id: String,
    name: String,
    #[entity(encrypt)]
    salary: i64,
    #[entity(encrypt)]
    note: Option<String>,
}

#[tokio::test]
async fn what_a_type_marks_is_encrypted_and_keeps_its_type() {
    let server = TestServer::start().await.unwrap();
    let (open, table) = tables(&server, EncryptionMode::AesGcm).await;
    let mut all = Vec::new();
    for (id, note) in [("1", None), ("2", Some("late"))] {
        let employee = Employee {
            city: "Turin".into(),
            id: id.into(),
            name: "Ada".into(),
            salary: 70_000,
            note: note.map(str::to_owned),
        };
        table.insert(&employee).await.unwrap();
        assert_eq!(table.get::<Employee>("Turin", id).await.unwrap().entity, employee);
        let stored = open.get::<PropertyBag>("Turin", id).await.unwrap();
        assert_eq!(stored.properties.get("salary").unwrap().edm_type(), EdmType::Binary);
        assert_eq!(stored.get::<String>("name").unwrap(), "Ada");
        all.push(employee);
    }
    let found = table.query::<Employee>().filter(|e| e.name.eq("Ada")).collect().await.unwrap();
    assert_eq!(found.into_iter().map(|stored| stored.entity).collect::<Vec<_>>(), all);
    let found = table.query::<Employee>().select(|e| (e.id, e.salary)).collect().await.unwrap();
    assert_eq!(found, [("1".to_owned(), 70_000), ("2".to_owned(), 70_000)]);

    // An unencrypted marked property is refused. Without a policy, a type that marks properties is refused as well.
    let unmarked = open
        .with_encryption(EncryptionPolicy::new(EncryptionMode::AesGcm).key(AesKey::new("key-2026", &[7; 32]).unwrap()));
    let bag = PropertyBag::new("Turin", "3").unwrap().with("name", "Eve").unwrap().with("salary", 1_i64).unwrap();
    unmarked.insert(&bag).await.unwrap();
    let error = table.get::<Employee>("Turin", "3").await.unwrap_err();
    let expected = |property: &Option<String>| property.as_deref() == Some("salary");
    assert!(
        matches!(&error, Error::Encryption(EncryptionError::NotEncrypted { property }) if expected(property)),
        "{error}"
    );
    assert_eq!(open.insert(&all[0]).await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_bulk_writer_encrypts() {
    let server = TestServer::start().await.unwrap();
    for mode in MODES {
        let (open, table) = tables(&server, mode).await;
        // After encryption, the entities exceed the size of a transaction by even more.
        let text = "x".repeat(30_000);
        let mut bulk = table.bulk();
        for number in 0..150 {
            bulk.insert(&bag(&format!("{number:03}"), &text)).await.unwrap();
        }
        let report = bulk.finish().await;
        assert_eq!((report.written, report.failed), (150, 0));
        assert_eq!(secret(&table, "149").await, text);
        let stored = open.get::<PropertyBag>("p", "149").await.unwrap();
        assert_eq!(stored.properties.get("Secret").unwrap().edm_type(), EdmType::Binary);
    }
}

/// A copy made without the key contains the encrypted properties as stored.
#[tokio::test]
async fn a_copy_stays_encrypted_and_readable() {
    let server = TestServer::start().await.unwrap();
    for mode in MODES {
        let (open, table) = tables(&server, mode).await;
        table.insert(&bag("1", "s")).await.unwrap();
        let service = TableService::from_connection_string(&server.connection_string()).unwrap();
        let copies = service.table(&format!("{mode:?}Copies"));
        copies.create().await.unwrap();
        copies.insert(&open.get::<PropertyBag>("p", "1").await.unwrap()).await.unwrap();
        assert_eq!(secret(&copies.with_encryption(policy(mode)), "1").await, "s");
        // An encrypted entity cannot be encrypted again.
        let again = table.replace(&open.get::<PropertyBag>("p", "1").await.unwrap(), IfMatch::Any).await.unwrap_err();
        assert!(matches!(again, Error::Encryption(EncryptionError::ReservedProperty { .. })), "{again}");
    }
}

#[derive(Entity, Debug)]
struct Payslip {
    #[entity(partition_key)]
    department: String,
    #[entity(row_key)]
    id: String,
    #[entity(encrypt)]
    salary: Vec<u8>,
}

#[tokio::test]
async fn what_a_type_marks_is_neither_read_encrypted_nor_accepted_in_the_clear() {
    let server = TestServer::start().await.unwrap();
    let (open, encrypted) = tables(&server, EncryptionMode::AesGcm).await;
    encrypted.insert(&Payslip { department: "p".into(), id: "1".into(), salary: vec![1, 2] }).await.unwrap();
    // The property has the same EDM type when encrypted, so the ciphertext could otherwise be mistaken for the value.
    let error = open.get::<Payslip>("p", "1").await.unwrap_err();
    assert!(error.to_string().contains("no encryption policy"), "{error}");
    assert!(open.get::<PropertyBag>("p", "1").await.is_ok(), "a bag is read as stored");

    // A program that does not mark the property writes it unencrypted.
    let clear = PropertyBag::new("p", "2").unwrap().with("salary", vec![1_u8, 2]).unwrap();
    encrypted.insert(&clear).await.unwrap();
    let refused = |error: Error| matches!(error, Error::Encryption(EncryptionError::NotEncrypted { .. }));
    assert!(refused(encrypted.get::<Payslip>("p", "2").await.unwrap_err()));
    let all = encrypted.query::<PropertyBag>().partition("p").select_as::<Payslip>();
    assert!(refused(all.collect().await.unwrap_err()), "the result type marks the property");
}
