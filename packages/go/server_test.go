package rowhousetest

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestEachTestHasAnAccountOnOneServer(t *testing.T) {
	var first Account
	t.Run("first", func(t *testing.T) { first = NewAccount(t) })
	second := NewAccount(t)
	server := Shared(t)
	host, _, _ := strings.Cut(strings.TrimPrefix(server.Endpoint, "http://"), "/")
	for _, account := range []Account{first, second} {
		if account != parse(account.ConnectionString) || account.Endpoint != "http://"+host+"/"+account.Name {
			t.Errorf("%+v is not an account on %s", account, host)
		}
	}
	// When its test has ended, the first account is deleted, so its name is available.
	server.Control(t, "POST", "/test/accounts", fmt.Sprintf(`{"name":%q}`, first.Name))
	if status, _, err := server.send("POST", "/test/accounts", fmt.Sprintf(`{"name":%q}`, second.Name)); status != 409 || err != nil {
		t.Errorf("%s was created twice: %d %v", second.Name, status, err)
	}
}

func TestASeparateServerHasItsOptionsAndEndsWithItsTest(t *testing.T) {
	seed := t.TempDir()
	line := `{"PartitionKey":"north","RowKey":"apple"}` + "\n"
	if err := os.WriteFile(filepath.Join(seed, "prices.jsonl"), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ROWHOUSE_DATA", "/nonexistent")
	var server *Server
	t.Run("runs", func(t *testing.T) {
		server = Start(t, "--seed", seed)
		if page := metrics(t, server); !strings.Contains(page, "\nrowhouse_tables 1\n") {
			t.Error("the seed is missing:", page)
		}
		server.Control(t, "PUT", "/test/clock", `{"now":"2030-01-01T00:00:00Z"}`)
		if clock := server.Control(t, "GET", "/test/clock", ""); !strings.Contains(clock, "2030-01-01") {
			t.Error(clock)
		}
	})
	if _, _, err := server.send("GET", "/test/clock", ""); err == nil {
		t.Error("the server outlived its test")
	}
	if log := server.log.String(); !strings.Contains(log, "stopped") {
		t.Error(log)
	}
}

func metrics(t *testing.T, server *Server) string {
	t.Helper()
	status, page, err := server.send(http.MethodGet, "/metrics", "")
	if status != 200 || err != nil {
		t.Fatal(status, err)
	}
	return page
}

func TestAServerThatDoesNotStartSaysWhy(t *testing.T) {
	server, err := start([]string{"--nonsense"})
	reason := "rowhouse did not start: exit status 2\nerror: unexpected argument '--nonsense'"
	if server != nil || err == nil || !strings.HasPrefix(err.Error(), reason) {
		t.Error(err)
	}
}

func TestEveryTestSaysThatTheProgramIsMissing(t *testing.T) {
	const isChild = "ROWHOUSETEST_CHILD"
	if os.Getenv(isChild) != "" {
		for _, name := range []string{"first", "second"} {
			t.Run(name, func(t *testing.T) { NewAccount(t) })
		}
		return
	}
	for variable, reason := range map[string]string{
		"ROWHOUSE_BINARY=/nonexistent/program": "ROWHOUSE_BINARY names a file that does not exist: /nonexistent/program",
		"ROWHOUSE_BINARY=":                     "the program rowhouse is missing: install it, or set ROWHOUSE_BINARY to its path",
	} {
		command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		command.Env = append(os.Environ(), isChild+"=1", "PATH=/nonexistent", variable)
		printed, err := command.CombinedOutput()
		if err == nil || strings.Count(string(printed), reason) != 2 {
			t.Errorf("%s: %v\n%s", variable, err, printed)
		}
	}
}
