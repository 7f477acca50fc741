package conformance

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The snippet must be whole and run as it is: only the address, the account, its key and the name of the table are others.
func TestTheSnippetForGoRuns(t *testing.T) {
	document, err := os.ReadFile("../../docs/getting-started.md")
	check(t, err)
	_, rest, _ := strings.Cut(string(document), "\n```go\n")
	snippet, _, found := strings.Cut(rest, "\n```\n")
	if !found || strings.Contains(rest, "\n```go\n") {
		t.Fatal("the document does not have one snippet for Go")
	}
	name := newName()
	for old, now := range map[string]string{
		"http://127.0.0.1:10002/devstoreaccount1": strings.TrimRight(endpoint, "/"),
		"AccountName=devstoreaccount1;":           "AccountName=" + account + ";",
		"Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==": key,
		`"cars"`: `"` + name + `"`,
	} {
		if !strings.Contains(snippet, old) {
			t.Fatalf("the snippet does not have %s", old)
		}
		snippet = strings.ReplaceAll(snippet, old, now)
	}
	file := filepath.Join(t.TempDir(), "main.go")
	check(t, os.WriteFile(file, []byte(snippet+"\n"), 0o600))
	t.Cleanup(func() {
		_, err := newService(t).DeleteTable(context.Background(), name, nil)
		check(t, err)
	})
	// A second run finds the table and the entity.
	for range 2 {
		command := exec.Command("go", "run", file)
		command.Stderr = os.Stderr
		printed, err := command.Output()
		check(t, err)
		equal(t, string(printed), "0007 981.5\n")
	}
	formatted, err := exec.Command("gofmt", "-l", file).CombinedOutput()
	check(t, err)
	equal(t, string(formatted), "")
}
