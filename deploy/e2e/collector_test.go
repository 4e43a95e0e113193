//go:build e2e

package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// exported is the trace collector that every gateway sends its spans to over OTLP.
var exported = newCollector(&knownSecrets)

// collector receives spans as raw bytes, whatever they contain, and searches them for secrets at once: every secret is
// added to knownSecrets before its first use.
type collector struct {
	url  string
	list *secretList

	mu    sync.Mutex
	seen  map[string]bool // whether a span held the text, by text that a test waits for
	found []error
}

func newCollector(list *secretList) *collector {
	c := &collector{list: list, seen: map[string]bool{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	c.url = "http://" + listener.Addr().String()
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawBytes{}), grpc.MaxRecvMsgSize(64<<20), grpc.UnknownServiceHandler(c.take))
	go func() { _ = server.Serve(listener) }() // for as long as the tests run
	return c
}

// take searches a message and answers with an empty one, which says that everything was accepted.
func (c *collector) take(_ any, stream grpc.ServerStream) error {
	var message []byte
	if err := stream.RecvMsg(&message); err != nil {
		return err
	}
	c.mu.Lock()
	for text := range c.seen {
		c.seen[text] = c.seen[text] || bytes.Contains(message, []byte(text))
	}
	c.found = append(c.found, c.list.leaks("a span", message)...)
	c.mu.Unlock()
	return stream.SendMsg(&[]byte{})
}

// expect returns a condition that is met once a span with the text has arrived after this call.
func (c *collector) expect(text string) func() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[text] = false
	return func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.seen[text] {
			return fmt.Errorf("no span holds %s", text)
		}
		return nil
	}
}

func (c *collector) leaks() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.found...)
}

// rawBytes is a codec that leaves messages unchanged.
type rawBytes struct{}

var _ encoding.CodecV2 = rawBytes{}

func (rawBytes) Name() string { return "proto" }

func (rawBytes) Marshal(v any) (mem.BufferSlice, error) {
	message, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("not bytes but %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(*message)}, nil
}

func (rawBytes) Unmarshal(data mem.BufferSlice, v any) error {
	message, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("not bytes but %T", v)
	}
	*message = data.Materialize()
	return nil
}

// The search of spans must be able to fail too.
func TestCollectorFindsALeak(t *testing.T) {
	t.Parallel()
	var list secretList
	list.add("the planted secret", "planted-"+runSecret)
	c := newCollector(&list)
	arrived := c.expect("switchyard.attribute")
	conn, err := grpc.NewClient(strings.TrimPrefix(c.url, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, text := range []string{"switchyard.attribute", "switchyard.attribute planted-" + runSecret} {
		if found := c.leaks(); found != nil {
			t.Fatalf("before it was planted: %v", found)
		}
		message, reply := []byte(text), []byte(nil)
		if err := conn.Invoke(t.Context(), "/opentelemetry.proto.collector.trace.v1.TraceService/Export", &message, &reply, grpc.ForceCodecV2(rawBytes{})); err != nil {
			t.Fatal(err)
		}
	}
	if found := fmt.Sprint(c.leaks(), arrived()); !strings.Contains(found, "the planted secret is in a span") || !strings.HasSuffix(found, "<nil>") {
		t.Errorf("found %s", found)
	}
}
