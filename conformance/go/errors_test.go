package conformance

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

func TestATableThatDoesNotExist(t *testing.T) {
	table := newService(t).NewClient(newName())
	_, err := table.AddEntity(context.Background(), encode(t, "p", "r", nil), nil)
	refused(t, err, 404, "TableNotFound")
	_, err = table.UpsertEntity(context.Background(), encode(t, "p", "r", nil), nil)
	refused(t, err, 404, "TableNotFound")
	_, err = table.NewListEntitiesPager(nil).NextPage(context.Background())
	refused(t, err, 404, "TableNotFound")
	_, err = table.GetAccessPolicy(context.Background(), nil)
	refused(t, err, 404, "TableNotFound")
}

func TestAnEntityThatDoesNotExist(t *testing.T) {
	table, _ := newTable(t)
	_, err := table.GetEntity(context.Background(), "p", "r", nil)
	refused(t, err, 404, "ResourceNotFound")
}

func TestEntitiesBeyondTheLimits(t *testing.T) {
	table, _ := newTable(t)
	many, large := properties{}, properties{}
	for number := range 253 {
		many[fmt.Sprintf("P%03d", number)] = true
	}
	for number := range 17 {
		large[fmt.Sprintf("P%02d", number)] = strings.Repeat("a", 32*1024)
	}
	for code, body := range map[string][]byte{
		"TooManyProperties":     encode(t, "p", "r", many),
		"EntityTooLarge":        encode(t, "p", "r", large),
		"PropertyValueTooLarge": encode(t, "p", "r", properties{"A": strings.Repeat("a", 32*1024+1)}),
		"PropertyNameTooLong":   encode(t, "p", "r", properties{strings.Repeat("a", 256): true}),
		"PropertyNameInvalid":   encode(t, "p", "r", properties{"with-hyphen": true}),
		"OutOfRangeInput":       encode(t, "a/b", "r", nil),
		"InvalidInput":          encode(t, "p", "r", properties{"A": aztables.EDMGUID("not one")}),
		"PropertiesNeedValue":   []byte(`{"PartitionKey":"p"}`),
	} {
		_, err := table.AddEntity(context.Background(), body, nil)
		if code == "PropertiesNeedValue" {
			// The client replaces this response with its own error.
			if err == nil || !strings.Contains(err.Error(), "must have a PartitionKey and RowKey") {
				t.Errorf("an entity without a row key: %v", err)
			}
			continue
		}
		refused(t, err, 400, code)
	}
	found, _ := query(t, table, nil)
	equal(t, len(found), 0)
}

func TestAFilterThatIsMalformed(t *testing.T) {
	table, _ := newTable(t)
	for _, filter := range []string{"A eq", "A = 1", "(A eq 1", "A eq 'open"} {
		_, err := table.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter}).NextPage(context.Background())
		refused(t, err, 400, "InvalidInput")
	}
}

func TestAnotherKeyIsRefused(t *testing.T) {
	other, err := aztables.NewSharedKeyCredential(account, base64.StdEncoding.EncodeToString(make([]byte, 64)))
	check(t, err)
	service, err := aztables.NewServiceClientWithSharedKey(endpoint, other, options())
	check(t, err)
	_, err = service.CreateTable(context.Background(), newName(), nil)
	refused(t, err, 403, "AuthenticationFailed")
}
