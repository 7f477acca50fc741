//! Checks `deploy/monitoring`: the alerts and the dashboards use existing metrics according to their kinds and labels,
//! and the page about them lists the alerts.

use super::{has, read, root, yaml};
use crate::PROGRAM;
use crate::admin::page;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

const RULES: [&str; 2] = ["deploy/monitoring/rowhouse-rules.yml", "deploy/monitoring/rowhouse-cluster-rules.yml"];
const DASHBOARDS: [&str; 2] =
    ["deploy/monitoring/rowhouse-dashboard.json", "deploy/monitoring/rowhouse-cluster-dashboard.json"];
/// The labels that Prometheus adds, the optional label of a cluster's targets, and the label of histogram buckets.
const FURTHER_LABELS: [&str; 4] = ["job", "instance", "cluster", "le"];
/// The first parts of the names of metrics: from servers, `postgres_exporter` and `node_exporter`.
const PREFIXES: [&str; 4] = ["rowhouse_", "process_", "pg_", "node_"];
/// Sections of metrics that a server without a database and without a standby does not export.
const OTHER_SECTIONS: [&str; 4] = ["A database", "The load of a cluster", "Standbys", "Exporters"];

/// A metric in the page's list. A test of the server compares that list with the exported metrics.
struct Family {
    kind: String,
    labels: BTreeSet<String>,
    section: String,
}

fn is_metric(word: &str) -> bool {
    PREFIXES.iter().any(|prefix| word.starts_with(prefix))
}

fn families() -> BTreeMap<String, Family> {
    let (mut families, mut section) = (BTreeMap::new(), String::new());
    for line in read("docs/observability.md").lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            heading.clone_into(&mut section);
        } else if line.strip_prefix("| `").is_some_and(is_metric) {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let labels = cells[3].split(',').map(|label| label.trim().to_owned()).filter(|label| !label.is_empty());
            let family = Family { kind: cells[2].to_owned(), labels: labels.collect(), section: section.clone() };
            families.insert(cells[1].trim_matches('`').to_owned(), family);
        }
    }
    families
}

/// Returns the family of a sample in an expression: its name without the suffix of a histogram's samples.
fn family_of<'a>(families: &'a BTreeMap<String, Family>, sample: &'a str) -> Option<(&'a str, &'a Family)> {
    let of_histogram = ["_bucket", "_sum", "_count"].iter().filter_map(|end| sample.strip_suffix(end));
    let of_histogram = of_histogram.map(|name| (name, families.get(name))).find_map(|(name, family)| {
        let family = family.filter(|family| family.kind == "histogram")?;
        Some((name, family))
    });
    of_histogram.or_else(|| Some((sample, families.get(sample).filter(|family| family.kind != "histogram")?)))
}

/// Returns the words in an expression that may be names, each with the text before and after it.
fn words(expression: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts = expression.char_indices().filter(move |(at, c)| is_part(*c) && !expression[..*at].ends_with(is_part));
    starts.map(move |(at, _)| {
        let rest = &expression[at..];
        let (word, after) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
        (&expression[..at], word, after)
    })
}

/// The list is `a, b`, or consists of conditions such as `a="b",c=~"d"`.
fn labels(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(|label| label.trim().split(['=', '!']).next().unwrap()).filter(|label| !label.is_empty())
}

/// Fails unless an expression and the text displayed with it use metrics according to their kinds and labels. Returns
/// the families.
fn check(families: &BTreeMap<String, Family>, expression: &str, shown: &str) -> BTreeSet<String> {
    // Without the content of strings, which may look like names.
    let expression = &expression.split('"').step_by(2).collect::<Vec<_>>().join("\"\"");
    let mut used = BTreeSet::new();
    let mut known: BTreeSet<&str> = FURTHER_LABELS.into();
    for (before, sample, after) in words(expression) {
        if !is_metric(sample) {
            continue;
        }
        let (name, family) =
            family_of(families, sample).unwrap_or_else(|| panic!("{sample} is not exported: {expression}"));
        let (conditions, after) =
            after.strip_prefix('{').map_or(("", after), |rest| rest.split_once('}').expect("a closing brace"));
        for label in labels(conditions) {
            let is_known = family.labels.contains(label) || FURTHER_LABELS.contains(&label);
            assert!(is_known, "{name} has no label {label}: {expression}");
        }
        let function = before.trim_end_matches('(').rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next();
        let is_rate = after.starts_with('[') && ["rate", "increase"].contains(&function.unwrap());
        assert_eq!(is_rate, family.kind != "gauge", "{name} is a {}: {expression}", family.kind);
        known.extend(family.labels.iter().map(String::as_str));
        used.insert(name.to_owned());
    }
    for (_, word, after) in words(expression) {
        if ["by", "on", "without", "ignoring"].contains(&word) {
            let list = after.trim_start().strip_prefix('(').and_then(|rest| rest.split_once(')')).unwrap().0;
            for label in labels(list) {
                assert!(known.contains(label), "no metric has the label {label}: {expression}");
            }
        }
    }
    // `{{label}}` in a legend, `{{ $labels.label }}` in an annotation.
    for placeholder in shown.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap().trim()) {
        let label = placeholder.strip_prefix("$labels.").unwrap_or(placeholder);
        let is_kept =
            words(expression).all(|(_, word, _)| word != "by") || words(expression).any(|(_, word, _)| word == label);
        assert!(
            placeholder.starts_with("$value") || (known.contains(label) && is_kept),
            "{shown} has no {label}: {expression}"
        );
    }
    used
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a string"))
}

fn rules() -> Vec<Value> {
    let files = RULES.map(|file| yaml(&read(file)).remove(0));
    let groups = files.iter().flat_map(|file| file["groups"].as_array().unwrap());
    groups.flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

/// Returns every expression in the dashboards with its legend. Variables have values that Grafana may give them.
fn queries() -> Vec<(String, String)> {
    let dashboards = DASHBOARDS.map(|file| serde_json::from_str::<Value>(&read(file)).unwrap());
    let panels = dashboards.iter().flat_map(|dashboard| dashboard["panels"].as_array().unwrap().clone());
    let targets = panels.filter(|panel| panel["type"] != "row").flat_map(|panel| {
        assert!(!panel["targets"].as_array().unwrap().is_empty(), "{panel}");
        panel["targets"].as_array().unwrap().clone()
    });
    let queries = targets.map(|target| {
        let expression = text(&target["expr"]).replace("$__rate_interval", "1m").replace("$instance", "a|b");
        assert!(!expression.contains('$'), "{expression}");
        (expression, target["legendFormat"].as_str().unwrap_or_default().to_owned())
    });
    queries.collect()
}

#[test]
fn alerts_and_dashboard_use_metrics_that_servers_export() {
    let families = families();
    let mut used = BTreeSet::new();
    for rule in rules() {
        used.extend(check(&families, text(&rule["expr"]), text(&rule["annotations"]["summary"])));
    }
    for (expression, legend) in queries() {
        used.extend(check(&families, &expression, &legend));
    }
    assert!(used.len() > 40, "only {} metrics were found", used.len());
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let server = PROGRAM.start(&["--data", data, "--keep-log", "1h", "--admin", "127.0.0.1:0"]);
    let exported = page::get(&server, "/metrics");
    for name in used {
        let Family { kind, section, .. } = &families[&name];
        // The excluded metric is missing until changes are kept only for readers.
        if !OTHER_SECTIONS.contains(&section.as_str()) && name != "rowhouse_change_log_oldest_seconds" {
            let line = format!("# TYPE {} {kind}\n", name.strip_suffix("_total").unwrap_or(&name));
            assert!(page::text(&exported).contains(&line), "{line}");
        }
    }
}

#[test]
fn the_page_says_what_to_do_about_each_alert() {
    let page = read("docs/observability.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `Rowhouse"));
    let listed: Vec<_> = rows.map(|row| format!("Rowhouse{}", row.split('`').next().unwrap())).collect();
    let alerts: Vec<_> = rules().iter().map(|rule| text(&rule["alert"]).to_owned()).collect();
    assert_eq!(listed, alerts);
}

#[test]
fn the_objects_for_kubernetes_have_the_same_rules() {
    let page = read("docs/observability.md");
    let (_, command) = page.split_once("```sh\nfor name in").expect("the command that creates the objects");
    let command = format!("for name in{}", command.split_once("```").unwrap().0).replace("kubectl apply -f -", "cat");
    let output = Command::new("sh").args(["-c", &command]).current_dir(root()).output().unwrap();
    let objects = yaml(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(objects.len(), RULES.len());
    for (object, file) in objects.iter().zip(RULES) {
        assert_eq!(object["kind"], "PrometheusRule");
        assert_eq!(format!("deploy/monitoring/{}.yml", text(&object["metadata"]["name"])), file);
        assert_eq!(object["spec"], yaml(&read(file)).remove(0));
    }
}

#[test]
fn promtool_accepts_the_expressions_and_each_alert_fires_when_it_should() {
    if !has("promtool") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let recorded = folder.path().join("dashboard.yml");
    let rules: Vec<_> =
        queries().into_iter().map(|(expr, _)| serde_json::json!({ "record": "a", "expr": expr })).collect();
    // JSON is also YAML.
    let file = serde_json::json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    std::fs::write(&recorded, file.to_string()).unwrap();
    let promtool = |arguments: &[&str]| {
        let output = Command::new("promtool").args(arguments).current_dir(root()).output().unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(output.status.success(), "{}", said.concat());
    };
    promtool(&["check", "rules", "--lint=none", recorded.to_str().unwrap()]);
    for (rules, test) in RULES.into_iter().zip(["alerts.yml", "cluster_alerts.yml"]) {
        promtool(&["check", "rules", rules]);
        promtool(&["test", "rules", &format!("rowhouse/tests/it/documents/{test}")]);
    }
}
