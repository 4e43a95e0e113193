package api

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Every bucket of an entry is in the record of the feed, in the field of its column.
func TestRecordHasEveryBucket(t *testing.T) {
	var r ledger.Record
	for i, b := range provider.Buckets() {
		*b.Of(&r.Usage) = int64(i + 1)
	}
	record := toRecord(&r).ProtoReflect()
	for i, b := range provider.Buckets() {
		field := record.Descriptor().Fields().ByName(protoreflect.Name(b.Column()))
		if field == nil {
			t.Errorf("a UsageRecord has no field %s", b.Column())
			continue
		}
		if got := record.Get(field).Int(); got != int64(i+1) {
			t.Errorf("%s is %d, want %d", b.Column(), got, i+1)
		}
	}
}
