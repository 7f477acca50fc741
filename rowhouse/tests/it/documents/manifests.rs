//! The manifests for Kubernetes: their command lines, and that their parts fit each other.

use super::{accept_server, files, has, read, root, yaml};
use serde_json::Value;
use std::process::Command;

/// The objects of a folder with those that it builds on, and their files.
fn objects(folder: &str) -> Vec<(String, Value)> {
    let kustomization = yaml::documents(&read(&format!("{folder}/kustomization.yaml"))).remove(0);
    let mut found = Vec::new();
    for resource in kustomization["resources"].as_array().unwrap() {
        let resource = resource.as_str().unwrap();
        if let Some(base) = resource.strip_prefix("../") {
            found.extend(objects(&format!("deploy/kubernetes/{base}")));
        } else {
            let path = format!("{folder}/{resource}");
            found.extend(yaml::documents(&read(&path)).into_iter().map(|object| (path.clone(), object)));
        }
    }
    found
}

/// The lists under a name, as values.
fn all<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

const WAYS: [&str; 2] = ["deploy/kubernetes/embedded", "deploy/kubernetes/postgresql"];

/// The template of the pods of a folder.
fn template(folder: &str) -> Value {
    let (_, workload) =
        objects(folder).into_iter().find(|(_, object)| object["spec"].get("template").is_some()).unwrap();
    assert_eq!(workload["spec"]["selector"]["matchLabels"], workload["spec"]["template"]["metadata"]["labels"]);
    let mut template = workload["spec"]["template"].clone();
    for claim in all(&workload["spec"], "volumeClaimTemplates") {
        template["spec"]["volumes"].as_array_mut().unwrap().push(claim["metadata"].clone());
    }
    template
}

#[test]
fn the_servers_of_the_manifests_are_ones_that_start() {
    for folder in WAYS {
        let pod = &template(folder)["spec"];
        let container = &pod["containers"][0];
        let command: Vec<_> = all(container, "args").map(text).collect();
        // The image listens everywhere.
        let mut environment = vec![("ROWHOUSE_LISTEN".to_owned(), "0.0.0.0:10002".to_owned())];
        for variable in all(container, "env") {
            let value = variable["value"].as_str().unwrap_or("postgres://user@host/database");
            environment.push((text(&variable["name"]), value.to_owned()));
        }
        let config = accept_server(&command, &environment).unwrap_or_else(|error| panic!("{folder}: {error}"));
        let port = all(container, "ports").find(|port| port["name"] == "tables").unwrap();
        assert_eq!(port["containerPort"], config.exposure.listen.port());
        let admin = all(container, "ports").find(|port| port["name"] == "admin").unwrap();
        assert_eq!(admin["containerPort"], config.admin.unwrap().port());
        let seconds = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
        assert!(seconds > config.shutdown_time.as_secs(), "{folder}: requests would be cut off");
    }
}

#[test]
fn the_parts_of_the_manifests_fit_each_other() {
    for folder in WAYS {
        let template = template(folder);
        let container = &template["spec"]["containers"][0];
        let volumes: Vec<_> = all(&template["spec"], "volumes").map(|volume| text(&volume["name"])).collect();
        let mounts: Vec<_> = all(container, "volumeMounts").collect();
        for mount in &mounts {
            assert!(volumes.contains(&text(&mount["name"])), "{folder}: {mount}");
        }
        // Every file that is named lies in a volume.
        let named = all(container, "args").chain(all(container, "env").map(|variable| &variable["value"]));
        for path in named.filter_map(Value::as_str).filter(|word| word.starts_with('/')) {
            assert!(
                mounts.iter().any(|mount| path.starts_with(mount["mountPath"].as_str().unwrap())),
                "{folder}: {path}"
            );
        }
        let ports: Vec<_> = all(container, "ports").map(|port| text(&port["name"])).collect();
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            for kind in ["httpGet"] {
                if let Some(port) = container[probe][kind].get("port") {
                    assert!(ports.contains(&text(port)), "{folder}: {probe}");
                    // What the admin listener answers.
                    assert!(
                        ["/readyz", "/livez"].contains(&container[probe][kind]["path"].as_str().unwrap()),
                        "{folder}"
                    );
                }
            }
        }
        for (file, object) in objects(folder).into_iter().chain(objects("deploy/kubernetes/monitoring")) {
            let selector = match object["kind"].as_str().unwrap() {
                "Service" => &object["spec"]["selector"],
                "PodDisruptionBudget" => &object["spec"]["selector"]["matchLabels"],
                "PodMonitor" => &object["spec"]["selector"]["matchLabels"],
                "NetworkPolicy" => &object["spec"]["podSelector"]["matchLabels"],
                _ => continue,
            };
            assert_eq!(*selector, template["metadata"]["labels"], "{file}");
            let services = all(&object["spec"], "ports").filter_map(|port| port.get("targetPort"));
            let monitors = all(&object["spec"], "podMetricsEndpoints").filter_map(|endpoint| endpoint.get("port"));
            let policies =
                all(&object["spec"], "ingress").flat_map(|rule| all(rule, "ports")).map(|port| &port["port"]);
            for port in services.chain(monitors).chain(policies) {
                assert!(ports.contains(&text(port)), "{file}");
            }
        }
    }
}

#[test]
fn the_pods_may_do_no_more_than_the_restricted_standard_allows() {
    for folder in WAYS {
        let pod = &template(folder)["spec"];
        assert_eq!(pod["automountServiceAccountToken"], false, "{folder}");
        let context = &pod["securityContext"];
        assert_eq!(
            (&context["runAsNonRoot"], &context["seccompProfile"]["type"]),
            (&true.into(), &"RuntimeDefault".into())
        );
        for container in all(pod, "containers") {
            let context = &container["securityContext"];
            assert_eq!(context["allowPrivilegeEscalation"], false, "{folder}");
            assert_eq!(context["readOnlyRootFilesystem"], true, "{folder}");
            assert_eq!(context["capabilities"]["drop"][0], "ALL", "{folder}");
            assert!(container["resources"]["limits"].get("memory").is_some(), "{folder}");
        }
    }
}

#[test]
fn every_manifest_belongs_to_a_way_and_kustomize_builds_them() {
    let folders = || WAYS.into_iter().chain(["deploy/kubernetes/monitoring"]);
    let used: Vec<_> = folders().flat_map(objects).map(|(file, _)| file).collect();
    for file in files(".yaml").iter().filter(|file| file.starts_with("deploy/kubernetes/")) {
        assert!(file.ends_with("kustomization.yaml") || used.contains(file), "{file} belongs to nothing");
    }
    if !has("kubectl") {
        return;
    }
    for folder in folders() {
        let built = Command::new("kubectl").args(["kustomize", folder]).current_dir(root()).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let count = yaml::documents(&String::from_utf8(built.stdout).unwrap()).len();
        assert!(count >= objects(folder).len(), "{folder}: {count}");
    }
}
