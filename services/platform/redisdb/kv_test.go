package redisdb_test

import (
	"testing"
	"time"

	"switchyard.dev/services/platform/kv"
	"switchyard.dev/services/platform/kv/kvtest"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/testkit"
)

func TestKV(t *testing.T) {
	kvtest.Run(t, func(t *testing.T) kv.Store {
		t.Helper()
		return redisdb.NewKV(testkit.Redis(t), "state")
	})
}

func TestKVWithoutClient(t *testing.T) {
	if store := redisdb.NewKV(nil, "state"); store != nil {
		t.Errorf("NewKV(nil) = %v, want nil", store)
	}
}

// Texts live as long as their last swap sets, under the client's prefix and their kind.
func TestKVNamesAndLife(t *testing.T) {
	t.Parallel()
	client := testkit.Redis(t)
	store := redisdb.NewKV(client, "state")
	name := client.Prefix + ":state:a%3Ab:c"
	for _, swap := range []kv.Swap{
		{Key: kv.Key("a:b", "c"), New: "x", Life: time.Hour},
		{Key: kv.Key("a:b", "c"), Old: "x", New: "x", Life: 2 * time.Hour},
	} {
		if made, err := store.Swap(t.Context(), []kv.Swap{swap}); err != nil || !made[0] {
			t.Fatalf("swap %+v: %v, %v", swap, made, err)
		}
		left, err := client.PTTL(t.Context(), name).Result()
		if err != nil {
			t.Fatal(err)
		}
		if left > swap.Life || left < swap.Life-time.Minute {
			t.Errorf("%s lives for %v, want %v", name, left, swap.Life)
		}
	}
}
