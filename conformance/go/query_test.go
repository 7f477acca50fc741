package conformance

import (
	"context"
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
