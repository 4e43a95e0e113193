package main

import (
	"fmt"
	"os"
	"slices"
	"time"
)

// syncTime says how long this machine takes to bring a record of the ledger's size to disk, behind others in a file.
func syncTime() string {
	const records, size = 400, 700
	file, err := os.CreateTemp("", "load-sync")
	if err != nil {
		return fmt.Sprintf("fsync not measured: %v", err)
	}
	defer func() { _ = os.Remove(file.Name()) }()
	defer func() { _ = file.Close() }()
	took := make([]time.Duration, records)
	for i := range took {
		if _, err := file.Write(make([]byte, size)); err != nil {
			return fmt.Sprintf("fsync not measured: %v", err)
		}
		start := time.Now()
		if err := file.Sync(); err != nil {
			return fmt.Sprintf("fsync not measured: %v", err)
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return "fsync p50/p99 " + millis(took[records/2], took[records*99/100])
}
