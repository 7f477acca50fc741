package conformance

import (
	"context"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

func TestAnInsertFailsIfTheEntityExists(t *testing.T) {
	table, _ := newTable(t)
	add(t, table, "p", "r", properties{"A": int32(1)})
	_, err := table.AddEntity(context.Background(), encode(t, "p", "r", properties{"A": int32(2)}), nil)
	refused(t, err, 409, "EntityAlreadyExists")
	equal(t, get(t, table, "p", "r").Properties["A"], any(int32(1)))
}

func TestAnInsertAnswersWithTheEntity(t *testing.T) {
	table, _ := newTable(t)
	answer, err := table.AddEntity(context.Background(), encode(t, "p", "r", properties{"A": aztables.EDMInt64(1)}), nil)
	check(t, err)
	entity := decode(t, answer.Value)
	equal(t, keys([]aztables.EDMEntity{entity}), "p/r")
	equal(t, entity.Properties["A"], any(aztables.EDMInt64(1)))
}

func TestAnUpdateFailsWithoutTheEntity(t *testing.T) {
	table, _ := newTable(t)
	for _, mode := range []aztables.UpdateMode{aztables.UpdateModeMerge, aztables.UpdateModeReplace} {
		_, err := table.UpdateEntity(context.Background(), encode(t, "p", "r", nil), &aztables.UpdateEntityOptions{UpdateMode: mode})
		refused(t, err, 404, "ResourceNotFound")
	}
}

func TestAMergeKeepsWhatAReplaceRemoves(t *testing.T) {
	table, _ := newTable(t)
	add(t, table, "p", "r", properties{"Old": "old", "Both": int32(1)})

	merge := &aztables.UpdateEntityOptions{UpdateMode: aztables.UpdateModeMerge}
	_, err := table.UpdateEntity(context.Background(), encode(t, "p", "r", properties{"Both": "other type", "New": true}), merge)
	check(t, err)
	merged := get(t, table, "p", "r").Properties
	equal(t, len(merged), 3)
	equal(t, merged["Old"], any("old"))
	equal(t, merged["Both"], any("other type"))
	equal(t, merged["New"], any(true))

	replace := &aztables.UpdateEntityOptions{UpdateMode: aztables.UpdateModeReplace}
	_, err = table.UpdateEntity(context.Background(), encode(t, "p", "r", properties{"New": false}), replace)
	check(t, err)
	replaced := get(t, table, "p", "r").Properties
	equal(t, len(replaced), 1)
	equal(t, replaced["New"], any(false))
}

func TestAnUpsertInsertsThenMergesOrReplaces(t *testing.T) {
	table, _ := newTable(t)
	for mode, left := range map[aztables.UpdateMode]int{aztables.UpdateModeMerge: 2, aztables.UpdateModeReplace: 1} {
		row, options := string(mode), &aztables.UpsertEntityOptions{UpdateMode: mode}
		first, err := table.UpsertEntity(context.Background(), encode(t, "p", row, properties{"A": int32(1)}), options)
		check(t, err)
		second, err := table.UpsertEntity(context.Background(), encode(t, "p", row, properties{"B": int32(2)}), options)
		check(t, err)
		if first.ETag == second.ETag || second.ETag == "" {
			t.Errorf("%s: the ETag did not change: %s", mode, first.ETag)
		}
		found := get(t, table, "p", row)
		equal(t, found.Properties["B"], any(int32(2)))
		equal(t, len(found.Properties), left)
		equal(t, found.ETag, string(second.ETag))
	}
}
