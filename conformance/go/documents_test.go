package conformance

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The snippet must be complete and run unchanged, except for the URL, the account, its key and the table name.
func TestTheSnippetForGoRuns(t *testing.T) {
	document, err := os.ReadFile("../../docs/getting-started.md")
	check(t, err)
	_, rest, _ := strings.Cut(string(document), "\n```go\n")
	snippet, _, found := strings.Cut(rest, "\n```\n")
	if !found || strings.Contains(rest, "\n```go\n") {
		t.Fatal("the page must have exactly one Go snippet")
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
	// The second run finds an existing table and an existing entity.
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

// The test on the page must run unchanged, in a module that refers to packages/go as the page describes.
func TestTheFixtureForGoRuns(t *testing.T) {
	binary := os.Getenv("ROWHOUSE_BINARY")
	if binary == "" {
		t.Skip("set ROWHOUSE_BINARY to the server program")
	}
	document, err := os.ReadFile("../../docs/testing-with-rowhouse.md")
	check(t, err)
	home := t.TempDir()
	folder := filepath.Join(home, "orders")
	check(t, os.Mkdir(folder, 0o700))
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(name)
		check(t, err)
		check(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
	}
	snippets := regexp.MustCompile("(?ms)^```go file=(\\S+)\n(.*?)^```").FindAllStringSubmatch(string(document), -1)
	equal(t, len(snippets), 1)
	for _, snippet := range snippets {
		check(t, os.WriteFile(filepath.Join(folder, snippet[1]), []byte(snippet[2]), 0o600))
	}
	edits := regexp.MustCompile(`(?m)^go (mod edit .*)$`).FindAllStringSubmatch(string(document), -1)
	equal(t, len(edits), 1)
	// Replace the clone that the command names, and find the program in PATH.
	clone, err := filepath.Abs("../..")
	check(t, err)
	check(t, os.Symlink(clone, filepath.Join(home, "rowhouse")))
	programs := filepath.Join(home, "programs")
	check(t, os.Mkdir(programs, 0o700))
	check(t, os.Symlink(binary, filepath.Join(programs, "rowhouse")))
	t.Setenv("PATH", programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("ROWHOUSE_BINARY", "")
	for _, step := range [][2]string{{edits[0][1], ""}, {"vet .", ""}, {"test -count=1 .", "ok"}} {
		command := exec.Command("go", strings.Fields(step[0])...)
		command.Dir = folder
		printed, err := command.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(printed), step[1]) {
			t.Fatal(step[0], err, string(printed))
		}
	}
	formatted, err := exec.Command("gofmt", "-l", folder).CombinedOutput()
	check(t, err)
	equal(t, string(formatted), "")
}
