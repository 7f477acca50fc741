use crate::support::{Customer, account, customer, emulator_differs, new_name, new_table};
use rowhouse_client::{
    AccountSas, Credential, DateTime, Error, ErrorKind, Permissions, StoredAccessPolicies, StoredAccessPolicy, Table,
    TableSas, TableService,
};
use std::time::{Duration, SystemTime};

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
