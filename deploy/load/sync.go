package main

import (
	"fmt"
	"os"
	"slices"
	"time"
)

// syncTimes says how long this machine takes to bring a record of the ledger's size to disk, behind others in a file:
// one right after the other, and at the lowest of the rates, where the processor and the disk were idle before each.
func syncTimes() string {
	return "fsync p50/p99 " + syncTime(0) + ", " + syncTime(time.Second/time.Duration(rates[0])) + fmt.Sprintf(" at %d/s", rates[0])
}

func syncTime(pause time.Duration) string {
	const records, size = 400, 700
	file, err := os.CreateTemp("", "load-sync")
	if err != nil {
		return fmt.Sprintf("not measured: %v", err)
	}
	defer func() { _ = os.Remove(file.Name()) }()
	defer func() { _ = file.Close() }()
	took := make([]time.Duration, records)
	for i := range took {
		if _, err := file.Write(make([]byte, size)); err != nil {
			return fmt.Sprintf("not measured: %v", err)
		}
		time.Sleep(pause)
		start := time.Now()
		if err := file.Sync(); err != nil {
			return fmt.Sprintf("not measured: %v", err)
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return millis(took[records/2], took[records*99/100])
}
