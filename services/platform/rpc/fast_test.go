package rpc_test

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/services/platform/rpc"
)

// unmarshalFast accepts exactly what it supports. The rest is left to protojson, to refuse or to read more leniently.
func TestFastReads(t *testing.T) {
	codec := rpc.NewCodecForTest(echoContract.rawJSON, nil)
	long := strings.Repeat("a", 37)
	for _, test := range []struct {
		name, body string
		into       proto.Message
		taken      bool
	}{
		{"an empty object", `{}`, &errdetails.ErrorInfo{}, true},
		{"space everywhere", " { \"reason\" :\t\"a\"\r\n} ", &errdetails.ErrorInfo{}, true},
		{"a map", `{"metadata":{"a":"b","c":"d"}}`, &errdetails.ErrorInfo{}, true},
		{"messages", `{"field_violations":[{"field":"a"},{"field":"b","localized_message":{"locale":"de"}},{},{},{}]}`, &errdetails.BadRequest{}, true},
		{"texts", `{"stack_entries":["a","b","c","d","e"],"detail":"x"}`, &errdetails.DebugInfo{}, true},
		{"escapes", `{"reason":"` + long + `\n\u00e9\ud83d\ude00"}`, &errdetails.ErrorInfo{}, true},
		{"a quote after an escape", `{"reason":"1234567\"b` + long + `"}`, &errdetails.ErrorInfo{}, true},
		{"null", `{"reason":null,"metadata":null}`, &errdetails.ErrorInfo{}, true},
		{"nothing", ``, &errdetails.ErrorInfo{}, false},
		{"a list", `[]`, &errdetails.ErrorInfo{}, false},
		{"more than one value", `{}{}`, &errdetails.ErrorInfo{}, false},
		{"a zero byte at the end", "{}\x00", &errdetails.ErrorInfo{}, false},
		{"a comma too many", `{"reason":"a",}`, &errdetails.ErrorInfo{}, false},
		{"a comma too many in a list", `{"stack_entries":["a",]}`, &errdetails.DebugInfo{}, false},
		{"no comma", `{"reason":"a" "domain":"b"}`, &errdetails.ErrorInfo{}, false},
		{"no end", `{"reason":"a"`, &errdetails.ErrorInfo{}, false},
		{"no end of a text", `{"reason":"` + long, &errdetails.ErrorInfo{}, false},
		{"an escape without an end", `{"reason":"\`, &errdetails.ErrorInfo{}, false},
		{"an unknown escape", `{"reason":"\x"}`, &errdetails.ErrorInfo{}, false},
		{"half a pair", `{"reason":"\ud800"}`, &errdetails.ErrorInfo{}, false},
		{"a control character", "{\"reason\":\"" + long + "\x1f\"}", &errdetails.ErrorInfo{}, false},
		{"a control character among others", "{\"reason\":\"abc\tdefghijklm\"}", &errdetails.ErrorInfo{}, false},
		{"no UTF-8", "{\"reason\":\"\xff\"}", &errdetails.ErrorInfo{}, false},
		{"a name twice", `{"reason":"a","reason":"b"}`, &errdetails.ErrorInfo{}, false},
		{"a name twice, once null", `{"reason":null,"reason":"b"}`, &errdetails.ErrorInfo{}, false},
		{"a key twice", `{"metadata":{"a":"b","\u0061":"c"}}`, &errdetails.ErrorInfo{}, false},
		{"an unknown name", `{"reasons":"a"}`, &errdetails.ErrorInfo{}, false},
		{"a name in JSON's spelling", `{"fieldViolations":[]}`, &errdetails.BadRequest{}, false},
		{"a name with an escape", `{"\u0072eason":"a"}`, &errdetails.ErrorInfo{}, false},
		{"another kind", `{"reason":1}`, &errdetails.ErrorInfo{}, false},
		{"null in a list", `{"stack_entries":[null]}`, &errdetails.DebugInfo{}, false},
		{"null among messages", `{"field_violations":[null]}`, &errdetails.BadRequest{}, false},
		{"a message with a duration", `{}`, &errdetails.RetryInfo{}, false},
		{"a moment by itself", `{}`, &timestamppb.Timestamp{}, false},
		{"a message made at run time", `{}`, dynamicpb.NewMessage(echoContract.echo), false},
	} {
		if taken := rpc.UnmarshalFast(codec, []byte(test.body), test.into); taken != test.taken {
			t.Errorf("%s: accepted is %t", test.name, taken)
			continue
		}
		standard := test.into.ProtoReflect().New().Interface()
		if test.taken { // A body that is not accepted changes nothing.
			if err := rpc.UnmarshalStandard(codec, []byte(test.body), standard); err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
		}
		if !proto.Equal(test.into, standard) {
			t.Errorf("%s: %v, want %v", test.name, test.into, standard)
		}
	}
}

// opaqueInfo is ErrorInfo in the layout of protobuf's opaque API: fields are hidden, and a bitmap holds their presence.
type opaqueInfo struct {
	*errdetails.ErrorInfo

	xxx_hidden_Reason   *string           //nolint:revive,unused // the name that protoc-gen-go gives
	xxx_hidden_Domain   *string           //nolint:revive,unused // the same
	xxx_hidden_Metadata map[string]string //nolint:revive,unused // the same
	XXX_presence        [1]uint32         //nolint:revive // the same
}

// Messages of the opaque API are left to protojson: writing to their fields would not set their presence, or would
// panic.
func TestUnmarshalFastLeavesOpaqueMessages(t *testing.T) {
	codec := rpc.NewCodecForTest(echoContract.rawJSON, nil)
	m := &opaqueInfo{ErrorInfo: new(errdetails.ErrorInfo)}
	if rpc.UnmarshalFast(codec, []byte(`{"reason":"a"}`), m) {
		t.Errorf("%T is read by its fields", m)
	}
	if err := codec.Unmarshal([]byte(`{"reason":"a"}`), m); err != nil {
		t.Fatal(err)
	}
	if m.GetReason() != "a" {
		t.Errorf("protojson read %v, want the reason a", m.ErrorInfo)
	}
}

// Raw JSON is what encoding/json accepts except null, with nothing after it. Very deep values are left to
// unmarshalStandard.
func TestRawOf(t *testing.T) {
	for _, text := range []string{
		`"a"`, `"\"\\\u00e9"`, `"\x"`, `"\u00g0"`, `"\u12"`, `"\`, `0`, `-0`, `01`, `1.`, `.5`, `1e5`, `1e`, `+1`, `-`, `true`, `tru`, `nul`,
		`[]`, `[1,[2]]`, `[1,]`, `[,]`, `[1 2]`, `{}`, `{"a":1,"a":2}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"\x":1}`, `{"a":1,}`, `[`, `{`, `]`, `"`, ``,
	} {
		raw, ok := rpc.RawOf(" " + text + " ")
		if taken := ok && string(raw) == text; taken != json.Valid([]byte(text)) {
			t.Errorf("%s: %s %t", text, raw, ok)
		}
		if ok && cap(raw) != len(raw) {
			t.Errorf("%s: what is appended to it would overwrite the body", text)
		}
	}
	if _, ok := rpc.RawOf("null"); ok {
		t.Error("null is a value")
	}
}

// Whatever unmarshalFast accepts, unmarshalStandard decodes to the same message.
func FuzzFastAgrees(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"reason":"a","domain":"b","metadata":{"k":"v","":"é"}}`, `{"reason":"\ud83d\ude00\u0000\/"}`,
		`{"reason":"a","reason":"b"}`, `{"metadata":{"k":"1","k":"2"}}`, `{"Reason":"a"}`, `{"reason":1}`, `{"reason":"\ud800"}`,
		`{"metadata":{"k":1}}`, `{"metadata":[]}`, `[]`, ` { } `, `{} x`, "{\"reason\":\"\xff\"}", `{"reason":"a",}`,
	} {
		f.Add(seed)
	}
	codec := rpc.NewCodecForTest(echoContract.rawJSON, nil)
	f.Fuzz(func(t *testing.T, body string) {
		var fast, standard errdetails.ErrorInfo
		if codec.Unmarshal([]byte(body), &fast) != nil {
			return
		}
		if err := rpc.UnmarshalStandard(codec, []byte(body), &standard); err != nil {
			t.Fatalf("%s: only unmarshalFast reads it: %v", body, err)
		}
		if !proto.Equal(&fast, &standard) {
			t.Errorf("%s: unmarshalFast %v, unmarshalStandard %v", body, &fast, &standard)
		}
	})
}
