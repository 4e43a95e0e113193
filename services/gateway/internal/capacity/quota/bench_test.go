package quota

import (
	"fmt"
	"testing"
	"time"
)

func BenchmarkReserve(b *testing.B) {
	for name, limit := range map[string]Limit{"unlimited": {}, "limited": {Tokens: 1 << 38}} {
		b.Run(name, func(b *testing.B) {
			books := New(Options{})
			ctx := b.Context()
			d := Demand{Queue: "gpt-5", Organization: "acme", Wait: time.Second}
			for i := range 8 {
				d.Alternatives = append(d.Alternatives, claim(Subject(fmt.Sprint("credential/", i)), limit, 1000))
			}
			b.ReportAllocs()
			for b.Loop() {
				r, err := books.Reserve(ctx, d)
				if err != nil {
					b.Fatal(err)
				}
				r.Settle(1000)
			}
		})
	}
}

// A call that leases cover.
func BenchmarkLeased(b *testing.B) {
	books := New(Options{})
	ctx := b.Context()
	d := Demand{Claims: claim("key/1", Limit{Tokens: 1 << 38, Requests: 1 << 38}, 10), Alternatives: [][]Claim{claim("credential/1", Limit{Tokens: 1 << 38}, 10)}}
	b.ReportAllocs()
	for b.Loop() {
		r, err := books.Reserve(ctx, d)
		if err != nil {
			b.Fatal(err)
		}
		r.Settle(10)
	}
}
