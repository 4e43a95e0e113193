package rpc_test

import (
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/services/platform/rpc"
)

// What the quick way takes, the thorough one reads alike.
func FuzzQuickReadsAlike(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"reason":"a","domain":"b","metadata":{"k":"v","":"é"}}`, `{"reason":"\ud83d\ude00\u0000\/"}`,
		`{"reason":"a","reason":"b"}`, `{"metadata":{"k":"1","k":"2"}}`, `{"Reason":"a"}`, `{"reason":1}`, `{"reason":"\ud800"}`,
		`{"metadata":{"k":1}}`, `{"metadata":[]}`, `[]`, ` { } `, `{} x`, "{\"reason\":\"\xff\"}", `{"reason":"a",}`,
	} {
		f.Add(seed)
	}
	codec := rpc.NewCodecForTest(echoContract.rawJSON)
	f.Fuzz(func(t *testing.T, body string) {
		var quick, thorough errdetails.ErrorInfo
		if codec.Unmarshal([]byte(body), &quick) != nil {
			return
		}
		if err := rpc.UnmarshalThoroughly(codec, []byte(body), &thorough); err != nil {
			t.Fatalf("%s: only the quick way reads it: %v", body, err)
		}
		if !proto.Equal(&quick, &thorough) {
			t.Errorf("%s: %v, thoroughly %v", body, &quick, &thorough)
		}
	})
}
