//go:build !linux

package spool

import "os"

// syncData returns when a file is on disk.
func syncData(file *os.File) error { return file.Sync() }
