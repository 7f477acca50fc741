//! Tests of user delegation keys, and of the signatures created with them (specification 08 §11).

use super::bearer::{ASSIGNMENTS, ENTITY, NEW, World, denied, fine, outcome, refused};
use super::{Folder, account_file, client, exchange, key as account_key, start};
use serde_json::json;
use test_support::delegation::{ABROAD, Key, PATH, TENANT, VERSION, key_info};
use test_support::issuer::request;
use test_support::minting::header;
use test_support::{Response, Server};

fn key_of(answer: &Response) -> Key {
    assert_eq!(outcome(answer), fine(200), "{answer:?}");
    Key::parse(str::from_utf8(&answer.body).unwrap())
}

fn key_for(world: &World, oid: &str) -> Key {
    let token = world.token(oid, &json!({ "tid": TENANT }));
    key_of(&world.send(&token, VERSION, "POST", PATH, &key_info("")))
}

fn send(server: &Server, token: Option<&str>, method: &str, path: &str, signature: &str, body: &str) -> (u16, String) {
    let authorization = token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
    let path = format!("{path}{}{signature}", if path.contains('?') { '&' } else { '?' });
    outcome(&exchange(&mut client(server, ""), &request(&authorization, NEW, method, &path, body)))
}

fn ask(world: &World, method: &str, path: &str, signature: &str, body: &str) -> (u16, String) {
    send(&world.server, None, method, path, signature, body)
}

fn failed() -> (u16, String) {
    (403, "AuthenticationFailed".to_owned())
}

#[test]
fn a_role_that_is_taken_away_is_missing_from_signatures_that_exist() {
    let folder = Folder::new();
    let world = World::with_assignments_in(&folder);
    world.create_tables();
    let assigned = |role: &str| world.assign_in(&folder, "keymaker", role);
    let signature = key_for(&world, "keymaker").sign("raud", |_| {});
    let (read, write) =
        (|| ask(&world, "GET", "/orchard/harvest()", &signature, ""), || ask(&world, "PUT", ENTITY, &signature, "{}"));
    assert_eq!((read(), write()), (denied(), denied()));
    assigned("contributor");
    assert_eq!((read(), write()), (fine(200), fine(204)));
    assigned("reader");
    assert_eq!((read(), write()), (fine(200), denied()));
    folder.replace(ASSIGNMENTS, "[[assignments]]\nprincipal = {}\n");
    world.server.wait_for_log("role assignments: not reloaded");
    assert_eq!((read(), write()), (fine(200), denied()));
    assigned("delegator");
    assert_eq!((read(), write()), (denied(), denied()));
}

#[test]
fn keys_end_with_the_account_key_that_they_are_made_of() {
    let world = World::start();
    world.create_tables();
    let signature = key_for(&world, "writer").sign("r", |_| {});
    let read = || ask(&world, "GET", "/orchard/harvest()", &signature, "");
    let replaced = |first: u8, second: u8| {
        world.folder.replace("accounts", &account_file("orchard", &account_key(first), &account_key(second)));
        world.server.wait_for_log("accounts: reloaded");
    };
    assert_eq!(read(), fine(200));
    replaced(1, 3);
    assert_eq!(read(), fine(200), "user delegation keys do not depend on the second key");
    replaced(4, 1);
    assert_eq!(read(), fine(200), "the key still belongs to the account");
    replaced(4, 5);
    assert_eq!(read(), failed());
    // New user delegation keys are derived from the new account key.
    let signature = key_for(&world, "writer").sign("r", |_| {});
    assert_eq!(ask(&world, "GET", "/orchard/harvest()", &signature, ""), fine(200));
}

#[test]
fn another_server_with_the_same_files_knows_the_key() {
    let world = World::start();
    let signature = key_for(&world, "writer").sign("r", |_| {});
    let (config, accounts) = (world.folder.path("rowhouse.toml"), world.folder.path("accounts"));
    let server = start(&["--config", &config, "--accounts", &accounts]);
    // The account has no tables, which is revealed only to authorized callers.
    let missing = (404, "TableNotFound".to_owned());
    assert_eq!(send(&server, None, "GET", "/orchard/harvest()", &signature, ""), missing);
    let other = key_for(&world, "writer").sign("r", |fields| fields.permissions = "ra".into()) + "x";
    assert_eq!(send(&server, None, "GET", "/orchard/harvest()", &other, ""), failed());
    let folder = Folder::new();
    let without = folder.write("accounts", &account_file("orchard", &account_key(1), &account_key(2)));
    let server = start(&["--accounts", &without]);
    assert_eq!(
        send(&server, None, "GET", "/orchard/harvest()", &signature, ""),
        failed(),
        "no principal has roles here"
    );
}

#[test]
fn users_of_another_tenant_are_of_an_issuer_that_is_known_to_have_it() {
    let world = World::start();
    world.create_tables();
    let token = world.token("writer", &json!({ "tid": TENANT }));
    let body = key_info(&format!("<DelegatedUserTid>{ABROAD}</DelegatedUserTid>"));
    let key = key_of(&world.send(&token, VERSION, "POST", PATH, &body));
    assert_eq!(key.text("SignedDelegatedUserTid"), ABROAD);
    let bound = key.sign("r", |fields| fields.user = "guest".into());
    let sign = |tenant: &str| {
        let claims = world.other.claims("guest", &json!({ "tid": tenant }));
        world.ec.sign(&header("ES256", &world.ec), &claims)
    };
    let read = |server: &Server, token: &str| send(server, Some(token), "GET", "/orchard/harvest()", &bound, "");
    assert_eq!(read(&world.server, &world.token("guest", &json!({ "tid": ABROAD }))), fine(200));
    assert_eq!(read(&world.server, &world.token("guest", &json!({ "tid": TENANT }))), failed());
    assert_eq!(read(&world.server, &sign(ABROAD)), failed(), "any issuer could claim this tenant");
    // Another server, whose configuration assigns the tenant to that issuer.
    let config = std::fs::read_to_string(world.folder.path("rowhouse.toml")).unwrap();
    let listed =
        config.replace("algorithms = [\"ES256\"]", &format!("algorithms = [\"ES256\"]\ntenant-ids = [\"{ABROAD}\"]"));
    assert_ne!(config, listed);
    let config = world.folder.write("listed.toml", &listed);
    let accounts = world.folder.path("accounts");
    let server = start(&["--config", &config, "--accounts", &accounts]);
    assert_eq!(read(&server, &sign(ABROAD)), (404, "TableNotFound".into()));
    assert_eq!(read(&server, &sign(TENANT)), refused());
}

#[test]
fn the_log_shows_no_key_and_no_signature() {
    let world = World::start();
    let key = key_for(&world, "keymaker");
    let signature = key.sign("r", |_| {});
    let (_, value) = signature.rsplit_once("sig=").unwrap();
    assert_eq!(ask(&world, "GET", "/orchard/harvest()", &signature, ""), denied());
    let wrong = signature.replace("sp=r", "sp=ra");
    assert_eq!(ask(&world, "GET", "/orchard/harvest()", &wrong, ""), failed());
    world.server.wait_for_log("Signature did not match");
    let log = world.server.log();
    assert!(log.contains("GetUserDelegationKey"), "{log}");
    assert!(!log.contains(key.text("Value")) && !log.contains(value), "{log}");
}
