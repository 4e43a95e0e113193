package testkit

import (
	"runtime"
	"strconv"
	"strings"
	"testing"

	"switchyard.dev/services/platform/redisdb"
)

// RedisMemory returns the bytes that Redis uses.
func RedisMemory(tb testing.TB, client *redisdb.Client) int {
	tb.Helper()
	info, err := client.Info(tb.Context(), "memory").Result()
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "used_memory:")
	text, _, _ := strings.Cut(rest, "\r\n")
	bytes, err := strconv.Atoi(text)
	if err != nil {
		tb.Fatal(err)
	}
	return bytes
}

// HeapSize returns the bytes of live objects.
func HeapSize() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
