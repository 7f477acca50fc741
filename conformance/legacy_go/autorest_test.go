package legacy

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/go-autorest/autorest"
)

// Some tools use this library only for signatures. For the emulator's account in path style, it signs the account once.
func TestTheSignatureOfGoAutorest(t *testing.T) {
	for _, kind := range []autorest.SharedKeyType{autorest.SharedKeyForTable, autorest.SharedKeyLiteForTable} {
		authorizer, err := autorest.NewSharedKeyAuthorizer(account, key, kind)
		check(t, err)
		send := func(method, path, body string, status int) string {
			t.Helper()
			request, err := http.NewRequest(method, endpoint+path, strings.NewReader(body))
			check(t, err)
			request.Header.Set("x-ms-version", "2019-02-02")
			request.Header.Set("Accept", "application/json;odata=nometadata")
			if body != "" {
				request.Header.Set("Content-Type", "application/json")
			}
			request, err = autorest.Prepare(request, authorizer.WithAuthorization())
			check(t, err)
			answer, err := http.DefaultClient.Do(request)
			check(t, err)
			defer answer.Body.Close()
			read, err := io.ReadAll(answer.Body)
			check(t, err)
			if answer.StatusCode != status {
				t.Fatalf("%s: %s %s: got %d, not %d: %s", kind, method, path, answer.StatusCode, status, read)
			}
			return string(read)
		}
		name := newName()
		send("POST", "/Tables", `{"TableName":"`+name+`"}`, 201)
		send("PUT", "/"+name+"(PartitionKey='a%20b',RowKey='1')", `{"A":1}`, 204)
		found := send("GET", "/"+name+"(PartitionKey='a%20b',RowKey='1')?$select=A", "", 200)
		equal(t, found, `{"A":1}`)
		send("GET", "/"+name+"?comp=acl", "", 200)
		send("GET", "/?restype=service&comp=properties", "", 200)
		send("DELETE", "/Tables('"+name+"')", "", 204)
	}
}
