//go:build !linux

package spool

import "os"

// syncData flushes a file to disk.
func syncData(file *os.File) error { return file.Sync() }
