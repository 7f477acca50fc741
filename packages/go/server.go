// Package rowhousetest starts a Rowhouse server for tests: in memory, on a free port of this machine.
//
// The program is the file that ROWHOUSE_BINARY names, or else rowhouse in PATH. It stops when its standard input is
// closed, so it never outlives the tests.
package rowhousetest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// hiddenKey is printed by the server instead of the key of an account from a file.
const hiddenKey = "AccountKey=<key>;"

// Bypasses proxies, whatever the environment configures.
var client = http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}

// Account is an account on a server. Accounts do not share tables.
type Account struct {
	Name             string
	Key              string // in Base64
	Endpoint         string // the URL of its tables
	ConnectionString string // for client libraries; contains all of the above
}

// Server is a running server. Its Account is the first account, into which --seed loads tables.
type Server struct {
	Account
	admin   string
	command *exec.Cmd
	stdin   io.Closer
	stdout  io.Reader
	log     tail
}

// NewAccount returns an empty account on the shared server. The account is deleted at the end of the test.
func NewAccount(t testing.TB) Account {
	t.Helper()
	return Shared(t).NewAccount(t)
}

// Shared returns the server that all tests in this package share. The first call starts it. If it cannot be started,
// every test that calls Shared fails with the reason.
func Shared(t testing.TB) *Server {
	t.Helper()
	server, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return server
}

var shared = sync.OnceValues(func() (*Server, error) { return start(nil) })

// Start starts a separate server with the given options for `rowhouse serve`, and stops it at the end of the test.
func Start(t testing.TB, options ...string) *Server {
	t.Helper()
	server, err := start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.stop() })
	return server
}

// NewAccount returns an empty account on this server. The account is deleted at the end of the test.
func (s *Server) NewAccount(t testing.TB) Account {
	t.Helper()
	var made Account
	if err := json.Unmarshal([]byte(s.Control(t, "POST", "/test/accounts", "{}")), &made); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// If a reset has already deleted the account, this has no effect.
		_, _, _ = s.send("DELETE", "/test/accounts/"+made.Name, "")
	})
	return made
}

// Control sends a request to the test controls (docs/test-controls.md), such as PUT /test/clock, and returns the
// response body. The test fails if the request fails.
func (s *Server) Control(t testing.TB, method, path, body string) string {
	t.Helper()
	status, text, err := s.send(method, path, body)
	if err != nil {
		t.Fatalf("%v\n%s", err, s.log.String())
	}
	if status >= 300 {
		t.Fatalf("%s %s was refused: %s", method, path, text)
	}
	return text
}

func (s *Server) send(method, path, body string) (int, string, error) {
	request, err := http.NewRequest(method, s.admin+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// start returns when the server is ready.
func start(options []string) (*Server, error) {
	program, err := findProgram()
	if err != nil {
		return nil, err
	}
	arguments := append([]string{"serve", "--in-memory", "--test-controls", "--stop-with-stdin"}, options...)
	server := &Server{command: exec.Command(program, arguments...)}
	server.command.Env = environment()
	server.command.Stderr = &server.log
	stdin, inErr := server.command.StdinPipe()
	stdout, outErr := server.command.StdoutPipe()
	if err := errors.Join(inErr, outErr, server.command.Start()); err != nil {
		return nil, fmt.Errorf("%s cannot be run: %w", program, err)
	}
	server.stdin, server.stdout = stdin, stdout
	for lines := bufio.NewScanner(stdout); server.admin == "" && lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), "connection string: "); found {
			server.Account = parse(value)
		}
		// The admin address is empty unless the line has this prefix. That line is the last one that the server prints.
		_, server.admin, _ = strings.Cut(lines.Text(), "admin on ")
	}
	if server.admin == "" {
		return nil, fmt.Errorf("rowhouse did not start: %v\n%s", server.stop(), server.log.String())
	}
	if strings.Contains(server.ConnectionString, hiddenKey) {
		_ = server.stop()
		return nil, errors.New("--accounts hides the keys: leave it out; NewAccount creates accounts with their own keys")
	}
	return server, nil
}

// stop waits for the server to exit, and returns an error unless it shut down cleanly.
func (s *Server) stop() error {
	_ = s.stdin.Close()
	_, _ = io.Copy(io.Discard, s.stdout)
	return s.command.Wait()
}

func findProgram() (string, error) {
	chosen := os.Getenv("ROWHOUSE_BINARY")
	if chosen == "" {
		program, err := exec.LookPath("rowhouse")
		if err != nil {
			return "", fmt.Errorf("the program rowhouse is missing: install it, or set ROWHOUSE_BINARY to its path (%w)", err)
		}
		return program, nil
	}
	if _, err := os.Stat(chosen); err != nil {
		return "", fmt.Errorf("ROWHOUSE_BINARY names a file that does not exist: %s", chosen)
	}
	return filepath.Abs(chosen)
}

// environment returns this process's environment variables without ROWHOUSE_ variables, which may be set for another
// server.
func environment() []string {
	// The port is set in a variable instead of an option, so that an option can override it.
	kept := []string{"ROWHOUSE_LISTEN=127.0.0.1:0"}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "ROWHOUSE_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

func parse(connectionString string) Account {
	account := Account{ConnectionString: connectionString}
	for _, field := range strings.Split(connectionString, ";") {
		switch name, value, _ := strings.Cut(field, "="); name {
		case "AccountName":
			account.Name = value
		case "AccountKey":
			account.Key = value
		case "TableEndpoint":
			account.Endpoint = value
		}
	}
	return account
}

// tail keeps the last part of the log.
type tail struct {
	mutex sync.Mutex
	bytes []byte
}

const tailBytesMax = 64 << 10

func (l *tail) Write(written []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.bytes = append(l.bytes, written...)
	l.bytes = l.bytes[max(0, len(l.bytes)-tailBytesMax):]
	return len(written), nil
}

func (l *tail) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return string(l.bytes)
}
