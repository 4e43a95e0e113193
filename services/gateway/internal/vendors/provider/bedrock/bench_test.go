package bedrock_test

import (
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

func openStream(tb testing.TB, native bool) provider.Stream {
	tb.Helper()
	if !native {
		return dialect().Endless(tb, "", "event: contentBlockDelta\ndata: "+`{"contentBlockIndex":0,"delta":{"text":"hello wor"},"p":"abcdefghij"}`+"\n\n", false)
	}
	return claudes().Endless(tb, "", "event: content_block_delta\ndata: "+`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello wor"}}`+"\n\n", false)
}

// A chunk costs at most two allocations, relayed or translated.
func TestChunkAllocations(t *testing.T) {
	for _, native := range []bool{false, true} {
		stream := openStream(t, native)
		if n := testing.AllocsPerRun(1000, func() { _, _ = stream.Next() }); n > 2 {
			t.Errorf("relayed %t: %v allocations a chunk, want at most 2", native, n)
		}
	}
}

// BenchmarkChunk measures the cost of one chunk including its usage.
func BenchmarkChunk(b *testing.B) {
	for native, name := range map[bool]string{true: "relayed", false: "translated"} {
		b.Run(name, func(b *testing.B) {
			stream := openStream(b, native)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := stream.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
