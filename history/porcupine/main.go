// An independent judge of histories: it decides with the library porcupine, from the sequential behaviour of a
// partition alone, whether the files of a folder are linearizable, and compares its verdicts with those in the folder.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const timeLimit = 60 * time.Second

// The time of an operation that has no end.
const never = int64(1) << 62

type value map[string]uint64

type version struct {
	ETag  uint64 `json:"etag"`
	Value value  `json:"value"`
}

type mutation struct {
	Row     string  `json:"row"`
	Kind    string  `json:"kind"`
	IfMatch *uint64 `json:"if_match"`
	Value   value   `json:"value"`
}

type entity struct {
	row string
	version
}

func (e *entity) UnmarshalJSON(data []byte) error {
	var parts [2]json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	if err := json.Unmarshal(parts[0], &e.row); err != nil {
		return err
	}
	return json.Unmarshal(parts[1], &e.version)
}

type operation struct {
	Client    int    `json:"client"`
	Call      int64  `json:"call"`
	Return    *int64 `json:"return"`
	Partition string `json:"partition"`
	Get       *struct {
		Row   string   `json:"row"`
		Found *version `json:"found"`
	} `json:"get"`
	Page *struct {
		From   string  `json:"from"`
		Until  *string `json:"until"`
		Filter *struct {
			Property string `json:"property"`
			AtLeast  uint64 `json:"at_least"`
		} `json:"filter"`
		Entities []entity `json:"entities"`
	} `json:"page"`
	Write *struct {
		Mutations []mutation      `json:"mutations"`
		Answer    json.RawMessage `json:"answer"`
	} `json:"write"`
	answer answer
}

type answer struct {
	Done    []*uint64 `json:"done"`
	Refused *struct {
		Index  int    `json:"index"`
		Reason string `json:"reason"`
	} `json:"refused"`
	isUnknown bool
}

// The state of a row. An ETag that no answer has shown yet is represented by its bounds.
type row struct {
	exists bool
	value  value
	etag   uint64
	isOpen bool
	// The Timestamp of an open version is greater than one and less than the other.
	above, below uint64
	// The greatest Timestamp of the row so far.
	last uint64
}

type state struct {
	rows map[string]row
	last uint64
}

type judge struct{ order string }

func equalRows(one, other row) bool {
	return one.exists == other.exists && maps.Equal(one.value, other.value) && one.etag == other.etag &&
		one.isOpen == other.isOpen && one.above == other.above && one.below == other.below && one.last == other.last
}

func (judge judge) model() porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{rows: map[string]row{}}} },
		Step: func(s, input, _ any) []any { return judge.step(s.(state), input.(*operation)) },
		Equal: func(one, other any) bool {
			a, b := one.(state), other.(state)
			return a.last == b.last && maps.EqualFunc(a.rows, b.rows, equalRows)
		},
	}).ToModel()
}

func (judge judge) step(s state, op *operation) []any {
	switch {
	case op.Get != nil:
		next := state{maps.Clone(s.rows), s.last}
		if !next.sees(op.Get.Row, op.Get.Found) {
			return nil
		}
		return []any{next}
	case op.Page != nil:
		next, isCut := judge.page(s, op)
		if !isCut {
			return nil
		}
		return []any{next}
	}
	next, index, reason := judge.write(s, op)
	switch {
	case op.answer.isUnknown:
		if next == nil {
			return []any{s}
		}
		return []any{s, *next}
	case op.answer.Refused != nil:
		if reason != "" && index == op.answer.Refused.Index && reason == op.answer.Refused.Reason {
			return []any{s}
		}
		return nil
	case next == nil:
		return nil
	}
	return []any{*next}
}

// Whether the row is as it was seen. Learns an open ETag.
func (s *state) sees(key string, seen *version) bool {
	known := s.rows[key]
	if seen == nil || !known.exists {
		return seen == nil && !known.exists
	}
	if !maps.Equal(known.value, seen.Value) {
		return false
	}
	if !known.isOpen {
		return known.etag == seen.ETag
	}
	if seen.ETag <= known.above || seen.ETag >= known.below {
		return false
	}
	known.etag, known.isOpen, known.above, known.below = seen.ETag, false, 0, 0
	known.last = max(known.last, seen.ETag)
	s.rows[key] = known
	return true
}

func (judge judge) page(s state, op *operation) (state, bool) {
	page := op.Page
	next := state{maps.Clone(s.rows), s.last}
	isCovered := func(key string) bool { return key >= page.From && (page.Until == nil || key < *page.Until) }
	matches := func(v value) bool {
		if page.Filter == nil {
			return true
		}
		token, exists := v[page.Filter.Property]
		return exists && token >= page.Filter.AtLeast
	}
	seen := map[string]bool{}
	previous := ""
	for at, entity := range page.Entities {
		if !isCovered(entity.row) || at > 0 && entity.row <= previous || !matches(entity.Value) ||
			!next.sees(entity.row, &entity.version) {
			return next, false
		}
		seen[entity.row], previous = true, entity.row
	}
	for key, known := range s.rows {
		if known.exists && isCovered(key) && !seen[key] && matches(known.value) {
			return next, false
		}
	}
	return next, true
}

// Returns the state after a write, or the index of the refused mutation and the reason. Returns neither if the
// Timestamps of the answer are impossible.
func (judge judge) write(s state, op *operation) (*state, int, string) {
	next := state{maps.Clone(s.rows), s.last}
	greatest := s.last
	for index, m := range op.Write.Mutations {
		known := s.rows[m.Row]
		if reason := refusal(m, known); reason != "" {
			return nil, index, reason
		}
		if m.Kind == "delete" {
			next.rows[m.Row] = row{last: known.last}
			continue
		}
		written := row{exists: true, value: maps.Clone(m.Value), last: known.last}
		if (m.Kind == "merge" || m.Kind == "insert-or-merge") && known.exists {
			written.value = maps.Clone(known.value)
			maps.Copy(written.value, m.Value)
		}
		floor := known.last
		switch {
		case judge.order == "life" && !known.exists:
			floor = 0
		case judge.order == "life":
			floor = known.etag
		case judge.order == "partition":
			floor = max(floor, s.last)
		}
		if op.answer.isUnknown || op.answer.Refused != nil {
			written.isOpen, written.above, written.below = true, floor, 1<<63
		} else {
			if index >= len(op.answer.Done) || op.answer.Done[index] == nil || *op.answer.Done[index] <= floor {
				return nil, 0, ""
			}
			written.etag = *op.answer.Done[index]
			written.last = max(written.last, written.etag)
			greatest = max(greatest, written.etag)
		}
		next.rows[m.Row] = written
	}
	if judge.order == "partition" && greatest > s.last {
		// A version whose Timestamp is not known yet precedes this one.
		for key, known := range next.rows {
			if old, exists := s.rows[key]; exists && known.isOpen && old.isOpen && equalRows(known, old) {
				known.below = min(known.below, greatest)
				next.rows[key] = known
			}
		}
	}
	next.last = greatest
	return &next, 0, ""
}

func refusal(m mutation, known row) string {
	switch {
	case m.Kind == "insert-or-replace" || m.Kind == "insert-or-merge":
		return ""
	case m.Kind == "insert" && known.exists:
		return "exists"
	case m.Kind == "insert":
		return ""
	case !known.exists:
		return "not-found"
	case m.IfMatch != nil && (known.isOpen || known.etag != *m.IfMatch):
		return "condition-not-met"
	}
	return ""
}

func read(path string) ([]*operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var history []*operation
	for lines := bufio.NewScanner(file); lines.Scan(); {
		op := &operation{}
		if err := json.Unmarshal(lines.Bytes(), op); err != nil {
			return nil, err
		}
		if op.Write != nil {
			if string(op.Write.Answer) == `"unknown"` {
				op.answer.isUnknown = true
			} else if err := json.Unmarshal(op.Write.Answer, &op.answer); err != nil {
				return nil, err
			}
		}
		history = append(history, op)
	}
	return history, nil
}

// An ETag names one state of a row, whatever the order.
func hasUniqueETags(history []*operation) bool {
	type name struct {
		row  string
		etag uint64
	}
	values := map[name]value{}
	writes := map[name]bool{}
	see := func(key string, seen version) bool {
		known, exists := values[name{key, seen.ETag}]
		values[name{key, seen.ETag}] = seen.Value
		return !exists || maps.Equal(known, seen.Value)
	}
	for _, op := range history {
		switch {
		case op.Get != nil && op.Get.Found != nil && !see(op.Get.Row, *op.Get.Found):
			return false
		case op.Page != nil:
			for _, entity := range op.Page.Entities {
				if !see(entity.row, entity.version) {
					return false
				}
			}
		case op.Write != nil:
			for index, etag := range op.answer.Done {
				if etag == nil {
					continue
				}
				written := name{op.Write.Mutations[index].Row, *etag}
				if writes[written] {
					return false
				}
				writes[written] = true
			}
		}
	}
	return true
}

func (judge judge) verdict(history []*operation) string {
	partitions := map[string][]*operation{}
	for _, op := range history {
		partitions[op.Partition] = append(partitions[op.Partition], op)
	}
	for _, name := range slices.Sorted(maps.Keys(partitions)) {
		if !hasUniqueETags(partitions[name]) {
			return "violated"
		}
		var operations []porcupine.Operation
		for _, op := range partitions[name] {
			end := never
			if op.Return != nil {
				end = *op.Return
			}
			operations = append(operations, porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Call, Return: end})
		}
		switch porcupine.CheckOperationsTimeout(judge.model(), operations, timeLimit) {
		case porcupine.Illegal:
			return "violated"
		case porcupine.Unknown:
			return "undecided"
		}
	}
	return "serializable"
}

func run(folder string) error {
	verdicts, err := os.ReadFile(filepath.Join(folder, "verdicts"))
	if err != nil {
		return err
	}
	counts := map[string]int{}
	disagreements := 0
	for _, line := range strings.Split(strings.TrimSpace(string(verdicts)), "\n") {
		var file, order, other string
		if _, err := fmt.Sscan(line, &file, &order, &other); err != nil {
			return err
		}
		history, err := read(filepath.Join(folder, file))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		own := judge{order}.verdict(history)
		counts[own]++
		if own == "undecided" || other == "undecided" {
			counts["undecided by one"]++
		} else if own != other {
			fmt.Printf("%s (%s): %s, but the checker says %s\n", file, order, own, other)
			disagreements++
		}
	}
	fmt.Printf("%d serializable, %d violated, %d undecided by a judge, %d disagreements\n", counts["serializable"],
		counts["violated"], counts["undecided by one"], disagreements)
	if disagreements > 0 || counts["serializable"] == 0 || counts["violated"] == 0 {
		return fmt.Errorf("the judges disagree, or only one verdict occurred")
	}
	return nil
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: porcupine-judge FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
