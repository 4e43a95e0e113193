package ledger

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// Every field of an entry survives encoding and decoding: zeros, and fields that each have a different value.
func TestRecordHoldsEveryField(t *testing.T) {
	var full Entry
	fill(t, reflect.ValueOf(&full).Elem(), new(int64))
	odd := full
	odd.Model, odd.Run = "mo\"d\\el\u2028é<&>", strings.Repeat("r\n\t\x7f", 100)
	for _, want := range []Entry{{}, full, odd} {
		text, err := json.Marshal(&want)
		if err != nil {
			t.Fatal(err)
		}
		var got Entry
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n got %+v\nwant %+v", text, got, want)
		}
		if strings.ContainsRune(string(text), '\n') {
			t.Errorf("a record is one line: %s", text)
		}
	}
}

// fill sets each field to a value that no other field has.
func fill(t *testing.T, v reflect.Value, next *int64) {
	t.Helper()
	*next++
	switch into := v.Addr().Interface().(type) {
	case *time.Time:
		*into = time.Unix(*next, *next).UTC()
		return
	case *uuid.UUID:
		*into = uuid.UUID{15: byte(*next)}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), next)
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(t, field, next)
		}
	case reflect.String:
		v.SetString("v" + strings.Repeat("x", int(*next)))
	case reflect.Int, reflect.Int64:
		v.SetInt(*next)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"name": "v" + strings.Repeat("x", int(*next))}))
	case reflect.Bool:
		v.SetBool(true)
	default:
		t.Fatalf("a field of kind %s: teach this test to fill it", v.Kind())
	}
}
