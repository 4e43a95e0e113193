package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/testkit/growth"
)

// The field numbers of Echo.
const (
	echoName    = 1
	echoPayload = 2
	echoItems   = 3
	echoParts   = 5
)

// field encodes a field of bytes, a string or a message.
func field(number protowire.Number, value string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), value))
}

// deepMessage returns a message nested so many levels deep.
func deepMessage(levels int) string {
	var text string
	for range levels - 1 {
		text = field(echoItems, text)
	}
	return text
}

// sent makes a call with a message that is encoded by hand.
func (b *bench) sent(ctx context.Context, method, message string) error {
	var answer []byte
	if method != "Watch" {
		return b.conn.Invoke(ctx, "/rpctest.EchoService/"+method, []byte(message), &answer, grpc.ForceCodecV2(growth.Bytes{}))
	}
	stream, err := b.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/rpctest.EchoService/"+method, grpc.ForceCodecV2(growth.Bytes{}))
	if err != nil {
		return err
	}
	if err := stream.SendMsg([]byte(message)); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return errors.Join(stream.CloseSend(), stream.RecvMsg(&answer))
}

const wireBody = 4 << 20

var hostileMessages = map[string]struct {
	message string
	code    codes.Code
	says    string
}{
	"items at the bound":         {strings.Repeat(field(echoItems, ""), jsoncheck.MaxContainers), codes.OK, ""},
	"items beyond the bound":     {strings.Repeat(field(echoItems, ""), jsoncheck.MaxContainers+1), codes.InvalidArgument, "message: " + rpc.RuleItems},
	"items within one another":   {field(echoItems, strings.Repeat(field(echoItems, ""), jsoncheck.MaxContainers)), codes.InvalidArgument, "message: " + rpc.RuleItems},
	"parts beyond the bound":     {strings.Repeat(field(echoParts, ""), jsoncheck.MaxContainers+1), codes.InvalidArgument, "message: " + rpc.RuleItems},
	"unknown fields":             {strings.Repeat(field(99, ""), 1<<20), codes.OK, ""},
	"one unknown field":          {field(99, strings.Repeat("x", 1<<20)), codes.OK, ""},
	"unknown groups":             {strings.Repeat("\x9b\x06", 1000) + strings.Repeat("\x9c\x06", 1000), codes.OK, ""},
	"unknown groups, very deep":  {strings.Repeat("\x9b\x06", 1<<19) + strings.Repeat("\x9c\x06", 1<<19), codes.InvalidArgument, "message: " + rpc.RuleWire},
	"unknown groups, unclosed":   {strings.Repeat("\x9b\x06", 1<<20), codes.InvalidArgument, "message: " + rpc.RuleWire},
	"messages at the depth":      {deepMessage(jsoncheck.MaxDepth), codes.OK, ""},
	"messages beyond the depth":  {deepMessage(jsoncheck.MaxDepth + 1), codes.InvalidArgument, "message: " + jsoncheck.RuleDepth},
	"messages far beyond it":     {deepMessage(20_000), codes.InvalidArgument, "message: " + jsoncheck.RuleDepth},
	"long, beyond the depth":     {deepMessage(jsoncheck.MaxDepth+1) + field(99, strings.Repeat("x", 1<<20)), codes.InvalidArgument, "message: " + jsoncheck.RuleDepth},
	"JSON at the depth":          {field(echoPayload, nested(jsoncheck.MaxDepth)), codes.OK, ""},
	"JSON beyond the depth":      {field(echoPayload, nested(jsoncheck.MaxDepth+1)), codes.InvalidArgument, "payload: " + jsoncheck.RuleDepth},
	"JSON within a message":      {field(echoItems, "") + field(echoItems, field(echoPayload, nested(9000))), codes.InvalidArgument, "items[1].payload: " + jsoncheck.RuleDepth},
	"JSON in a list":             {field(echoParts, "1") + field(echoParts, nested(9000)), codes.InvalidArgument, "parts[1]: " + jsoncheck.RuleDepth},
	"JSON of many arrays":        {field(echoPayload, strings.Repeat("[],", jsoncheck.MaxContainers+1)), codes.InvalidArgument, "payload: " + jsoncheck.RuleContainers},
	"many arrays in all":         {strings.Repeat(field(echoParts, strings.Repeat("[]", 1000)), 263), codes.InvalidArgument, "parts[262]: " + jsoncheck.RuleContainers},
	"a text that is not UTF-8":   {field(echoName, "\xff"), codes.InvalidArgument, "message: " + rpc.RuleWire},
	"bytes that are no message":  {"\xff\xff\xff", codes.InvalidArgument, "message: " + rpc.RuleWire},
	"a length beyond the end":    {"\x0a\x7f", codes.InvalidArgument, "message: " + rpc.RuleWire},
	"a length beyond all bounds": {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", codes.InvalidArgument, "message: " + rpc.RuleWire},
	"field number 0":             {"\x02\x00", codes.InvalidArgument, "message: " + rpc.RuleWire},
	"more bytes than are taken":  {field(99, strings.Repeat("x", wireBody)), codes.ResourceExhausted, "larger than max"},
}

// Hostile messages encoded by hand are refused, over unary calls and streams alike. The response names the rule, and
// the service stays available.
func TestMessagesAreBounded(t *testing.T) {
	b := setup(t, func(context.Context, *dynamicpb.Message) (*dynamicpb.Message, error) {
		return dynamicpb.NewMessage(echoContract.echo), nil
	}, func(o *rpc.Options) { o.MaxBody = wireBody })
	ctx := outgoing(t.Context(), "authorization", "Bearer svc")
	for name, tt := range hostileMessages {
		for _, method := range []string{"Echo", "Watch"} {
			err := b.sent(ctx, method, tt.message)
			if status.Code(err) != tt.code || !strings.Contains(status.Convert(err).Message(), tt.says) {
				t.Errorf("%s to %s: %v, want %s %q", name, method, err, tt.code, tt.says)
			}
		}
	}
	if err := b.callUnary(ctx); err != nil {
		t.Errorf("an ordinary call after all: %v", err)
	}
}

// gRPC's own services read messages within the same limits.
func TestMessagesOfHealthAreBounded(t *testing.T) {
	b := setup(t, echo)
	var answer []byte
	err := b.conn.Invoke(t.Context(), healthpb.Health_Check_FullMethodName, []byte(field(1, "\xff")), &answer, grpc.ForceCodecV2(growth.Bytes{}))
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("a text that is not UTF-8: %v", err)
	}
}

// A caller without a token is refused before its message is read.
func TestCallerIsKnownBeforeItsMessage(t *testing.T) {
	b := setup(t, echo)
	for _, method := range []string{"Echo", "Watch"} {
		if err := b.sent(t.Context(), method, "\xff"); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: %v", method, err)
		}
	}
	if lines := strings.Count(b.log.String(), `"reason":"unauthenticated"`); lines != 2 {
		t.Errorf("%d log lines, want one for each call:\n%s", lines, b.log.String())
	}
	if err := b.sent(t.Context(), "No"+strings.Repeat("o", 1<<10), ""); status.Code(err) != codes.Unimplemented {
		t.Errorf("an unknown method: %v", err)
	}
}

// The memory of a decoded message is bounded by its size, or by the number of its items if they are small.
func TestReadingAMessageTakesLittle(t *testing.T) {
	const size, most = 8 << 20, 96 << 20
	for name, unit := range map[string]string{
		"empty messages":     field(echoItems, ""),
		"messages of one":    field(echoItems, field(echoItems, "")),
		"empty parts":        field(echoParts, ""),
		"unknown fields":     field(99, ""),
		"a text once more":   field(echoName, "x"),
		"messages of a text": field(echoItems, field(echoName, strings.Repeat("x", 100))),
	} {
		message := []byte(strings.Repeat(unit, size/len(unit)))
		into := dynamicpb.NewMessage(echoContract.echo)
		if took := growth.Allocated(func() { _ = rpc.DecodeForTest(echoContract.rawJSON, message, into) }); took > most {
			t.Errorf("%s: %d bytes allocated for a message of %d, more than %d", name, took, len(message), most)
		}
	}
}

func TestDecodeGrowsLinearly(t *testing.T) {
	repeat := func(name, unit string) growth.Input { return growth.Repeat(name, "", unit, "") }
	inputs := []growth.Input{
		repeat("empty messages", field(echoItems, "")), repeat("empty parts", field(echoParts, "")),
		repeat("unknown fields", field(99, "")), repeat("a text once more", field(echoName, "x")),
		repeat("numbers", "\x20\x01"), repeat("unclosed groups", "\x9b\x06"), repeat("tags of no field", "\x00"),
		{Name: "groups", Unit: 4, Make: func(n int) []byte {
			return append(bytes.Repeat([]byte("\x9b\x06"), n), bytes.Repeat([]byte("\x9c\x06"), n)...)
		}},
		{Name: "JSON", Unit: 2, Make: func(n int) []byte { return []byte(field(echoPayload, strings.Repeat("[]", n))) }},
		{Name: "JSON in parts", Unit: 6, Make: func(n int) []byte { return []byte(strings.Repeat(field(echoParts, `{"a"`), n)) }},
	}
	inputs = append(inputs, growth.Input{Name: "nested messages", Unit: 4, Most: 32 << 10, Make: func(n int) []byte { return []byte(deepMessage(n)) }})
	growth.Linear(t, growth.Each(inputs, func(message []byte) {
		into := dynamicpb.NewMessage(echoContract.echo)
		_ = rpc.CheckWire(message, echoContract.echo)
		if rpc.DecodeForTest(echoContract.rawJSON, message, into) == nil {
			_ = rpc.Validate(into)
		}
	})...)
}

// BenchmarkDecode compares decoding a message with limits and without.
func BenchmarkDecode(b *testing.B) {
	turn := field(echoItems, field(echoName, "user")+field(echoPayload, `{"type":"text","text":"`+strings.Repeat("It is so. ", 20)+`"}`))
	for _, turns := range []int{4, 100, 10_000} {
		message := []byte(strings.Repeat(turn, turns))
		b.Run(fmt.Sprint(turns, " turns/bounded"), func(b *testing.B) {
			for b.Loop() {
				if err := rpc.DecodeForTest(echoContract.rawJSON, message, dynamicpb.NewMessage(echoContract.echo)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprint(turns, " turns/protobuf"), func(b *testing.B) {
			for b.Loop() {
				if err := proto.Unmarshal(message, dynamicpb.NewMessage(echoContract.echo)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
