use crate::target::{assert_refused, new_name, service, with_table};
use azure_data_tables::prelude::TableServiceClient;
use futures::TryStreamExt;

async fn list(service: &TableServiceClient, filter: String, top: u32) -> Vec<Vec<String>> {
    let pages: Vec<_> = service.list().filter(filter).top(top).into_stream().try_collect().await.unwrap();
    pages.into_iter().map(|page| page.tables.into_iter().map(|table| table.name).collect()).collect()
}

#[tokio::test]
async fn tables_are_created_listed_and_deleted() {
    let service = service();
    let names: Vec<_> = {
        let prefix = new_name();
        ["a", "b", "c"].iter().map(|end| format!("{prefix}{end}")).collect()
    };
    for name in &names {
        let created = service.table_client(name).create().await.unwrap();
        assert_eq!(created.table.name, *name);
        assert!(created.table.id.ends_with(&format!("/Tables('{name}')")), "{:?}", created.table);
    }
    assert_refused(service.table_client(names[0].to_uppercase()).create().await, 409, "TableAlreadyExists");

    let filter = format!("TableName ge '{}' and TableName le '{}'", names[0], names[2]);
    let pages = list(&service, filter.clone(), 2).await;
    assert_eq!(pages[0].len(), 2);
    assert_eq!(pages.concat(), names);

    for name in &names {
        service.table_client(name).delete().await.unwrap();
    }
    assert!(list(&service, filter, 1000).await.concat().is_empty());
    assert_refused(service.table_client(&names[0]).delete().await, 404, "ResourceNotFound");
}

#[tokio::test]
async fn names_of_tables_are_checked() {
    for (name, code) in [("with-hyphen", "InvalidResourceName"), ("ab", "OutOfRangeInput")] {
        assert_refused(service().table_client(name).create().await, 400, code);
    }
}

#[tokio::test]
async fn a_fresh_table_is_empty() {
    with_table(async |table| {
        let pages: Vec<_> = table.query().into_stream::<serde_json::Value>().try_collect().await.unwrap();
        assert_eq!(pages.iter().map(|page| page.entities.len()).collect::<Vec<_>>(), [0]);
    })
    .await;
}
