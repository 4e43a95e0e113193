package kv_test

import (
	"testing"

	"go.uber.org/goleak"

	"switchyard.dev/services/platform/kv"
	"switchyard.dev/services/platform/kv/kvtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	kvtest.Run(t, func(*testing.T) kv.Store { return new(kvtest.Memory) })
}

func TestKey(t *testing.T) {
	for _, tt := range []struct {
		want  string
		parts []string
	}{
		{"", nil},
		{"", []string{""}},
		{":", []string{"", ""}},
		{"a", []string{"a"}},
		{"a:b", []string{"a", "b"}},
		{"a%3Ab:c", []string{"a:b", "c"}},
		{"a:b%3Ac", []string{"a", "b:c"}},
		{"a%253Ab", []string{"a%3Ab"}},
	} {
		if got := kv.Key(tt.parts...); got != tt.want {
			t.Errorf("Key(%q) = %q, want %q", tt.parts, got, tt.want)
		}
	}
}
