package conformance

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// list returns the table names on all pages, and the number of names on each page.
func list(t *testing.T, service *aztables.ServiceClient, options *aztables.ListTablesOptions) ([]string, []int) {
	t.Helper()
	var names []string
	var pages []int
	for pager := service.NewListTablesPager(options); pager.More(); {
		page, err := pager.NextPage(context.Background())
		check(t, err)
		pages = append(pages, len(page.Tables))
		for _, table := range page.Tables {
			names = append(names, *table.Name)
		}
	}
	return names, pages
}

func TestTablesAreCreatedListedAndDeleted(t *testing.T) {
	service, name := newService(t), newName()
	_, err := service.CreateTable(context.Background(), name, nil)
	check(t, err)
	all, _ := list(t, service, nil)
	equal(t, slices.Contains(all, name), true)

	// Table names are unique regardless of case.
	_, err = service.CreateTable(context.Background(), strings.ToUpper(name), nil)
	refused(t, err, 409, "TableAlreadyExists")

	_, err = service.DeleteTable(context.Background(), name, nil)
	check(t, err)
	all, _ = list(t, service, nil)
	equal(t, slices.Contains(all, name), false)
	_, err = service.DeleteTable(context.Background(), name, nil)
	refused(t, err, 404, "ResourceNotFound")
}

func TestAListOfTablesHasFiltersAndPages(t *testing.T) {
	service, prefix := newService(t), newName()
	var names []string
	for _, end := range []string{"a", "b", "c", "d", "e"} {
		names = append(names, prefix+end)
		_, err := service.CreateTable(context.Background(), prefix+end, nil)
		check(t, err)
		t.Cleanup(func() {
			_, err := service.DeleteTable(context.Background(), prefix+end, nil)
			check(t, err)
		})
	}
	filter := "TableName ge '" + prefix + "' and TableName lt '" + prefix + "z'"
	found, pages := list(t, service, &aztables.ListTablesOptions{Filter: &filter})
	equal(t, strings.Join(found, " "), strings.Join(names, " "))
	equal(t, len(pages), 1)

	found, pages = list(t, service, &aztables.ListTablesOptions{Filter: &filter, Top: to.Ptr[int32](2)})
	equal(t, strings.Join(found, " "), strings.Join(names, " "))
	if pages[0] != 2 {
		t.Errorf("the first page should have two tables: %v", pages)
	}

	one := "TableName eq '" + names[3] + "'"
	found, _ = list(t, service, &aztables.ListTablesOptions{Filter: &one})
	equal(t, strings.Join(found, " "), names[3])
}

func TestNamesOfTablesAreChecked(t *testing.T) {
	service := newService(t)
	for name, code := range map[string]string{
		"1starts":               "InvalidResourceName",
		"with-hyphen":           "InvalidResourceName",
		"ab":                    "OutOfRangeInput",
		strings.Repeat("a", 64): "OutOfRangeInput",
	} {
		_, err := service.CreateTable(context.Background(), name, nil)
		refused(t, err, 400, code)
	}
}
