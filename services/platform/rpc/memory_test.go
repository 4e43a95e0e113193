package rpc_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/rpc"
)

// Refusing a body takes memory in proportion to its size, however many values it holds.
func TestRefusingABodyTakesLittle(t *testing.T) {
	const size, factor = 1 << 20, 8
	many := func(item string) string { return strings.TrimSuffix(strings.Repeat(item+",", size/(len(item)+1)), ",") }
	codec := rpc.NewCodecForTest(echoContract.rawJSON, nil)
	for name, body := range map[string]struct {
		text string
		into proto.Message
	}{
		"numbers for messages": {`{"field_violations":[` + many("0") + `]}`, &errdetails.BadRequest{}},
		"numbers for texts":    {`{"stack_entries":[` + many("0") + `]}`, &errdetails.DebugInfo{}},
		"numbers for a map":    {`{"metadata":[` + many("0") + `]}`, &errdetails.ErrorInfo{}},
		"beside raw JSON":      {`{"items":[` + many("0") + `]}`, dynamicpb.NewMessage(echoContract.echo)},
		"lists in lists":       {`{"stack_entries":[` + many("[]") + `]}`, &errdetails.DebugInfo{}},
		"names":                {`{` + many(`"":0`) + `}`, &errdetails.ErrorInfo{}},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := codec.Unmarshal([]byte(body.text), body.into)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: taken", name)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > factor*size {
			t.Errorf("%s: %d bytes allocated for a body of %d, more than %d times as much", name, took, len(body.text), factor)
		}
	}
}

// A list with more items than any real request has is refused before it is decoded.
func TestContainersOfABodyAreBounded(t *testing.T) {
	b := setup(t, echo, func(o *rpc.Options) { o.MaxBody = 1 << 20 })
	code, text, _ := b.do(t, "POST", "/v1/echo/ann", "svc", `{"payload":[`+strings.Repeat("{},", jsoncheck.MaxContainers)+`0]}`)
	if code != http.StatusBadRequest {
		t.Errorf("status %d, want 400", code)
	}
	if want := "body: " + jsoncheck.RuleContainers; !strings.Contains(text, want) {
		t.Errorf("the answer lacks %q: %s", want, text)
	}
}
