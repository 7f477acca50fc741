package legacy

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/storage"
	"github.com/gofrs/uuid"
)

type properties = map[string]interface{}

// entity returns an entity that is not stored yet.
func entity(table *storage.Table, partition, row string, more properties) *storage.Entity {
	made := table.GetEntityReference(partition, row)
	made.Properties = more
	return made
}

// query returns the keys of the entities on all pages, and the number of entities on each page.
func query(t *testing.T, table *storage.Table, options *storage.QueryOptions) (string, []int) {
	t.Helper()
	page, err := table.QueryEntities(30, storage.MinimalMetadata, options)
	check(t, err)
	var keys []string
	var pages []int
	for {
		pages = append(pages, len(page.Entities))
		for _, found := range page.Entities {
			keys = append(keys, found.PartitionKey+"/"+found.RowKey)
		}
		if page.NextLink == nil {
			return strings.Join(keys, " "), pages
		}
		page, err = page.NextResults(nil)
		check(t, err)
	}
}

func TestTablesAreCreatedListedAndDeleted(t *testing.T) {
	service := newService(t)
	table := service.GetTableReference(newName())
	check(t, table.Create(30, storage.EmptyPayload, nil))
	check(t, table.Get(30, storage.FullMetadata))
	refused(t, table.Create(30, storage.MinimalMetadata, nil), 409, "TableAlreadyExists")
	listed, err := service.QueryTables(storage.MinimalMetadata, &storage.QueryTablesOptions{Filter: "TableName eq '" + table.Name + "'"})
	check(t, err)
	equal(t, slices.ContainsFunc(listed.Tables, func(found storage.Table) bool { return found.Name == table.Name }), true)
	check(t, table.Delete(30, nil))
	refused(t, table.Delete(30, nil), 404, "ResourceNotFound")
}

func TestEveryTypeComesBack(t *testing.T) {
	table := newTable(t)
	moment := time.Date(2024, 2, 29, 12, 30, 0, 123_456_700, time.UTC)
	binary := []byte{0, 1, 255}
	sent := entity(table, "p p", "it''s", properties{
		"Boolean": true, "Text": "a 'quoted' text 😀", "Int64": int64(math.MinInt64), "Guid": uuid.Must(uuid.NewV4()),
		// A double is sent as a string with its type.
		"Double": 2.5, "Whole": 5.0, "Large": math.MaxFloat64, "Time": moment, "Binary": binary, "Int32": math.MaxInt32,
	})
	check(t, sent.Insert(storage.FullMetadata, nil))
	// The caller must double the quotes in keys. In the body that the client reads, they stay doubled.
	found := table.GetEntityReference("p p", "it''''s")
	check(t, found.Get(30, storage.FullMetadata, nil))
	equal(t, len(found.Properties), len(sent.Properties))
	for _, name := range []string{"Boolean", "Text", "Int64", "Guid", "Double", "Whole", "Large"} {
		equal(t, found.Properties[name], sent.Properties[name])
	}
	equal(t, found.Properties["Int32"], interface{}(float64(math.MaxInt32)))
	equal(t, found.Properties["Time"].(time.Time).Equal(moment), true)
	equal(t, bytes.Equal(found.Properties["Binary"].([]byte), binary), true)
	equal(t, found.OdataType, account+"."+table.Name)
}

func TestEntitiesAreWrittenUnderConditions(t *testing.T) {
	table := newTable(t)
	first := entity(table, "p", "r", properties{"A": "1", "B": "1"})
	check(t, first.Insert(storage.MinimalMetadata, nil))
	refused(t, entity(table, "p", "r", nil).Insert(storage.EmptyPayload, nil), 409, "EntityAlreadyExists")
	outdated := *first

	first.Properties = properties{"A": "2"}
	check(t, first.Merge(false, nil))
	check(t, first.Get(30, storage.FullMetadata, nil))
	equal(t, len(first.Properties), 2)
	for _, write := range []func(bool, *storage.EntityOptions) error{outdated.Update, outdated.Merge, outdated.Delete} {
		err := write(false, nil)
		if err == nil || !strings.Contains(err.Error(), "StatusCode=412, ErrorCode=UpdateConditionNotSatisfied") {
			t.Errorf("the outdated ETag was not refused: %v", err)
		}
	}
	// The quotes are correct, but the ETag does not have the form of the service's ETags.
	outdated.OdataEtag = `W/"datetime''2017-04-01T01%3A07%3A23.8881885Z''"`
	if err := outdated.Merge(false, nil); err == nil || !strings.Contains(err.Error(), "StatusCode=412, ErrorCode=ConditionNotMet") {
		t.Errorf("the ETag of another form was not refused: %v", err)
	}
	first.Properties = properties{"A": "3"}
	check(t, first.Update(false, nil))
	check(t, first.Get(30, storage.FullMetadata, nil))
	equal(t, len(first.Properties), 1)
	check(t, outdated.Delete(true, nil))
	refused(t, first.Get(30, storage.FullMetadata, nil), 404, "ResourceNotFound")

	upserted := entity(table, "p", "u", properties{"A": "1"})
	check(t, upserted.InsertOrMerge(nil))
	upserted.Properties = properties{"B": "2"}
	check(t, upserted.InsertOrMerge(nil))
	check(t, upserted.Get(30, storage.NoMetadata, &storage.GetEntityOptions{Select: []string{"A"}}))
	equal(t, len(upserted.Properties), 1)
	upserted.Properties = properties{"C": "3"}
	check(t, upserted.InsertOrReplace(nil))
	check(t, upserted.Get(30, storage.FullMetadata, nil))
	equal(t, len(upserted.Properties), 1)
}

func TestQueriesComeInPages(t *testing.T) {
	table := newTable(t)
	batch := table.NewBatch()
	for number := range 7 {
		batch.InsertEntity(entity(table, "p", fmt.Sprint(number), properties{"Number": number}))
	}
	check(t, batch.ExecuteBatch())
	keys, pages := query(t, table, &storage.QueryOptions{Top: 3})
	equal(t, keys, "p/0 p/1 p/2 p/3 p/4 p/5 p/6")
	equal(t, fmt.Sprint(pages), "[3 3 1]")
	keys, _ = query(t, table, &storage.QueryOptions{Filter: "Number ge 5 or RowKey eq '1'", Select: []string{"PartitionKey", "RowKey"}})
	equal(t, keys, "p/1 p/5 p/6")
}

func TestABatchIsATransaction(t *testing.T) {
	table := newTable(t)
	for _, row := range []string{"merged", "replaced", "deleted"} {
		check(t, entity(table, "p", row, properties{"A": "1"}).Insert(storage.EmptyPayload, nil))
	}
	batch := table.NewBatch()
	batch.InsertEntity(entity(table, "p", "new", nil))
	batch.MergeEntity(entity(table, "p", "merged", properties{"B": "2"}))
	batch.ReplaceEntity(entity(table, "p", "replaced", properties{"B": "2"}))
	batch.DeleteEntity(entity(table, "p", "deleted", nil), true)
	batch.InsertOrMergeEntity(entity(table, "p", "upserted", nil), true)
	batch.InsertOrReplaceEntity(entity(table, "p", "written", nil), true)
	check(t, batch.ExecuteBatch())
	all := "p/merged p/new p/replaced p/upserted p/written"
	keys, _ := query(t, table, nil)
	equal(t, keys, all)

	failing := table.NewBatch()
	failing.InsertEntity(entity(table, "p", "other", nil))
	failing.InsertEntity(entity(table, "p", "new", nil))
	message := refused(t, failing.ExecuteBatch(), 409, "EntityAlreadyExists")
	equal(t, strings.HasPrefix(message, "Element 1 in the batch"), true)
	keys, _ = query(t, table, nil)
	equal(t, keys, all)
}

func TestStoredAccessPolicies(t *testing.T) {
	table := newTable(t)
	start := time.Now().UTC().Truncate(time.Second)
	policy := storage.TableAccessPolicy{ID: "readers", StartTime: start, ExpiryTime: start.Add(time.Hour), CanRead: true, CanAppend: true}
	check(t, table.SetPermissions([]storage.TableAccessPolicy{policy}, 30, nil))
	stored, err := table.GetPermissions(30, nil)
	check(t, err)
	equal(t, len(stored), 1)
	equal(t, stored[0], policy)
}
