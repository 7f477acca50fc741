//! Checks `Dockerfile` and `deploy/compose.yaml`: their command lines, variables, ports and users.

use super::{accept_server, parse, read, root, variables, yaml};
use serde_json::Value;
use std::path::Path;

fn instructions() -> Vec<(String, String)> {
    instructions_of("Dockerfile")
}

fn instructions_of(path: &str) -> Vec<(String, String)> {
    let text = read(path).replace("\\\n", " ");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').map(|(a, b)| (a.to_owned(), b.trim().to_owned())).unwrap()).collect()
}

fn final_stage() -> Vec<(String, String)> {
    let all = instructions();
    let start = all.iter().rposition(|(name, _)| name == "FROM").unwrap();
    all[start..].to_vec()
}

fn one(stage: &[(String, String)], name: &str) -> String {
    let found: Vec<_> = stage.iter().filter(|(there, _)| there == name).collect();
    assert_eq!(found.len(), 1, "{name}");
    found[0].1.clone()
}

fn list(json: &str) -> Vec<String> {
    serde_json::from_str(json).unwrap_or_else(|_| panic!("{json} is not in exec form, and there is no shell"))
}

fn image_environment() -> Vec<(String, String)> {
    let stage = final_stage();
    let pairs = stage.iter().filter(|(name, _)| name == "ENV").flat_map(|(_, rest)| rest.split_whitespace());
    pairs.map(|pair| pair.split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap()).collect()
}

/// Returns an error if a container does not start. The given variables override the image's variables.
pub(super) fn container(command: &[String], given: &[(String, String)]) -> Result<(), String> {
    let mut environment: Vec<_> = image_environment();
    environment.retain(|(name, _)| given.iter().all(|(other, _)| other != name));
    environment.extend(given.iter().cloned());
    if command.first().is_some_and(|name| name == "azurite") {
        return parse(command, &environment).map(|_| ());
    }
    accept_server(command, &environment).map(|_| ())
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn the_image_holds_the_program_and_nothing_that_it_does_not_need() {
    let stage = final_stage();
    assert_eq!(stage[0].1, "scratch");
    assert!(stage.iter().all(|(name, _)| name != "RUN"), "there is no shell");
    let user = one(&stage, "USER");
    let (uid, gid) = user.split_once(':').unwrap();
    assert!(uid.parse::<u32>().unwrap() > 0 && gid.parse::<u32>().unwrap() > 0);
    assert_eq!(one(&stage, "STOPSIGNAL"), "SIGTERM");
    assert_eq!(one(&stage, "WORKDIR"), one(&stage, "VOLUME"));
    let owned = stage
        .iter()
        .any(|(name, rest)| name == "COPY" && rest.contains(&format!("--chown={user} ")) && rest.ends_with(" /data"));
    assert!(owned, "the volume must belong to the user");
}

#[test]
fn the_builder_has_the_supported_rust_and_gets_every_crate() {
    let all = instructions();
    let version = all[0].1.split(['-', ':']).nth(1).unwrap();
    assert_eq!(version, env!("CARGO_PKG_RUST_VERSION"));
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let ignored = read(".dockerignore");
    let let_in: Vec<_> = ignored.lines().filter_map(|line| line.strip_prefix('!')).collect();
    for member in manifest["workspace"]["members"].as_array().unwrap() {
        let member = member.as_str().unwrap();
        let is_let_in = let_in.iter().any(|name| Path::new(member).starts_with(name));
        assert!(is_let_in, "{member} is excluded from the build");
    }
    for name in let_in {
        assert!(root().join(name).exists(), "{name}");
    }
}

#[test]
fn the_image_has_the_program_of_the_shipped_profile() {
    let all = instructions();
    assert!(all.iter().any(|(name, rest)| name == "RUN" && rest.contains("cargo build --profile dist ")));
    assert!(final_stage().iter().any(|(name, rest)| name == "COPY" && rest.contains("/target/dist/rowhouse ")));
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    assert!(manifest["profile"].get("dist").is_some());
}

#[test]
fn the_image_starts_a_server_that_is_safe_unless_told_otherwise() {
    let stage = final_stage();
    let entry = list(&one(&stage, "ENTRYPOINT"));
    let copied = stage.iter().any(|(name, rest)| name == "COPY" && rest.ends_with(&format!(" {}", entry[0])));
    assert!(copied && entry.len() == 1, "{entry:?}");
    let command = list(&one(&stage, "CMD"));
    // Without options, the server would be open to anyone who can reach it, so it refuses to start.
    assert!(container(&command, &[]).unwrap_err().contains("development account"));
    let keys = pair("ROWHOUSE_ACCOUNT_KEYS", "");
    assert!(container(&command, std::slice::from_ref(&keys)).unwrap_err().contains("TLS"));
    container(&command, &[keys.clone(), pair("ROWHOUSE_ALLOW_PLAIN_HTTP_ON_NETWORK", "true")]).unwrap();
    let certificate = [pair("ROWHOUSE_TLS_CERT", "/c"), pair("ROWHOUSE_TLS_KEY", "/k")];
    container(&command, &[&certificate[..], std::slice::from_ref(&keys)].concat()).unwrap();
    // Each way of storing the data requires only one variable.
    for way in
        [pair("ROWHOUSE_STORE", "postgres://a@b/c"), pair("ROWHOUSE_IN_MEMORY", "true"), pair("ROWHOUSE_DATA", "/data")]
    {
        container(&command, &[&certificate[..], &[keys.clone(), way]].concat()).unwrap();
    }
    // The exposed port is the port that the server listens on.
    let environment = image_environment();
    let (_, listen) = environment.iter().find(|(name, _)| name == "ROWHOUSE_LISTEN").unwrap();
    assert_eq!(listen.rsplit(':').next().unwrap(), one(&stage, "EXPOSE"));
    let health = one(&stage, "HEALTHCHECK");
    let check = list(health.split_once(" CMD ").unwrap().1);
    assert_eq!(check[0], entry[0]);
    let known: Vec<_> = environment.into_iter().filter(|(name, _)| variables().contains(name)).collect();
    parse(&check[1..], &known).unwrap();
}

#[test]
fn the_images_have_a_program_by_the_name_of_the_emulator() {
    let links = "ln -s rowhouse /links/azurite";
    assert!(instructions().iter().any(|(name, rest)| name == "RUN" && rest.contains(links)));
    assert!(final_stage().iter().any(|(name, rest)| name == "COPY" && rest.ends_with(" /links/ /usr/bin/")));
    let with_all_services = instructions_of("deploy/azurite/Dockerfile");
    let command = list(&one(&with_all_services, "CMD"));
    parse(&command, &[]).unwrap();
    for (port, option) in ["--blobHost", "--queueHost", "--tableHost"].into_iter().enumerate() {
        assert!(command.windows(2).any(|two| two == [option, "0.0.0.0"]), "{option}");
        assert!(one(&with_all_services, "EXPOSE").contains(&format!("{}", 10_000 + port)));
    }
}

fn compose() -> Value {
    yaml(&read("deploy/compose.yaml")).remove(0)
}

fn words(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_services_of_the_compose_file_are_ones_that_start() {
    let compose = compose();
    let mut ways = Vec::new();
    for (name, service) in compose["services"].as_object().unwrap() {
        for secret in words(&service["secrets"]) {
            assert!(compose["secrets"].get(&secret).is_some(), "{name}: {secret}");
        }
        for config in service["configs"].as_array().into_iter().flatten() {
            let config = &compose["configs"][config["source"].as_str().unwrap()];
            let file = config.get("file").map(|file| root().join("deploy").join(file.as_str().unwrap()));
            assert!(file.map_or(config.get("content").is_some(), |file| file.is_file()), "{name}: {config}");
        }
        for (needed, _) in service["depends_on"].as_object().into_iter().flatten() {
            let profiles = words(&compose["services"][needed]["profiles"]);
            assert!(words(&service["profiles"]).iter().all(|profile| profiles.contains(profile)), "{name}: {needed}");
        }
        let environment = service["environment"].as_object().into_iter().flatten();
        let environment: Vec<_> = environment.map(|(name, value)| pair(name, value.as_str().unwrap())).collect();
        for (variable, value) in environment.iter().filter(|(name, _)| name.ends_with("PASSWORD_FILE")) {
            let secret = value.strip_prefix("/run/secrets/").unwrap();
            assert!(words(&service["secrets"]).iter().any(|known| known == secret), "{name}: {variable}");
        }
        for volume in words(&service["volumes"]) {
            assert!(compose["volumes"].get(volume.split(':').next().unwrap()).is_some(), "{name}: {volume}");
        }
        for port in words(&service["ports"]) {
            assert!(port.starts_with("127.0.0.1:"), "{name} is open to the network at {port}");
        }
        if service["image"] != "rowhouse" {
            continue;
        }
        ways.extend(words(&service["profiles"]));
        container(&words(&service["command"]), &environment).unwrap_or_else(|error| panic!("{name}: {error}"));
        let read_only = service["read_only"] == true && words(&service["cap_drop"]) == ["ALL"];
        assert!(read_only, "{name} may do more than it needs");
    }
    ways.sort();
    assert_eq!(ways, ["citus", "postgresql", "single"]);
    let volume = words(&compose["services"]["single"]["volumes"]).remove(0);
    assert_eq!(volume.split(':').nth(1), Some(one(&final_stage(), "VOLUME").as_str()));
}

#[test]
fn the_nodes_of_the_compose_file_are_those_that_the_servers_name() {
    let compose = compose();
    let services = compose["services"].as_object().unwrap();
    let nodes = |image: &str| {
        let mut nodes = services.iter().filter(|(_, service)| service["image"].as_str().unwrap().starts_with(image));
        let is_node = |service: &Value| !words(&service["volumes"]).is_empty();
        nodes.by_ref().filter(|(_, service)| is_node(service)).map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let variable =
        |service: &str, name: &str| compose["services"][service]["environment"][name].as_str().unwrap().to_owned();
    let (host, workers) = (variable("register-nodes", "PGHOST"), variable("register-nodes", "WORKERS"));
    let named: Vec<_> = std::iter::once(host.as_str()).chain(workers.split(' ')).collect();
    assert_eq!(nodes("citusdata/citus:"), named);
    let hosts: Vec<_> = workers.split(' ').map(|host| format!("{host}:5432")).collect();
    let (user, database) = (variable("register-nodes", "PGUSER"), variable("register-nodes", "PGDATABASE"));
    let address = format!("postgres://{user}@{}/{database}?load_balance_hosts=random", hosts.join(","));
    assert_eq!(variable("rowhouse-on-citus", "ROWHOUSE_STORE"), address);
    for node in nodes("citusdata/citus:") {
        assert_eq!(
            (variable(&node, "POSTGRES_USER"), variable(&node, "POSTGRES_DB")),
            (user.clone(), database.clone())
        );
    }
    // The proxy finds the servers of each variant under one name.
    let aliases = words(&compose["services"]["rowhouse-on-citus"]["networks"]["default"]["aliases"]);
    let proxy = compose["configs"]["haproxy"]["content"].as_str().unwrap();
    assert!(
        services.contains_key("rowhouse") && aliases == ["rowhouse"] && proxy.contains(" rowhouse 3 rowhouse:10002 ")
    );
}

#[test]
fn no_guide_mounts_a_file_that_a_command_replaces() {
    let mut count = 0;
    for page in super::files(".md").iter().filter(|page| page.starts_with("docs/")) {
        let text = read(page).replace("\\\n", " ");
        for command in text.lines().filter(|line| line.starts_with("docker run")) {
            let words: Vec<_> = command.split_whitespace().collect();
            for mount in words.windows(2).filter(|pair| pair[0] == "-v").map(|pair| pair[1]) {
                // A mount of a single file keeps showing the old file after a rename has replaced it.
                let source = Path::new(mount.split(':').next().unwrap());
                assert_eq!(source.extension(), None, "{page}: {command}");
                count += 1;
            }
        }
    }
    assert!(count >= 3, "{count}");
}
