// Package drive puts load on a server in two ways: closed loop, where each connection sends its next request when the
// last one was answered, and open loop, where requests leave at a fixed rate whatever the server does. A wait that
// the server caused counts: a request that had to leave late is measured from the moment at which it should have
// left.
package drive

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/deploy/load/client"
)

// Load describes the requests to send.
type Load struct {
	Request *client.Request
	// Connections is the number of connections open at a time.
	Connections int
	// Rate is in requests per second; 0 is a closed loop.
	Rate float64
	// Time bounds the duration of the test and Count its requests, whichever ends first; 0 is no bound.
	Time  time.Duration
	Count int
	// Check checks an answer; nil wants status 200.
	Check func(client.Answer) error
}

// Result holds the figures of a test. Histograms are in microseconds.
type Result struct {
	Latency *hdrhistogram.Histogram
	// First is the time to the first byte of the body.
	First   *hdrhistogram.Histogram
	Failed  int
	Failure error // the first one
	Elapsed time.Duration
}

// Done returns the number of good answers.
func (r *Result) Done() int { return int(r.Latency.TotalCount()) }

// PerSecond returns the rate of good answers.
func (r *Result) PerSecond() float64 { return float64(r.Done()) / r.Elapsed.Seconds() }

// longest is the longest latency that the histograms hold, in microseconds.
const longest = int64(60 * time.Second / time.Microsecond)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, longest, 3) }

// NewResult returns a result without any answer.
func NewResult() *Result { return &Result{Latency: newHistogram(), First: newHistogram()} }

// Took records n good answers that together took d, each with latency d. It is for callers that drive a load by other
// means than [Run].
func (r *Result) Took(d time.Duration, n int) {
	_ = r.Latency.RecordValues(min(max(d.Microseconds(), 1), longest), int64(n)) // within its range
}

func (r *Result) merge(of *Result) {
	r.Latency.Merge(of.Latency)
	r.First.Merge(of.First)
	r.Failed += of.Failed
	if r.Failure == nil {
		r.Failure = of.Failure
	}
}

// Run drives a load until its end or that of ctx. It counts failed requests; an error means that the test itself
// failed.
func Run(ctx context.Context, load Load) (*Result, error) {
	if load.Check == nil {
		load.Check = wantOK
	}
	conns := make([]*client.Conn, load.Connections)
	for i := range conns {
		conn, err := client.Dial(ctx, load.Request)
		if err != nil {
			return nil, err
		}
		conns[i] = conn
	}
	total, started := NewResult(), time.Now()
	var mu sync.Mutex
	var group errgroup.Group
	for i, conn := range conns {
		group.Go(func() error {
			w := worker{load: load, conn: conn, result: NewResult(), started: started, number: i}
			err := w.run(ctx)
			mu.Lock()
			defer mu.Unlock()
			total.merge(w.result)
			return errors.Join(err, w.conn.Close())
		})
	}
	err := group.Wait()
	total.Elapsed = time.Since(started)
	return total, err
}

func wantOK(a client.Answer) error {
	if a.Status != 200 {
		return fmt.Errorf("status %d: %.200s", a.Status, a.Body)
	}
	return nil
}

// worker sends the requests number, number+connections, … over one connection.
type worker struct {
	load    Load
	conn    *client.Conn
	result  *Result
	started time.Time
	number  int
}

func (w *worker) run(ctx context.Context) error {
	for i := w.number; ; i += w.load.Connections {
		if w.load.Count > 0 && i >= w.load.Count {
			return nil
		}
		due, ok := w.due(ctx, i)
		if !ok {
			return nil
		}
		if err := w.send(ctx, due); err != nil {
			return err
		}
	}
}

// due waits until request i may leave and returns the moment that it is measured from; false when the test is over.
func (w *worker) due(ctx context.Context, i int) (time.Time, bool) {
	now := time.Now()
	if w.load.Rate == 0 {
		return now, ctx.Err() == nil && (w.load.Time == 0 || now.Sub(w.started) < w.load.Time)
	}
	offset := time.Duration(float64(i) / w.load.Rate * float64(time.Second))
	if ctx.Err() != nil || (w.load.Time > 0 && offset >= w.load.Time) {
		return now, false
	}
	due := w.started.Add(offset)
	if now.After(due) {
		return due, true // the server caused the delay
	}
	timer := time.NewTimer(due.Sub(now))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return now, false
	case <-timer.C:
		return time.Now(), true // the timer caused the delay, not the server
	}
}

// send makes one exchange. After a failure it opens the connection anew.
func (w *worker) send(ctx context.Context, due time.Time) error {
	answer, err := w.conn.Do(w.load.Request)
	broken := err != nil
	if err == nil {
		err = w.load.Check(answer)
	}
	if err == nil {
		record(w.result.Latency, time.Since(due))
		record(w.result.First, answer.First.Sub(due))
		return nil
	}
	w.result.Failed++
	if w.result.Failure == nil {
		w.result.Failure = err
	}
	if !broken {
		return nil
	}
	_ = w.conn.Close()
	w.conn, err = client.Dial(ctx, w.load.Request)
	return err
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), 1), longest)) // within its range
}
