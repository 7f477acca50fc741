use crate::support::{Customer, account, customer, emulator_differs, new_name, new_table};
use rowhouse_client::{
    AccountSas, CorsRule, CorsRules, Credential, DateTime, Error, ErrorKind, GeoReplication, Permissions, ReadFrom,
    StoredAccessPolicies, StoredAccessPolicy, Table, TableSas, TableService,
};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

#[tokio::test]
async fn tables_come_and_go() {
    let account = account().await;
    let name = new_name();
    let tables: Vec<_> = ["b", "a"].iter().map(|end| account.service.table(&format!("{name}{end}"))).collect();
    for table in &tables {
        assert!(!table.exists().await.unwrap());
        table.create().await.unwrap();
        assert!(table.exists().await.unwrap());
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

fn in_an_hour() -> DateTime {
    DateTime::from_system_time(SystemTime::now() + Duration::from_hours(1))
}

fn guest(service: &TableService, table: &Table, sas: &str) -> Table {
    let credential = Credential::parse(sas).unwrap();
    TableService::new(service.endpoint().clone(), credential).unwrap().table(table.name())
}

#[tokio::test]
async fn a_signature_allows_what_it_says() {
    if emulator_differs("it does not restrict a signature to its key range") {
        return;
    }
    let (account, table) = new_table().await;
    table.insert(&customer("Turin", "05", 1)).await.unwrap();
    let sas = TableSas::new(Permissions::READ, in_an_hour()).from_entity("Turin", "03").to_entity("Turin", "07");
    let reader = guest(&account.service, &table, &table.sas(&sas).unwrap());
    assert_eq!(reader.get::<Customer>("Turin", "05").await.unwrap().visits, 1);
    table.insert(&customer("Turin", "08", 1)).await.unwrap();
    assert!(reader.find::<Customer>("Turin", "08").await.is_ok_and(|found| found.is_none()), "it is out of range");
    let error = reader.insert(&customer("Turin", "06", 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
    assert!(!format!("{error} {error:?}").contains("sig="));
    let past = DateTime::from_system_time(SystemTime::now() - Duration::from_hours(1));
    let expired = table.sas(&TableSas::new(Permissions::READ, past)).unwrap();
    let error = guest(&account.service, &table, &expired).get::<Customer>("Turin", "05").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden);
    let error = reader.sas(&sas).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "a signature cannot be used to sign: {error}");
}

#[tokio::test]
async fn a_signature_of_the_account() {
    let (account, table) = new_table().await;
    let sas = AccountSas::new(Permissions::LIST.union(Permissions::READ), in_an_hour());
    let credential = Credential::parse(&account.service.sas(&sas).unwrap()).unwrap();
    let service = TableService::new(account.service.endpoint().clone(), credential).unwrap();
    assert!(service.tables().prefix(table.name()).all().await.unwrap().contains(&table.name().to_owned()));
    assert_eq!(service.table(&new_name()).create().await.unwrap_err().kind(), ErrorKind::Forbidden);
}

#[tokio::test]
async fn a_policy_can_be_changed_after_the_signature_was_made() {
    if emulator_differs("not every version stores more than the id of a policy") {
        return;
    }
    let (account, table) = new_table().await;
    table.insert(&customer("Turin", "05", 1)).await.unwrap();
    let mut policy = StoredAccessPolicy::new("readers").unwrap();
    policy.permissions = Some(Permissions::READ);
    policy.expiry = Some(in_an_hour());
    let policies = StoredAccessPolicies::new(vec![policy]).unwrap();
    table.set_policies(&policies).await.unwrap();
    let read = table.policies().await.unwrap();
    assert_eq!(read.get("readers").unwrap().permissions, Some(Permissions::READ));

    let reader = guest(&account.service, &table, &table.sas(&TableSas::with_policy("readers")).unwrap());
    assert_eq!(reader.get::<Customer>("Turin", "05").await.unwrap().visits, 1);
    table.set_policies(&StoredAccessPolicies::default()).await.unwrap();
    let error = reader.get::<Customer>("Turin", "05").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden);
}

#[tokio::test]
async fn shared_key_lite_and_a_wrong_key() {
    let account = account().await;
    if account.service.endpoint().account().as_str() != rowhouse_client::DEVELOPMENT_ACCOUNT {
        return;
    }
    let with = |credential| TableService::new(account.service.endpoint().clone(), credential).unwrap();
    let lite = with(Credential::shared_key_lite(rowhouse_client::DEVELOPMENT_KEY).unwrap());
    let table = lite.table(&new_name());
    table.create().await.unwrap();
    table.insert(&customer("Turin", "1", 1)).await.unwrap();
    assert_eq!(table.query::<Customer>().partition("Turin").collect().await.unwrap().len(), 1);
    let wrong = with(Credential::shared_key("AAECAwQFBgcICQoLDA0ODw==").unwrap());
    let error = wrong.tables().all().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden);
    if !emulator_differs("its code is AuthorizationFailure") {
        assert_eq!(error.code(), Some("AuthenticationFailed"));
    }
}

/// The field with the thread that opened a span.
const THREAD: &str = "thread";

fn this_thread() -> String {
    format!("{:?}", std::thread::current().id())
}

#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<BTreeMap<String, String>>>>);

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("rowhouse_client")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut spans = self.0.lock().unwrap();
        let mut fields = BTreeMap::from([("span".to_owned(), span.metadata().name().to_owned())]);
        fields.insert(THREAD.to_owned(), this_thread());
        span.record(&mut Fields(&mut fields));
        spans.push(fields);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut spans = self.0.lock().unwrap();
        let at = usize::try_from(span.into_u64()).unwrap() - 1;
        values.record(&mut Fields(&mut spans[at]));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn an_operation_is_a_span_without_secrets() {
    let (_account, table) = new_table().await;
    let spans = Spans::default();
    // While other threads register callsites, a subscriber of only one thread may miss spans.
    tracing::subscriber::set_global_default(spans.clone()).unwrap();
    table.insert(&customer("Turin", "1", 1)).await.unwrap();
    let error = table.with_client_request_id("visit-7").insert(&customer("Turin", "1", 1)).await.unwrap_err();
    let spans: Vec<_> = spans.0.lock().unwrap().iter().filter(|span| span[THREAD] == this_thread()).cloned().collect();
    let field = |at: usize, name: &str| spans[at].get(name).map_or("", String::as_str);
    assert_eq!(spans.len(), 2, "{spans:?}");
    assert_eq!(field(0, "span"), "table_operation");
    assert_eq!(field(0, "what"), format!("inserting an entity into the table '{}'", table.name()));
    assert_eq!((field(0, "attempts"), field(0, "status"), field(0, "code")), ("1", "204", ""));
    assert_eq!((field(1, "status"), field(1, "code")), ("409", "\"EntityAlreadyExists\""));
    assert!(!field(1, "request_id").is_empty());
    assert_eq!((field(1, "client_request_id"), error.client_request_id()), ("\"visit-7\"", Some("visit-7")));
    assert_eq!(field(0, "client_request_id").len(), 2 + 32, "a random id in quotes");
    let all = format!("{spans:?}");
    assert!(!all.contains("SharedKey") && !all.contains("Eby8"), "{all}");
}
