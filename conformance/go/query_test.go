package conformance

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// members joins the member names of a JSON object in alphabetical order.
func members(t *testing.T, bytes []byte) string {
	t.Helper()
	var raw map[string]json.RawMessage
	check(t, json.Unmarshal(bytes, &raw))
	var names []string
	for name := range raw {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestFilters(t *testing.T) {
	table, _ := newTable(t)
	add(t, table, "a", "1", properties{
		"Text": "it's", "Number": int32(7), "Long": aztables.EDMInt64(1 << 40), "Double": 2.5, "Flag": true,
		"Time":   aztables.EDMDateTime(time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)),
		"Guid":   aztables.EDMGUID("c9da6455-213d-42c9-9a79-3e9149a57833"),
		"Binary": aztables.EDMBinary{1, 255},
	})
	add(t, table, "a", "2", properties{"Number": int32(8)})
	add(t, table, "b", "1", properties{"Number": int32(9), "Flag": false})
	for filter, want := range map[string]string{
		"PartitionKey eq 'a'":                    "a/1 a/2",
		"PartitionKey eq 'a' and RowKey eq '2'":  "a/2",
		"PartitionKey gt 'a' or RowKey lt '2'":   "a/1 b/1",
		"Number ge 8":                            "a/2 b/1",
		"Number ne 8":                            "a/1 b/1",
		"not (Number le 7)":                      "a/2 b/1",
		"Text eq 'it''s'":                        "a/1",
		"Long gt 1099511627775L":                 "a/1",
		"Double lt 2.75":                         "a/1",
		"Flag":                                   "a/1",
		"Flag eq false":                          "b/1",
		"Time ge datetime'2024-02-29T00:00:00Z'": "a/1",
		"Guid eq guid'c9da6455-213d-42c9-9a79-3e9149a57833'": "a/1",
		"Binary eq X'01ff'":                                      "a/1",
		"Timestamp gt datetime'2000-01-01T00:00:00Z'":            "a/1 a/2 b/1",
		"PartitionKey eq 'a' and (RowKey eq '3' or Number eq 7)": "a/1",
		"Missing eq 1": "",
	} {
		found, _ := query(t, table, &aztables.ListEntitiesOptions{Filter: &filter})
		if got := keys(found); got != want {
			t.Errorf("%s: got %q, not %q", filter, got, want)
		}
	}
}

func TestASelectionHasTheNamedProperties(t *testing.T) {
	table, _ := newTable(t)
	add(t, table, "p", "r", properties{"A": int32(1), "B": "two", "C": true})
	level := aztables.MetadataFormatNone
	pager := table.NewListEntitiesPager(&aztables.ListEntitiesOptions{Select: to.Ptr("RowKey,B"), Format: &level})
	page, err := pager.NextPage(context.Background())
	check(t, err)
	equal(t, len(page.Entities), 1)
	equal(t, members(t, page.Entities[0]), "B RowKey")
}

// fill inserts entities under the row keys 0000, 0001, … in transactions.
func fill(t *testing.T, table *aztables.Client, partition string, count int) {
	t.Helper()
	for start := 0; start < count; start += 100 {
		var actions []aztables.TransactionAction
		for number := start; number < min(start+100, count); number++ {
			body := encode(t, partition, fmt.Sprintf("%04d", number), properties{"Number": int32(number)})
			actions = append(actions, aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd, Entity: body})
		}
		_, err := table.SubmitTransaction(context.Background(), actions, nil)
		check(t, err)
	}
}

func TestMoreThanAThousandEntitiesComeInPages(t *testing.T) {
	table, _ := newTable(t)
	fill(t, table, "p", 1234)
	found, pages := query(t, table, nil)
	equal(t, fmt.Sprint(pages), "[1000 234]")
	for number, entity := range found {
		if entity.RowKey != fmt.Sprintf("%04d", number) {
			t.Fatalf("the entity at %d has the row key %s", number, entity.RowKey)
		}
	}
	// A filter is evaluated over all pages; intermediate pages may be empty or short.
	found, _ = query(t, table, &aztables.ListEntitiesOptions{Filter: to.Ptr("Number ge 1230 or Number eq 5")})
	equal(t, keys(found), "p/0005 p/1230 p/1231 p/1232 p/1233")
}

func TestTopIsTheSizeOfAPage(t *testing.T) {
	table, _ := newTable(t)
	fill(t, table, "p", 7)
	found, pages := query(t, table, &aztables.ListEntitiesOptions{Top: to.Ptr[int32](3)})
	equal(t, len(found), 7)
	equal(t, fmt.Sprint(pages), "[3 3 1]")
	pager := table.NewListEntitiesPager(&aztables.ListEntitiesOptions{Top: to.Ptr[int32](1001)})
	_, err := pager.NextPage(context.Background())
	refused(t, err, 400, "InvalidInput")
}

func TestAQueryGoesOnAtAContinuationToken(t *testing.T) {
	table, _ := newTable(t)
	fill(t, table, "p", 5)
	fill(t, table, "q", 2)
	first, err := table.NewListEntitiesPager(&aztables.ListEntitiesOptions{Top: to.Ptr[int32](4)}).NextPage(context.Background())
	check(t, err)
	if first.NextPartitionKey == nil || first.NextRowKey == nil {
		t.Fatal("the first page has no continuation token")
	}
	rest, _ := query(t, table, &aztables.ListEntitiesOptions{
		NextPartitionKey: first.NextPartitionKey, NextRowKey: first.NextRowKey,
	})
	equal(t, keys(rest), "p/0004 q/0000 q/0001")
}

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
