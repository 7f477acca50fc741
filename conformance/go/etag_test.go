package conformance

import (
	"context"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

func TestAnUpdateNeedsTheCurrentETag(t *testing.T) {
	table, _ := newTable(t)
	for _, mode := range []aztables.UpdateMode{aztables.UpdateModeMerge, aztables.UpdateModeReplace} {
		row := string(mode)
		first := add(t, table, "p", row, properties{"A": int32(1)})
		update := func(value int32, condition azcore.ETag) (aztables.UpdateEntityResponse, error) {
			body := encode(t, "p", row, properties{"A": value})
			return table.UpdateEntity(context.Background(), body, &aztables.UpdateEntityOptions{IfMatch: &condition, UpdateMode: mode})
		}
		second, err := update(2, first)
		check(t, err)
		if second.ETag == first || second.ETag == "" {
			t.Errorf("%s: the ETag did not change: %s", mode, first)
		}
		_, err = update(3, first)
		refused(t, err, 412, "UpdateConditionNotSatisfied")
		_, err = update(4, azcore.ETagAny)
		check(t, err)
		found := get(t, table, "p", row)
		equal(t, found.Properties["A"], any(int32(4)))
		if azcore.ETag(found.ETag) == second.ETag {
			t.Errorf("%s: the ETag did not change: %s", mode, found.ETag)
		}
	}
}

func TestADeletionNeedsTheCurrentETag(t *testing.T) {
	table, _ := newTable(t)
	first := add(t, table, "p", "r", nil)
	changed, err := table.UpdateEntity(context.Background(), encode(t, "p", "r", properties{"A": int32(1)}), nil)
	check(t, err)
	_, err = table.DeleteEntity(context.Background(), "p", "r", &aztables.DeleteEntityOptions{IfMatch: &first})
	refused(t, err, 412, "UpdateConditionNotSatisfied")
	_, err = table.DeleteEntity(context.Background(), "p", "r", &aztables.DeleteEntityOptions{IfMatch: &changed.ETag})
	check(t, err)
	_, err = table.DeleteEntity(context.Background(), "p", "r", nil)
	refused(t, err, 404, "ResourceNotFound")
}

func TestTheETagOfAnAnswerIsThatOfTheEntity(t *testing.T) {
	table, _ := newTable(t)
	added := add(t, table, "p", "r", nil)
	found, err := table.GetEntity(context.Background(), "p", "r", nil)
	check(t, err)
	equal(t, found.ETag, added)
	equal(t, azcore.ETag(decode(t, found.Value).ETag), added)
	listed, _ := query(t, table, nil)
	equal(t, azcore.ETag(listed[0].ETag), added)
}
