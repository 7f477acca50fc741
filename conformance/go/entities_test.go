package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
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

func TestEveryTypeComesBackAtItsLimits(t *testing.T) {
	table, _ := newTable(t)
	sent := properties{
		"BooleanFalse":  false,
		"BooleanTrue":   true,
		"Int32Lowest":   int32(math.MinInt32),
		"Int32Highest":  int32(math.MaxInt32),
		"Int64Lowest":   aztables.EDMInt64(math.MinInt64),
		"Int64Highest":  aztables.EDMInt64(math.MaxInt64),
		"DoubleLowest":  -math.MaxFloat64,
		"DoubleHighest": math.MaxFloat64,
		"DoubleLeast":   math.SmallestNonzeroFloat64,
		"DoubleUneven":  0.1,
		"GuidZero":      aztables.EDMGUID("00000000-0000-0000-0000-000000000000"),
		"Guid":          aztables.EDMGUID("c9da6455-213d-42c9-9a79-3e9149a57833"),
		"BinaryEmpty":   aztables.EDMBinary{},
		"BinaryLongest": aztables.EDMBinary(bytes.Repeat([]byte{0, 255}, 32*1024)),
		"StringEmpty":   "",
		"StringLongest": strings.Repeat("ä", 32*1024),
		"StringUnicode": "quote ' and \" and \\, control \u0001\u007f, beyond the first plane 😀, \u2028",
		"StringBlanks":  "  blanks \t\r\n ",
	}
	add(t, table, "p", "r", sent)
	found := get(t, table, "p", "r")
	equal(t, len(found.Properties), len(sent))
	for name, want := range sent {
		if got := found.Properties[name]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %#v, not %#v", name, got, want)
		}
	}
}

func TestTimesComeBackAtTheirLimits(t *testing.T) {
	table, _ := newTable(t)
	times := map[string]time.Time{
		"First":    time.Date(1601, 1, 1, 0, 0, 0, 0, time.UTC),
		"Last":     time.Date(9999, 12, 31, 23, 59, 59, 999_999_900, time.UTC),
		"Fraction": time.Date(2024, 2, 29, 12, 30, 0, 123_456_700, time.UTC),
	}
	sent := properties{}
	for name, moment := range times {
		sent[name] = aztables.EDMDateTime(moment)
	}
	add(t, table, "p", "r", sent)
	found := get(t, table, "p", "r")
	for name, want := range times {
		got, _ := found.Properties[name].(aztables.EDMDateTime)
		if !time.Time(got).Equal(want) {
			t.Errorf("%s: got %v, not %v", name, time.Time(got), want)
		}
	}
	if since := time.Since(time.Time(found.Timestamp)); since.Abs() > 24*time.Hour {
		t.Errorf("the Timestamp is not now: %v", time.Time(found.Timestamp))
	}
}

// The client writes a whole float64 without a decimal point, and has no values for the numbers that JSON lacks. The
// test therefore encodes them itself.
func TestDoublesThatJSONDoesNotHave(t *testing.T) {
	table, _ := newTable(t)
	body := `{"PartitionKey":"p","RowKey":"r"`
	want := map[string]string{"Whole": "5.0", "Nan": `"NaN"`, "Up": `"Infinity"`, "Down": `"-Infinity"`}
	for name, text := range want {
		body += `,"` + name + `@odata.type":"Edm.Double","` + name + `":` + text
	}
	_, err := table.AddEntity(context.Background(), []byte(body+"}"), nil)
	check(t, err)

	found, err := table.GetEntity(context.Background(), "p", "r", nil)
	check(t, err)
	var raw map[string]any
	check(t, json.Unmarshal(found.Value, &raw))
	equal(t, raw["Whole"], any(5.0))
	equal(t, raw["Nan"], any("NaN"))
	equal(t, raw["Nan@odata.type"], any("Edm.Double"))
	equal(t, raw["Up"], any("Infinity"))
	equal(t, raw["Down"], any("-Infinity"))

	add(t, table, "p", "untyped", properties{"Whole": 5.0})
	equal(t, get(t, table, "p", "untyped").Properties["Whole"], any(int32(5)))
}

func TestAPropertyThatIsNullIsNotKept(t *testing.T) {
	table, _ := newTable(t)
	add(t, table, "p", "r", properties{"Kept": "value", "Null": nil})
	equal(t, len(get(t, table, "p", "r").Properties), 1)
}

func TestKeysComeBackWithEveryCharacter(t *testing.T) {
	table, _ := newTable(t)
	// The client does not read entities with empty keys.
	for _, text := range []string{" ", "it's", "%25 + &=", "ä€😀", "a,b;c:d", "(b)", "\"", strings.Repeat("k", 512)} {
		// Do not use EDMEntity, which doubles the quotes in the keys in the body, where doubled quotes have no special
		// meaning.
		body, err := json.Marshal(properties{"PartitionKey": text, "RowKey": text, "A": 1})
		check(t, err)
		_, err = table.AddEntity(context.Background(), body, nil)
		check(t, err)
		found := get(t, table, text, text)
		equal(t, found.PartitionKey, text)
		equal(t, found.RowKey, text)
		_, err = table.DeleteEntity(context.Background(), text, text, nil)
		check(t, err)
	}
}

func TestTheLevelOfMetadataIsChosen(t *testing.T) {
	table, name := newTable(t)
	add(t, table, "p", "r", properties{"Guid": aztables.EDMGUID("c9da6455-213d-42c9-9a79-3e9149a57833")})
	for level, want := range map[aztables.MetadataFormat]string{
		aztables.MetadataFormatNone:    "Guid PartitionKey RowKey Timestamp",
		aztables.MetadataFormatMinimal: "Guid Guid@odata.type PartitionKey RowKey Timestamp odata.etag odata.metadata",
		aztables.MetadataFormatFull: "Guid Guid@odata.type PartitionKey RowKey Timestamp Timestamp@odata.type " +
			"odata.editLink odata.etag odata.id odata.metadata odata.type",
	} {
		found, err := table.GetEntity(context.Background(), "p", "r", &aztables.GetEntityOptions{Format: &level})
		check(t, err)
		equal(t, members(t, found.Value), want)
	}
	full := aztables.MetadataFormatFull
	found, err := table.GetEntity(context.Background(), "p", "r", &aztables.GetEntityOptions{Format: &full})
	check(t, err)
	entity := decode(t, found.Value)
	equal(t, entity.Type, account+"."+name)
	equal(t, entity.EditLink, name+"(PartitionKey='p',RowKey='r')")
	equal(t, entity.ID, endpoint+name+"(PartitionKey='p',RowKey='r')")
}
