package provider

import (
	"reflect"
	"testing"
)

// Every field of a Usage is the count of one bucket, which has all that its users iterate for.
func TestBucketsCoverUsage(t *testing.T) {
	usage := reflect.TypeFor[Usage]()
	if usage.NumField() != BucketCount {
		t.Errorf("a Usage has %d fields, and there are %d buckets", usage.NumField(), BucketCount)
	}
	var u Usage
	seen := make(map[string]Bucket)
	for i, b := range Buckets() {
		*b.Of(&u) = int64(i + 1)
		for what, value := range map[string]string{"name": b.Name(), "tariff": b.Tariff(), "column": b.Column()} {
			if other, ok := seen[what+" "+value]; ok || value == "" {
				t.Errorf("%s of bucket %d is %q, want one of its own (bucket %d)", what, b, value, other)
			}
			seen[what+" "+value] = b
		}
		if fallback, ok := b.Fallback(); ok && fallback.Side() != b.Side() {
			t.Errorf("%s falls back to %s, which counts something else", b.Name(), fallback.Name())
		}
	}
}

// A sum over the sides is a sum over all buckets.
func TestSidesCoverBuckets(t *testing.T) {
	n := 0
	for _, side := range []Side{SidePrompt, SideCompletion, SidePieces} {
		n += len(side.Buckets())
	}
	if n != BucketCount {
		t.Errorf("the sides have %d buckets, want %d", n, BucketCount)
	}
}
