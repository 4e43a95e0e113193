package growth

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Calls is a connection to a gRPC face and the methods that it serves.
type Calls struct {
	Conn grpc.ClientConnInterface
	// Methods are full gRPC method names.
	Methods []string
}

// MethodsOf returns the methods behind the routes of a server, as rpc.Server.Served returns them.
func MethodsOf(served map[string]string) []string {
	methods := slices.Compact(slices.Sorted(maps.Values(served)))
	return slices.DeleteFunc(methods, func(method string) bool { return method == "" })
}

// Linear calls every method with ctx, whose metadata authenticates the caller. Each message is encoded by hand and has
// one list of the request at its maximum width. A message of most bytes may allocate, in the whole process, at most
// eight times its own size plus beyond bytes.
func (c Calls) Linear(ctx context.Context, t *testing.T, most, beyond int) {
	t.Helper()
	for _, method := range c.Methods {
		if streams(method) {
			continue // Its message is read like any other, but its response may not end.
		}
		input, err := inputOf(method)
		if err != nil {
			t.Fatal(err)
		}
		wide := Wide(input)
		if len(wide) == 0 {
			continue // A request without lists.
		}
		t.Run(method, func(t *testing.T) {
			Linear(t, Each(wide, func(message []byte) { c.call(ctx, method, message) })...)
			for _, w := range wide {
				message := w.Make(most / w.Unit)
				if took, bound := Allocated(func() { c.call(ctx, method, message) }), uint64(8*len(message)+beyond); took > bound {
					t.Errorf("%s: %d bytes are allocated for a message of %d, want %d at most", w.Name, took, len(message), bound)
				}
			}
		})
	}
}

func streams(method string) bool {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	described, ok := found.(protoreflect.MethodDescriptor)
	return err == nil && ok && described.IsStreamingServer()
}

// call sends a message unchanged. Any result is acceptable.
func (c Calls) call(ctx context.Context, method string, message []byte) {
	var answer []byte
	_ = c.Conn.Invoke(ctx, method, message, &answer, grpc.ForceCodecV2(Bytes{}))
}

// Allocated returns how many bytes the process allocates while work runs.
func Allocated(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Bytes is a gRPC codec for messages that are encoded by hand, as []byte.
type Bytes struct{}

// Name returns the name of protobuf's codec.
func (Bytes) Name() string { return "proto" }

// Marshal sends a []byte.
func (Bytes) Marshal(v any) (mem.BufferSlice, error) {
	message, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("send %T: want []byte", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(message)}, nil
}

// Unmarshal fills a *[]byte.
func (Bytes) Unmarshal(data mem.BufferSlice, v any) error {
	message, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("receive into %T: want *[]byte", v)
	}
	*message = data.Materialize()
	return nil
}

// Wide returns inputs for a message on the wire: each list and map in it, also in nested messages, with the smallest
// possible items, and unknown fields.
func Wide(desc protoreflect.MessageDescriptor) []Input {
	return append(wide(desc, "", nil), wideField("unknown fields", 1999, nil))
}

// wide returns the inputs of a message that is nested in others; in holds their field numbers.
func wide(desc protoreflect.MessageDescriptor, path string, in []protowire.Number) (inputs []Input) {
	for i := range desc.Fields().Len() {
		field := desc.Fields().Get(i)
		name := path + string(field.Name())
		if field.IsList() || field.IsMap() {
			inputs = append(inputs, wideField(name, field.Number(), in))
		}
		if field.Message() != nil && !field.IsMap() && len(in) < 3 { // Messages may be recursive.
			inputs = append(inputs, wide(field.Message(), name+".", append(slices.Clone(in), field.Number()))...)
		}
	}
	return inputs
}

// wideField returns an input that repeats a field with empty values.
func wideField(name string, number protowire.Number, in []protowire.Number) Input {
	unit := append(protowire.AppendTag(nil, number, protowire.BytesType), 0)
	return Input{Name: name, Unit: len(unit), Make: func(n int) []byte {
		message := bytes.Repeat(unit, n)
		for _, outer := range slices.Backward(in) {
			message = protowire.AppendBytes(protowire.AppendTag(nil, outer, protowire.BytesType), message)
		}
		return message
	}}
}
