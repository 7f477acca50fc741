// Package conformance contains cases that run through the Go client against any endpoint of the Table service.
package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// The server under test. The defaults are the public development account, so that a local server needs no settings.
var (
	account = setting("TABLES_ACCOUNT", "devstoreaccount1")
	key     = setting("TABLES_KEY", "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==")
	// Ends with a slash, because the client appends table names to it when it creates signatures.
	endpoint = strings.TrimRight(setting("TABLES_ENDPOINT", "http://127.0.0.1:10002/"+account), "/") + "/"
)

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// options disables retries, because a case checks the first response, and an unnoticed second request could hide a
// wrong one.
func options() *aztables.ClientOptions {
	return &aztables.ClientOptions{ClientOptions: azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}}
}

func credential(t *testing.T) *aztables.SharedKeyCredential {
	t.Helper()
	made, err := aztables.NewSharedKeyCredential(account, key)
	check(t, err)
	return made
}

// newService creates a client for the account.
func newService(t *testing.T) *aztables.ServiceClient {
	t.Helper()
	service, err := aztables.NewServiceClientWithSharedKey(endpoint, credential(t), options())
	check(t, err)
	return service
}

// newName returns a table name that no other run uses.
func newName() string {
	random := make([]byte, 12)
	// This never fails: the program exits if no randomness is available.
	_, _ = rand.Read(random)
	return "go" + hex.EncodeToString(random)
}

// newTable creates a table, which is deleted at the end of the test.
func newTable(t *testing.T) (*aztables.Client, string) {
	t.Helper()
	name := newName()
	table := newService(t).NewClient(name)
	_, err := table.CreateTable(context.Background(), nil)
	check(t, err)
	t.Cleanup(func() {
		_, err := table.Delete(context.Background(), nil)
		check(t, err)
	})
	return table, name
}

// properties are the properties of an entity, as the client sends and receives them.
type properties = map[string]any

// encode formats an entity as the client requires.
func encode(t *testing.T, partition, row string, more properties) []byte {
	t.Helper()
	entity := aztables.EDMEntity{Entity: aztables.Entity{PartitionKey: partition, RowKey: row}, Properties: more}
	bytes, err := json.Marshal(entity)
	check(t, err)
	return bytes
}

func decode(t *testing.T, bytes []byte) aztables.EDMEntity {
	t.Helper()
	var entity aztables.EDMEntity
	check(t, json.Unmarshal(bytes, &entity))
	return entity
}

// add inserts an entity and returns its ETag.
func add(t *testing.T, table *aztables.Client, partition, row string, more properties) azcore.ETag {
	t.Helper()
	added, err := table.AddEntity(context.Background(), encode(t, partition, row, more), nil)
	check(t, err)
	return added.ETag
}

func get(t *testing.T, table *aztables.Client, partition, row string) aztables.EDMEntity {
	t.Helper()
	found, err := table.GetEntity(context.Background(), partition, row, nil)
	check(t, err)
	return decode(t, found.Value)
}

// query returns the entities on all pages, and the number of entities on each page.
func query(t *testing.T, table *aztables.Client, options *aztables.ListEntitiesOptions) ([]aztables.EDMEntity, []int) {
	t.Helper()
	var found []aztables.EDMEntity
	var pages []int
	for pager := table.NewListEntitiesPager(options); pager.More(); {
		page, err := pager.NextPage(context.Background())
		check(t, err)
		pages = append(pages, len(page.Entities))
		for _, bytes := range page.Entities {
			found = append(found, decode(t, bytes))
		}
	}
	return found, pages
}

// keys joins the keys of entities: "partition/row partition/row".
func keys(entities []aztables.EDMEntity) string {
	var joined []string
	for _, entity := range entities {
		joined = append(joined, entity.PartitionKey+"/"+entity.RowKey)
	}
	return strings.Join(joined, " ")
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

// refused ends the test unless the service refused the request with the given status and code. It returns the response.
func refused(t *testing.T, err error, status int, code string) *azcore.ResponseError {
	t.Helper()
	var answer *azcore.ResponseError
	if !errors.As(err, &answer) {
		t.Fatalf("the request was not refused with %d %s: %v", status, code, err)
	}
	if answer.StatusCode != status || answer.ErrorCode != code {
		t.Fatalf("got %d %s, not %d %s: %v", answer.StatusCode, answer.ErrorCode, status, code, err)
	}
	return answer
}
