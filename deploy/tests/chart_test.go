// The Helm chart, rendered by Helm's own packages and compared with what kustomize builds from deploy/kubernetes.
package tests

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const instance = "app.kubernetes.io/instance"

type object = map[string]any

// parse returns the objects in YAML documents by kind and name.
func parse(t *testing.T, text string) map[string]object {
	t.Helper()
	objects := map[string]object{}
	for _, document := range regexp.MustCompile(`(?m)^---$`).Split(text, -1) {
		var found object
		if err := yaml.UnmarshalStrict([]byte(document), &found); err != nil {
			t.Fatalf("%v: %s", err, document)
		}
		if found == nil {
			continue
		}
		name := found["kind"].(string) + " " + found["metadata"].(object)["name"].(string)
		if objects[name] != nil {
			t.Fatalf("%s exists twice", name)
		}
		objects[name] = found
	}
	return objects
}

// render returns what the chart creates for a release with the given values, in YAML.
func render(t *testing.T, release, values string) string {
	t.Helper()
	chart, err := loader.Load("../helm")
	if err != nil {
		t.Fatal(err)
	}
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	options := chartutil.ReleaseOptions{Name: release, Namespace: "default", IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, given, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	strict := engine.Engine{Strict: true}
	files, err := strict.Render(chart, all)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for name, content := range files {
		if strings.HasSuffix(name, ".yaml") {
			text.WriteString("\n---\n" + content)
		}
	}
	return text.String()
}

func build(t *testing.T, folder string) map[string]object {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../kubernetes/"+folder)
	if err != nil {
		t.Fatal(err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	// A map's name ends with the checksum of its content, as the annotation of the chart's pods does.
	return parse(t, regexp.MustCompile(`(rowhouse-database)-[a-z0-9]{10}\b`).ReplaceAllString(string(text), "$1"))
}

// withoutRelease removes what only a chart has: the label of the release, and the checksum of the database's URL.
func withoutRelease(value any) {
	switch value := value.(type) {
	case object:
		delete(value, instance)
		if annotations, is := value["annotations"].(object); is {
			delete(annotations, "checksum/database")
			if len(annotations) == 0 {
				delete(value, "annotations")
			}
		}
		for _, member := range value {
			withoutRelease(member)
		}
	case []any:
		for _, member := range value {
			withoutRelease(member)
		}
	}
}

func TestTheChartCreatesWhatKustomizeDoes(t *testing.T) {
	url := build(t, "postgresql")["ConfigMap rowhouse-database"]["data"].(object)["url"].(string)
	for folder, values := range map[string]string{
		"embedded":   "",
		"postgresql": "database: {url: '" + url + "'}",
	} {
		expected := build(t, folder)
		for _, monitoring := range []string{"", "\nmonitoring: {enabled: true}"} {
			if monitoring != "" {
				for name, object := range build(t, "monitoring") {
					expected[name] = object
				}
			}
			actual := parse(t, render(t, "rowhouse", values+monitoring))
			for name, object := range actual {
				withoutRelease(object)
				if object["kind"] == "ConfigMap" {
					// Kustomize generates it without labels.
					delete(object["metadata"].(map[string]any), "labels")
				}
				if !reflect.DeepEqual(object, expected[name]) {
					t.Errorf("%s%s: %s\nchart:     %s\nkustomize: %s", folder, monitoring, name, inJSON(object), inJSON(expected[name]))
				}
			}
			if len(actual) != len(expected) {
				t.Errorf("%s%s: the chart has %d objects, and kustomize %d", folder, monitoring, len(actual), len(expected))
			}
		}
	}
}

func inJSON(object object) string {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Every value of the chart, with another value than the default.
var changes = []string{
	"image: registry.example.net/rowhouse:1",
	"imagePullPolicy: Always",
	"imagePullSecrets: [{name: registry}]",
	"accountsSecret: other",
	"persistence: {size: 1Gi}",
	"persistence: {storageClass: fast}",
	"database: {url: postgres://rowhouse@db/tables}",
	"database: {passwordSecret: other}",
	"database: {distribute: true}",
	"replicas: 5",
	"options: {extensions: true}",
	"tlsSecret: tables-tls",
	"clients: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress}}}]",
	"monitoring: {enabled: true}",
	"monitoring: {namespace: other}",
	"resources: {limits: {memory: 3Gi}}",
	"nodeSelector: {disk: fast}",
	"tolerations: [{key: dedicated, operator: Exists}]",
	"affinity: {nodeAffinity: {}}",
}

func values(t *testing.T, text string) object {
	t.Helper()
	var found object
	if err := yaml.UnmarshalStrict([]byte(text), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestEveryValueIsTestedAndHasAnEffect(t *testing.T) {
	content, err := os.ReadFile("../helm/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	untested := map[string]bool{}
	for name, value := range values(t, string(content)) {
		members, is := value.(object)
		if !is || len(members) == 0 {
			untested[name] = true
		}
		for member := range members {
			untested[name+"."+member] = true
		}
	}
	for _, change := range changes {
		for name, value := range values(t, change) {
			delete(untested, name)
			if members, is := value.(object); is {
				for member := range members {
					delete(untested, name+"."+member)
				}
			}
		}
		// Some values matter only together with a database, and others only with the monitoring.
		has := false
		for _, base := range []object{
			{},
			{"database": object{"url": "postgres://rowhouse@postgresql/tables"}},
			{"monitoring": object{"enabled": true}},
		} {
			before := parse(t, render(t, "rowhouse", inJSON(base)))
			changed := chartutil.CoalesceTables(values(t, change), base)
			has = has || !reflect.DeepEqual(before, parse(t, render(t, "rowhouse", inJSON(changed))))
		}
		if !has {
			t.Errorf("%s has no effect", change)
		}
	}
	for name := range untested {
		t.Errorf("the list of changes lacks %s", name)
	}
}

func server(t *testing.T, objects map[string]object) object {
	t.Helper()
	for _, kind := range []string{"StatefulSet", "Deployment"} {
		for name, found := range objects {
			if strings.HasPrefix(name, kind+" ") {
				return found["spec"].(object)["template"].(object)["spec"].(object)
			}
		}
	}
	t.Fatal("there is no server")
	return nil
}

func variables(pod object) map[string]any {
	found := map[string]any{}
	for _, variable := range pod["containers"].([]any)[0].(object)["env"].([]any) {
		variable := variable.(object)
		found[variable["name"].(string)] = variable["value"]
	}
	return found
}

func TestTheChartHasTheVersionOfTheProgram(t *testing.T) {
	chart, err := loader.Load("../helm")
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile("../../Cargo.toml")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^version = "(.*)"$`).FindSubmatch(manifest)[1]
	if chart.Metadata.Version != string(version) || chart.Metadata.AppVersion != string(version) {
		t.Errorf("the chart has the versions %s and %s instead of %s", chart.Metadata.Version, chart.Metadata.AppVersion, version)
	}
}

func TestOptionsBecomeVariablesOfTheServer(t *testing.T) {
	values := `
options:
  trust-proxy: [10.0.0.0/8, "2001:db8::/32"]
  domain: tables.example.net
  max-entities: 12000000
  extensions: true
  explorer: false
  log-format: text
tlsSecret: tables-tls
database: {url: "postgres://rowhouse@postgresql/tables", distribute: true}
`
	pod := server(t, parse(t, render(t, "rowhouse", values)))
	found := variables(pod)
	for name, expected := range map[string]any{
		"ROWHOUSE_TRUST_PROXY":                 "10.0.0.0/8,2001:db8::/32",
		"ROWHOUSE_DOMAIN":                      "tables.example.net",
		"ROWHOUSE_MAX_ENTITIES":                "12000000",
		"ROWHOUSE_EXTENSIONS":                  "true",
		"ROWHOUSE_EXPLORER":                    "false",
		"ROWHOUSE_LOG_FORMAT":                  "text",
		"ROWHOUSE_DISTRIBUTE":                  "true",
		"ROWHOUSE_TLS_CERT":                    "/etc/rowhouse-tls/tls.crt",
		"ROWHOUSE_TLS_KEY":                     "/etc/rowhouse-tls/tls.key",
		"ROWHOUSE_ALLOW_PLAIN_HTTP_ON_NETWORK": nil,
	} {
		if found[name] != expected {
			t.Errorf("%s is %v instead of %v", name, found[name], expected)
		}
	}
	reference, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range found {
		if !bytes.Contains(reference, []byte("`"+name+"`")) {
			t.Errorf("the server has no variable %s", name)
		}
	}
	mounts := map[any]any{}
	for _, mount := range pod["containers"].([]any)[0].(object)["volumeMounts"].([]any) {
		mounts[mount.(object)["name"]] = mount.(object)["mountPath"]
	}
	if mounts["tls"] != "/etc/rowhouse-tls" {
		t.Errorf("the certificate is not mounted: %v", mounts)
	}
}

func TestReleasesInOneNamespaceDoNotShareAnything(t *testing.T) {
	values := "database: {url: postgres://rowhouse@postgresql/tables}\nmonitoring: {enabled: true}"
	first, second := parse(t, render(t, "one", values)), parse(t, render(t, "two", values))
	for name, found := range first {
		if second[name] != nil {
			t.Errorf("both releases have the object %s", name)
		}
		spec, _ := found["spec"].(object)
		for _, selector := range []any{spec["selector"], spec["podSelector"]} {
			labels, is := selector.(object)
			if !is {
				continue
			}
			if nested, is := labels["matchLabels"].(object); is {
				labels = nested
			}
			if labels[instance] != "one" {
				t.Errorf("%s selects the pods of other releases: %v", name, labels)
			}
		}
	}
}
