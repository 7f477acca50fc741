// Package legacy contains cases that run through the retired Go clients.
package legacy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/storage"
)

// The server under test. The defaults are the public development account, so that a local server needs no settings.
var (
	account  = setting("TABLES_ACCOUNT", storage.StorageEmulatorAccountName)
	key      = setting("TABLES_KEY", storage.StorageEmulatorAccountKey)
	endpoint = strings.TrimRight(setting("TABLES_ENDPOINT", "http://127.0.0.1:10002/"+account), "/")
)

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// sender sends each request once, so that no retry hides a wrong response.
type sender struct{}

func (sender) Send(client *storage.Client, request *http.Request) (*http.Response, error) {
	return client.HTTPClient.Do(request)
}

// newService returns the table client of the retired package. The client expects the emulator's account at
// 127.0.0.1:10002, and every other account in host style. The connection always goes to the server under test; the
// request is not changed.
func newService(t *testing.T) storage.TableServiceClient {
	t.Helper()
	address, err := url.Parse(endpoint)
	check(t, err)
	var client storage.Client
	if account == storage.StorageEmulatorAccountName && key == storage.StorageEmulatorAccountKey {
		client, err = storage.NewEmulatorClient()
	} else {
		client, err = storage.NewClient(account, key, "localhost", storage.DefaultAPIVersion, false)
	}
	check(t, err)
	client.Sender = sender{}
	client.HTTPClient = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address.Host)
		},
	}}
	t.Cleanup(client.HTTPClient.CloseIdleConnections)
	return client.GetTableService()
}

// newName returns a table name that no other run uses.
func newName() string {
	random := make([]byte, 12)
	// This never fails: the program exits if no randomness is available.
	_, _ = rand.Read(random)
	return "go" + hex.EncodeToString(random)
}

// newTable creates a table, which is deleted at the end of the test.
func newTable(t *testing.T) *storage.Table {
	t.Helper()
	service := newService(t)
	table := service.GetTableReference(newName())
	check(t, table.Create(30, storage.FullMetadata, nil))
	t.Cleanup(func() { check(t, table.Delete(30, nil)) })
	return table
}

// check ends the test if there is an error.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// equal fails the test if two values differ.
func equal[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("got %#v, not %#v", got, want)
	}
}

// refused ends the test unless the service refused the request with the given status and code. It returns the message.
func refused(t *testing.T, err error, status int, code string) string {
	t.Helper()
	var answer storage.AzureStorageServiceError
	if !errors.As(err, &answer) {
		t.Fatalf("the request was not refused with %d %s: %v", status, code, err)
	}
	if answer.StatusCode != status || answer.Code != code {
		t.Fatalf("got %d %s, not %d %s: %v", answer.StatusCode, answer.Code, status, code, err)
	}
	return answer.Message
}
