package main

import (
	"fmt"
	"os"
	"slices"
	"time"
)

// syncs holds how long this machine takes to bring a record of the ledger's size to disk, behind others in a file.
type syncs struct {
	// busy syncs follow each other at once. idle syncs come at the lowest rate of the open loop, so the processor and
	// the disk were idle before each.
	busy, idle syncTime
	err        error
}

// syncTime is the median and the 99th percentile of the time of a sync.
type syncTime struct{ p50, p99 time.Duration }

// String returns the times for the head of a report.
func (s syncs) String() string {
	if s.err != nil {
		return fmt.Sprintf("fsync not measured: %v", s.err)
	}
	return fmt.Sprintf("fsync p50/p99 %s, %s at %d/s",
		millis(s.busy.p50, s.busy.p99), millis(s.idle.p50, s.idle.p99), rates[0])
}

func measureSyncs() (s syncs) {
	if s.busy, s.err = measureSync(0); s.err != nil {
		return s
	}
	s.idle, s.err = measureSync(time.Second / time.Duration(rates[0]))
	return s
}

// measureSync measures syncs that are a pause apart.
func measureSync(pause time.Duration) (syncTime, error) {
	const records, size = 400, 700
	file, err := os.CreateTemp("", "load-sync")
	if err != nil {
		return syncTime{}, err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	defer func() { _ = file.Close() }()
	took := make([]time.Duration, records)
	for i := range took {
		if _, err := file.Write(make([]byte, size)); err != nil {
			return syncTime{}, err
		}
		time.Sleep(pause)
		start := time.Now()
		if err := file.Sync(); err != nil {
			return syncTime{}, err
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return syncTime{took[records/2], took[records*99/100]}, nil
}
