package spool

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

func BenchmarkAppend(b *testing.B) {
	s, err := Open(b.TempDir()+"/spool", 1<<40)
	if err != nil {
		b.Fatal(err)
	}
	record := bytes.Repeat([]byte("x"), 700)
	b.ReportAllocs()
	for b.Loop() {
		end, err := s.Append(record)
		if err != nil {
			b.Fatal(err)
		}
		if s.Waiting() > 1<<20 {
			if err := s.Drop(end); err != nil {
				b.Fatal(err)
			}
		}
	}
	_ = s.Close()
}

// BenchmarkAppendSync appends and syncs a record with 1, 16 and 64 concurrent callers, and with one caller that is limited
// to 200 records a second. The first caller drops the records. It reports processor time, and how long a caller waits.
func BenchmarkAppendSync(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) { appendSync(b, callers, nil) })
	}
	b.Run("200 a second", func(b *testing.B) {
		ticker := time.NewTicker(time.Second / 200)
		defer ticker.Stop()
		appendSync(b, 1, ticker.C)
	})
}

// appendSync appends and syncs b.N records. Each waits for a tick if there are any.
func appendSync(b *testing.B, callers int, ticks <-chan time.Time) {
	b.Helper()
	record := bytes.Repeat([]byte("x"), 700)
	s, err := Open(b.TempDir()+"/spool", 1<<40)
	if err != nil {
		b.Fatal(err)
	}
	var left, waited atomic.Int64
	left.Store(int64(b.N))
	before := processorTime(b)
	b.ResetTimer()
	var group errgroup.Group
	for caller := range callers {
		group.Go(func() error {
			for left.Add(-1) >= 0 {
				if ticks != nil {
					<-ticks
				}
				begun := time.Now()
				end, err := s.Append(record)
				if err := errors.Join(err, s.Sync()); err != nil {
					return err
				}
				waited.Add(time.Since(begun).Nanoseconds())
				if caller > 0 { // One goroutine at a time may drop.
					continue
				}
				if err := s.Drop(end); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Error(err)
	}
	b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(waited.Load())/float64(b.N), "wait-ns/op")
	_ = s.Close()
}

func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
