use crate::support::{account, customer, emulator_differs, new_name, new_table};
use rowhouse_client::{CorsRule, CorsRules, ErrorKind, GeoReplication, ReadFrom, TableService};

#[tokio::test]
async fn tables_come_and_go() {
    let account = account().await;
    let name = new_name();
    let tables: Vec<_> = ["b", "a"].iter().map(|end| account.service.table(&format!("{name}{end}"))).collect();
    for table in &tables {
        table.create().await.unwrap();
        table.create_if_missing().await.unwrap();
    }
    let error = tables[0].create().await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Conflict, Some("TableAlreadyExists")));
    let listed = account.service.tables().prefix(&name).all().await.unwrap();
    assert_eq!(listed, [format!("{name}a"), format!("{name}b")]);
    assert!(account.service.tables().all().await.unwrap().len() >= 2);
    tables[1].insert(&customer("Turin", "1", 1)).await.unwrap();
    tables[1].delete_table().await.unwrap();
    assert_eq!(account.service.tables().prefix(&name).all().await.unwrap(), [format!("{name}b")]);
}

/// This must be the only case that changes the properties of the account.
#[tokio::test]
async fn properties_and_cors_rules_are_set_and_read() {
    let account = account().await;
    let mut properties = account.service.properties().await.unwrap();
    properties.logging.delete = true;
    let rule = CorsRule::new("https://shop.example.net", "GET,PUT", "x-ms-*", "etag", 600).unwrap();
    properties.cors = CorsRules::new(vec![rule]).unwrap();
    account.service.set_properties(&properties).await.unwrap();
    let read = account.service.properties().await.unwrap();
    assert!(read.logging.delete);
    assert_eq!(read.cors, properties.cors);
}

#[tokio::test]
async fn the_secondary_is_read_and_says_how_old_it_is() {
    if emulator_differs("its statistics have a different address") {
        return;
    }
    let (account, table) = new_table().await;
    let written = table.insert(&customer("Turin", "1", 1)).await.unwrap();
    match account.service.statistics().await.unwrap() {
        GeoReplication::Live(time) => assert!(time <= std::time::SystemTime::now()),
        other => panic!("{other:?}"),
    }
    if std::env::var_os("TABLES_CONNECTION_STRING").is_none() {
        let builder = TableService::builder_from_connection_string(&account.connection_string).unwrap();
        let service = builder.read_from(ReadFrom::Secondary).build().unwrap();
        let copy = service.table(table.name()).get::<crate::support::Customer>("Turin", "1").await.unwrap();
        assert_eq!(copy.etag, written.etag);
        service.table(table.name()).insert(&customer("Turin", "2", 1)).await.unwrap();
    }
}
