package rpc_test

import (
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/dynamicpb"

	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestRawJSONGrowsLinearly(t *testing.T) {
	codec := rpc.NewCodecForTest(echoContract.rawJSON, nil)
	inputs := append(growth.Around(`{"payload":`, growth.JSON, "}"), shapes(`"payload":[]`)...)
	growth.Linear(t, growth.Each(inputs, func(text []byte) {
		m := dynamicpb.NewMessage(echoContract.echo)
		if codec.Unmarshal(text, m) == nil {
			_, _ = codec.Marshal(m)
		}
	})...)
}

func TestFastAgreesGrowsLinearly(t *testing.T) {
	codec := rpc.NewCodecForTest(echoContract.rawJSON, nil)
	inputs := growth.Around(`{"reason":`, growth.JSON, "}")
	inputs = append(inputs, shapes(`"reason":"a"`)...)
	inputs = append(inputs, growth.Number("a map", `{"metadata":{"a":"b"`, `,"k#":"v"`, "}}"), growth.Number("a map of numbers", `{"metadata":{"a":"b"`, `,"k#":"v"`, `,"z":1}}`))
	growth.Linear(t, growth.Each(inputs, func(text []byte) {
		_ = codec.Unmarshal(text, new(errdetails.ErrorInfo))
		_ = rpc.UnmarshalStandard(codec, text, new(errdetails.ErrorInfo))
		_, _ = rpc.RawOf(string(text))
	})...)
}

// shapes are hostile objects.
func shapes(member string) []growth.Input {
	return []growth.Input{
		growth.Number("unknown members", "{"+member, `,"x#":1`, "}"),
		growth.Repeat("the same member", "{"+member, ","+member, "}"),
		growth.Repeat("a long name", `{"`, "x", `":1}`),
		growth.Repeat("an escaped name", `{"`, `\u0070`, `":1}`),
		growth.Repeat("space", "{", " ", member+"}"),
		growth.Nest("objects for a message", `{"payload":`, "1", "}"),
	}
}
