package conformance

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

func action(t *testing.T, kind aztables.TransactionType, partition, row string, more properties) aztables.TransactionAction {
	t.Helper()
	return aztables.TransactionAction{ActionType: kind, Entity: encode(t, partition, row, more)}
}

// failsAt ends the test unless the action with the given index failed the transaction with the given code.
func failsAt(t *testing.T, err error, index int, code string) {
	t.Helper()
	// The client does not extract the code from a multipart response, and its status is the status of the whole batch.
	answer := refused(t, err, 202, "")
	body, err := io.ReadAll(answer.RawResponse.Body)
	check(t, err)
	if want := fmt.Sprintf(`"code":"%s","message":{"lang":"en-US","value":"%d:`, code, index); !strings.Contains(string(body), want) {
		t.Fatalf("the answer does not have %s\n%s", want, body)
	}
}

func TestATransactionHasEveryKindOfAction(t *testing.T) {
	table, _ := newTable(t)
	etag := add(t, table, "p", "conditional", properties{"A": int32(1)})
	for _, row := range []string{"merged", "replaced", "deleted"} {
		add(t, table, "p", row, properties{"A": int32(1)})
	}
	conditional := action(t, aztables.TransactionTypeUpdateMerge, "p", "conditional", properties{"B": int32(2)})
	conditional.IfMatch = &etag
	existing := azcore.ETagAny
	merged := action(t, aztables.TransactionTypeUpdateMerge, "p", "merged", properties{"B": int32(2)})
	merged.IfMatch = &existing
	replaced := action(t, aztables.TransactionTypeUpdateReplace, "p", "replaced", properties{"B": int32(2)})
	replaced.IfMatch = &existing
	_, err := table.SubmitTransaction(context.Background(), []aztables.TransactionAction{
		action(t, aztables.TransactionTypeAdd, "p", "added", properties{"B": int32(2)}),
		conditional, merged, replaced,
		action(t, aztables.TransactionTypeInsertMerge, "p", "upserted", properties{"B": int32(2)}),
		action(t, aztables.TransactionTypeInsertReplace, "p", "written", properties{"B": int32(2)}),
		action(t, aztables.TransactionTypeDelete, "p", "deleted", nil),
	}, nil)
	check(t, err)
	found, _ := query(t, table, nil)
	equal(t, keys(found), "p/added p/conditional p/merged p/replaced p/upserted p/written")
	for _, entity := range found {
		want := 1
		if entity.RowKey == "conditional" || entity.RowKey == "merged" {
			want = 2
		}
		equal(t, len(entity.Properties), want)
		equal(t, entity.Properties["B"], any(int32(2)))
	}
}

func TestAFailedTransactionChangesNothing(t *testing.T) {
	table, _ := newTable(t)
	add(t, table, "p", "there", properties{"A": int32(1)})
	_, err := table.SubmitTransaction(context.Background(), []aztables.TransactionAction{
		action(t, aztables.TransactionTypeAdd, "p", "new", nil),
		action(t, aztables.TransactionTypeDelete, "p", "there", nil),
		action(t, aztables.TransactionTypeDelete, "p", "missing", nil),
	}, nil)
	failsAt(t, err, 2, "ResourceNotFound")
	found, _ := query(t, table, nil)
	equal(t, keys(found), "p/there")
}

func TestTheFailingActionIsNamed(t *testing.T) {
	table, _ := newTable(t)
	old := add(t, table, "p", "there", nil)
	_, err := table.UpdateEntity(context.Background(), encode(t, "p", "there", nil), nil)
	check(t, err)
	good := action(t, aztables.TransactionTypeInsertMerge, "p", "new", nil)
	outdated := action(t, aztables.TransactionTypeUpdateReplace, "p", "there", nil)
	outdated.IfMatch = &old

	for _, failing := range []struct {
		code   string
		action aztables.TransactionAction
	}{
		{"EntityAlreadyExists", action(t, aztables.TransactionTypeAdd, "p", "there", nil)},
		{"UpdateConditionNotSatisfied", outdated},
		{"CommandsInBatchActOnDifferentPartitions", action(t, aztables.TransactionTypeAdd, "q", "other", nil)},
		{"InvalidDuplicateRow", good},
		{"PropertyValueTooLarge", action(t, aztables.TransactionTypeAdd, "p", "a", properties{"A": strings.Repeat("a", 32*1024+1)})},
	} {
		_, err := table.SubmitTransaction(context.Background(), []aztables.TransactionAction{good, failing.action}, nil)
		failsAt(t, err, 1, failing.code)
	}
	found, _ := query(t, table, nil)
	equal(t, keys(found), "p/there")
}

func TestATransactionHasAtMostAHundredActions(t *testing.T) {
	table, _ := newTable(t)
	fill(t, table, "hundred", 100)
	var actions []aztables.TransactionAction
	for number := range 101 {
		actions = append(actions, action(t, aztables.TransactionTypeAdd, "p", fmt.Sprintf("%03d", number), nil))
	}
	_, err := table.SubmitTransaction(context.Background(), actions, nil)
	failsAt(t, err, 99, "InvalidInput")
	found, _ := query(t, table, nil)
	equal(t, len(found), 100)
}

func TestATransactionInATableThatDoesNotExist(t *testing.T) {
	table := newService(t).NewClient(newName())
	actions := []aztables.TransactionAction{action(t, aztables.TransactionTypeAdd, "p", "r", nil)}
	_, err := table.SubmitTransaction(context.Background(), actions, nil)
	failsAt(t, err, 0, "TableNotFound")
}
