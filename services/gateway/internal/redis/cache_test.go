package redis

import (
	"fmt"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/serving/cache"
	"switchyard.dev/services/platform/testkit"
)

func TestAnswers(t *testing.T) {
	client := testkit.Redis(t)
	answers := NewAnswers(client)
	at := cache.Key{Organization: "00ff", Epoch: 3, Answer: "aa11"}
	sealed := []byte("\x00binary\xff\r\n")
	if got, newest, err := answers.Get(t.Context(), at); got != nil || newest != 0 || err != nil {
		t.Fatalf("%q, %d, %v from an empty store", got, newest, err)
	}
	if err := answers.Put(t.Context(), at, sealed, time.Minute); err != nil {
		t.Fatal(err)
	}
	if got, _, err := answers.Get(t.Context(), at); string(got) != string(sealed) || err != nil {
		t.Errorf("%q, %v, want what was put", got, err)
	}
	if ttl := client.PTTL(t.Context(), answers.key(at)).Val(); ttl <= 0 || ttl > time.Minute {
		t.Errorf("lives for %v, want a minute", ttl)
	}
	for name, other := range map[string]cache.Key{
		"organization": {Organization: "00fe", Epoch: 3, Answer: "aa11"},
		"epoch":        {Organization: "00ff", Epoch: 4, Answer: "aa11"},
		"answer":       {Organization: "00ff", Epoch: 3, Answer: "aa12"},
	} {
		if got, _, err := answers.Get(t.Context(), other); got != nil || err != nil {
			t.Errorf("another %s: %q, %v", name, got, err)
		}
	}
}

// A purge finds every key of an organization among all others, and answers of earlier epochs are no longer stored.
func TestAnswersPurge(t *testing.T) {
	client := testkit.Redis(t)
	answers := NewAnswers(client)
	put := func(organization string, epoch int64, n int) {
		t.Helper()
		for i := range n {
			key := cache.Key{Organization: organization, Epoch: epoch, Answer: fmt.Sprint(i)}
			if err := answers.Put(t.Context(), key, []byte("x"), time.Minute); err != nil {
				t.Fatal(err)
			}
		}
	}
	put("00ff", 1, 2500)
	put("00ff", 2, 5)
	put("00", 1, 50)
	if n, err := answers.Purge(t.Context(), "00ff", 3); n != 2505 || err != nil {
		t.Errorf("%d, %v, want 2505", n, err)
	}
	late := cache.Key{Organization: "00ff", Epoch: 2, Answer: "late"}
	if err := answers.Put(t.Context(), late, []byte("x"), time.Minute); err != nil {
		t.Error(err)
	}
	if got, newest, err := answers.Get(t.Context(), late); got != nil || newest != 3 || err != nil {
		t.Errorf("%q, epoch %d, %v, want nothing kept of an epoch that is over", got, newest, err)
	}
	if n, err := answers.Purge(t.Context(), "00ff", 2); n != 0 || err != nil {
		t.Errorf("an older purge that comes late: %d, %v", n, err)
	}
	if _, newest, _ := answers.Get(t.Context(), late); newest != 3 {
		t.Errorf("epoch %d, want that it never goes back", newest)
	}
	if n, err := answers.Purge(t.Context(), "00", 2); n != 50 || err != nil {
		t.Errorf("%d, %v of the other organization, want 50", n, err)
	}
}
