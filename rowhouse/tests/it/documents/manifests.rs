//! Checks the manifests for Kubernetes: their command lines, and that their parts fit together.

use super::{accept_server, files, has, read, root, yaml};
use serde_json::Value;
use std::process::Command;

fn kustomization(folder: &str) -> Value {
    yaml(&read(&format!("{folder}/kustomization.yaml"))).remove(0)
}

/// Returns the patched objects of a folder and of the folders that it builds on, each with its file.
fn objects(folder: &str) -> Vec<(String, Value)> {
    let kustomization = kustomization(folder);
    let mut found = Vec::new();
    for resource in all(&kustomization, "resources").map(text) {
        if let Some(base) = resource.strip_prefix("../") {
            found.extend(objects(&format!("deploy/kubernetes/{base}")));
        } else {
            let path = format!("{folder}/{resource}");
            found.extend(yaml(&read(&path)).into_iter().map(|object| (path.clone(), object)));
        }
    }
    for path in patches(folder) {
        for patch in yaml(&read(&path)) {
            let id = |object: &Value| (text(&object["kind"]), text(&object["metadata"]["name"]));
            let (_, patched) = found.iter_mut().find(|(_, object)| id(object) == id(&patch)).unwrap();
            merge(patched, &patch);
        }
    }
    found
}

fn patches(folder: &str) -> Vec<String> {
    all(&kustomization(folder), "patches").map(|patch| format!("{folder}/{}", text(&patch["path"]))).collect()
}

/// Merges as kustomize does: members of objects by their keys, and members of lists by their names.
fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (name, member) in patch {
                merge(into.entry(name.clone()).or_insert(Value::Null), member);
            }
        }
        (Value::Array(into), Value::Array(patch)) if patch.iter().all(|member| member.get("name").is_some()) => {
            for member in patch {
                match into.iter_mut().find(|known| known["name"] == member["name"]) {
                    Some(known) => merge(known, member),
                    None => into.push(member.clone()),
                }
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}

fn all<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a string")).to_owned()
}

const CITUS: &str = "deploy/kubernetes/citus";
const WAYS: [&str; 3] = ["deploy/kubernetes/embedded", "deploy/kubernetes/postgresql", CITUS];
const SERVER: &str = "rowhouse";

fn generated_maps(folder: &str) -> Vec<(String, Vec<(String, String)>)> {
    let kustomization = kustomization(folder);
    let bases = all(&kustomization, "resources").map(text);
    let bases = bases.filter_map(|base| base.strip_prefix("../").map(|base| format!("deploy/kubernetes/{base}")));
    let mut maps: Vec<_> = bases.flat_map(|base| generated_maps(&base)).collect();
    for generator in all(&kustomization, "configMapGenerator") {
        let literals = all(generator, "literals").map(text);
        let members = literals.map(|pair| pair.split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap());
        let files = all(generator, "files").map(text);
        let members = members.chain(files.map(|file| (file.clone(), read(&format!("{folder}/{file}"))))).collect();
        let name = text(&generator["name"]);
        // A merged map must replace all members.
        assert_eq!(maps.iter().any(|(known, _)| *known == name), generator["behavior"] == "merge", "{folder}: {name}");
        maps.retain(|(known, _)| *known != name);
        maps.push((name, members));
    }
    maps
}

fn environment(folder: &str, container: &Value) -> Vec<(String, String)> {
    let maps = generated_maps(folder);
    let value = |variable: &Value| {
        let Some(reference) = variable.get("valueFrom") else { return text(&variable["value"]) };
        let reference = &reference["configMapKeyRef"];
        let (_, members) = maps.iter().find(|(name, _)| reference["name"] == **name).unwrap();
        members.iter().find(|(name, _)| reference["key"] == **name).unwrap().1.clone()
    };
    all(container, "env").map(|variable| (text(&variable["name"]), value(variable))).collect()
}

fn templates(folder: &str) -> Vec<Value> {
    let workloads = objects(folder).into_iter().filter(|(_, object)| object["spec"].get("template").is_some());
    let templates = workloads.map(|(file, workload)| {
        if workload["kind"] != "Job" {
            let selector = &workload["spec"]["selector"]["matchLabels"];
            assert_eq!(*selector, workload["spec"]["template"]["metadata"]["labels"], "{file}");
        }
        let mut template = workload["spec"]["template"].clone();
        for claim in all(&workload["spec"], "volumeClaimTemplates") {
            template["spec"]["volumes"].as_array_mut().unwrap().push(claim["metadata"].clone());
        }
        template
    });
    templates.collect()
}

fn server(folder: &str) -> Value {
    let mut servers = templates(folder);
    servers.retain(|template| template["metadata"]["labels"]["app.kubernetes.io/name"] == SERVER);
    assert_eq!(servers.len(), 1, "{folder}");
    servers.remove(0)
}

fn containers(template: &Value) -> impl Iterator<Item = &Value> {
    all(&template["spec"], "initContainers").chain(all(&template["spec"], "containers"))
}

#[test]
fn the_servers_of_the_manifests_are_ones_that_start() {
    for folder in WAYS {
        let pod = &server(folder)["spec"];
        let container = &pod["containers"][0];
        let command: Vec<_> = all(container, "args").map(text).collect();
        // The image listens on all addresses.
        let mut variables = vec![("ROWHOUSE_LISTEN".to_owned(), "0.0.0.0:10002".to_owned())];
        variables.extend(environment(folder, container));
        let config = accept_server(&command, &variables).unwrap_or_else(|error| panic!("{folder}: {error}"));
        let port = all(container, "ports").find(|port| port["name"] == "tables").unwrap();
        assert_eq!(port["containerPort"], config.exposure.listen.port());
        let admin = all(container, "ports").find(|port| port["name"] == "admin").unwrap();
        assert_eq!(admin["containerPort"], config.process.admin.unwrap().port());
        let seconds = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
        assert!(seconds > config.server.shutdown_time.as_secs(), "{folder}: requests would be aborted");
    }
}

#[test]
fn the_containers_find_the_files_that_they_name() {
    for folder in WAYS {
        let maps = generated_maps(folder);
        for template in templates(folder) {
            let volumes: Vec<_> = all(&template["spec"], "volumes").collect();
            for container in containers(&template) {
                let mounts: Vec<_> = all(container, "volumeMounts").collect();
                for mount in &mounts {
                    let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]);
                    let volume = volume.unwrap_or_else(|| panic!("{folder}: {mount}"));
                    // Kubernetes never updates a file that is mounted alone.
                    assert!(volume.get("secret").is_none() || mount.get("subPath").is_none(), "{folder}: {mount}");
                    if let Some(map) = volume.get("configMap") {
                        let (_, members) = maps.iter().find(|(name, _)| map["name"] == **name).unwrap();
                        let is_member = |file: &Value| members.iter().any(|(name, _)| *file == **name);
                        assert!(mount.get("subPath").is_none_or(is_member), "{folder}: {mount}");
                    }
                }
                let words = all(container, "command").chain(all(container, "args")).map(text);
                let named = words.chain(environment(folder, container).into_iter().map(|(_, value)| value));
                for path in named.filter(|word| word.starts_with('/')) {
                    let mount = mounts.iter().find(|mount| path.starts_with(mount["mountPath"].as_str().unwrap()));
                    let mount = mount.unwrap_or_else(|| panic!("{folder}: {path}"));
                    if let Some(script) = path.strip_prefix("/scripts/") {
                        assert_eq!(mount["name"], "scripts");
                        let is_there =
                            |(_, members): &(_, Vec<(String, String)>)| members.iter().any(|(name, _)| name == script);
                        assert!(maps.iter().any(is_there), "{folder}: {path}");
                    }
                }
                let ports: Vec<_> = all(container, "ports").map(|port| text(&port["name"])).collect();
                for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
                    let Some(request) = container[probe].get("httpGet") else { continue };
                    assert!(ports.contains(&text(&request["port"])), "{folder}: {probe}");
                    // The paths that the admin listener serves.
                    assert!(["/readyz", "/livez"].contains(&request["path"].as_str().unwrap()), "{folder}");
                }
            }
        }
    }
}

#[test]
fn the_parts_of_the_manifests_fit_each_other() {
    for folder in WAYS {
        let templates = templates(folder);
        for (file, object) in objects(folder).into_iter().chain(objects("deploy/kubernetes/monitoring")) {
            let selector = match object["kind"].as_str().unwrap() {
                "Service" => &object["spec"]["selector"],
                "PodDisruptionBudget" => &object["spec"]["selector"]["matchLabels"],
                "PodMonitor" => &object["spec"]["selector"]["matchLabels"],
                "NetworkPolicy" => &object["spec"]["podSelector"]["matchLabels"],
                _ => continue,
            };
            let selects = |selector: &Value, template: &Value| {
                let labels = &template["metadata"]["labels"];
                selector.as_object().unwrap().iter().all(|(name, value)| labels[name] == *value)
            };
            let selected: Vec<_> = templates.iter().filter(|template| selects(selector, template)).collect();
            assert!(!selected.is_empty(), "{file} selects nothing");
            for rule in all(&object["spec"]["selector"], "matchExpressions") {
                let values: Vec<_> = all(rule, "values").collect();
                let key = text(&rule["key"]);
                let has = |value: &&Value| selected.iter().any(|pod| pod["metadata"]["labels"][&key] == **value);
                assert!(rule["operator"] == "In" && values.iter().all(has), "{file}: {rule}");
            }
            let rules = || all(&object["spec"], "ingress");
            for client in rules().flat_map(|rule| all(rule, "from")).filter_map(|peer| peer.get("podSelector")) {
                let Some(labels) = client.get("matchLabels") else { continue };
                assert!(templates.iter().any(|template| selects(labels, template)), "{file}: {client}");
            }
            if let Some(job) = object["spec"].get("jobLabel") {
                // The name that the alerts expect.
                assert_eq!(selected[0]["metadata"]["labels"][&text(job)], SERVER, "{file}");
            }
            // A pod that keeps running has its own ports, and a job has no ports.
            let ports: Vec<_> = selected.iter().flat_map(|pod| containers(pod)).flat_map(|c| all(c, "ports")).collect();
            let services = all(&object["spec"], "ports").filter_map(|port| port.get("targetPort"));
            let monitors = all(&object["spec"], "podMetricsEndpoints").filter_map(|endpoint| endpoint.get("port"));
            let policies = rules().flat_map(|rule| all(rule, "ports")).map(|port| &port["port"]);
            for port in services.chain(monitors).chain(policies) {
                assert!(ports.iter().any(|known| known["name"] == *port), "{file}: {port}");
            }
        }
    }
}

#[test]
fn the_nodes_of_citus_are_those_that_the_servers_and_the_job_name() {
    let objects = objects(CITUS);
    let of_kind =
        |kind: &'static str| objects.iter().map(|(_, object)| object).filter(move |object| object["kind"] == kind);
    let mut pods = Vec::new();
    for set in of_kind("StatefulSet") {
        let (name, service) = (text(&set["metadata"]["name"]), text(&set["spec"]["serviceName"]));
        let service = of_kind("Service").find(|object| object["metadata"]["name"] == *service).unwrap();
        // A service without its own IP address gives each pod a name.
        assert_eq!(service["spec"]["clusterIP"], "None");
        let replicas = set["spec"]["replicas"].as_u64().unwrap();
        pods.extend((0..replicas).map(|number| format!("{name}-{number}.{}", text(&service["metadata"]["name"]))));
    }
    let job = of_kind("Job").next().unwrap();
    let job = environment(CITUS, &job["spec"]["template"]["spec"]["containers"][0]);
    let of = |variables: &[(String, String)], name: &str| {
        variables.iter().find(|(known, _)| known == name).unwrap().1.clone()
    };
    let workers = of(&job, "WORKERS");
    let mut named = vec![of(&job, "PGHOST")];
    named.extend(workers.split(' ').map(str::to_owned));
    assert_eq!(named, pods);
    let server = server(CITUS);
    let store = of(&environment(CITUS, &server["spec"]["containers"][0]), "ROWHOUSE_STORE");
    let hosts: Vec<_> = workers.split(' ').map(|host| format!("{host}:5432")).collect();
    assert!(
        store.contains(&format!("@{}/", hosts.join(","))) && store.contains("load_balance_hosts=random"),
        "{store}"
    );
    assert_eq!(of(&environment(CITUS, &server["spec"]["initContainers"][0]), "WORKERS"), workers);
    let template =
        templates(CITUS).into_iter().find(|template| template["spec"]["containers"][0]["name"] == "postgresql");
    let node = environment(CITUS, &template.unwrap()["spec"]["containers"][0]);
    let user = (of(&job, "PGUSER"), of(&job, "PGDATABASE"));
    assert_eq!(user, (of(&node, "POSTGRES_USER"), of(&node, "POSTGRES_DB")));
    assert!(
        store.starts_with(&format!("postgres://{}@", user.0)) && store.contains(&format!("/{}?", user.1)),
        "{store}"
    );
}

#[test]
fn the_pods_may_do_no_more_than_the_restricted_standard_allows() {
    for folder in WAYS {
        for template in templates(folder) {
            let pod = &template["spec"];
            assert_eq!(pod["automountServiceAccountToken"], false, "{folder}");
            let context = &pod["securityContext"];
            assert_eq!(
                (&context["runAsNonRoot"], &context["seccompProfile"]["type"]),
                (&true.into(), &"RuntimeDefault".into())
            );
            for container in containers(&template) {
                let context = &container["securityContext"];
                assert_eq!(context["allowPrivilegeEscalation"], false, "{folder}");
                assert_eq!(context["readOnlyRootFilesystem"], true, "{folder}");
                assert_eq!(context["capabilities"]["drop"][0], "ALL", "{folder}");
                assert!(container["resources"]["limits"].get("memory").is_some(), "{folder}");
            }
        }
    }
}

#[test]
fn every_manifest_belongs_to_a_way_and_kustomize_builds_them() {
    let folders = || WAYS.into_iter().chain(["deploy/kubernetes/monitoring"]);
    let used = folders().flat_map(objects).map(|(file, _)| file);
    let used: Vec<_> = used.chain(folders().flat_map(patches)).collect();
    for file in files(".yaml").iter().filter(|file| file.starts_with("deploy/kubernetes/")) {
        assert!(file.ends_with("kustomization.yaml") || used.contains(file), "{file} is not used by any variant");
    }
    if !has("kubectl") {
        return;
    }
    for folder in folders() {
        let built = Command::new("kubectl").args(["kustomize", folder]).current_dir(root()).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let count = yaml(&String::from_utf8(built.stdout).unwrap()).len();
        assert!(count >= objects(folder).len(), "{folder}: {count}");
    }
}
