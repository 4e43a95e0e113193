package postgres_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/gateway/internal/custody/byok"
	"switchyard.dev/services/gateway/internal/operations/event"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/platform/houseevent/houseeventtest"
	"switchyard.dev/services/platform/testkit"
)

// checkData checks the data of all recorded events against the schemas of their types.
func (b *books) checkData(t *testing.T) {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), "SELECT type, data FROM house_event")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var data []byte
		if err := rows.Scan(&name, &data); err != nil {
			t.Fatal(err)
		}
		houseeventtest.Check(t, name, data)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

// wants compares the recorded events.
func (b *books) wants(t *testing.T, when string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), b.recorded(t)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
	b.checkData(t)
}

// A credential that is refused on many replicas is recorded once, and once when it is taken again.
func TestFailingCredentialsAreReported(t *testing.T) {
	_, pool, _ := newControl(t)
	h, b := postgres.NewHouseEvents(pool), &books{pool: pool}
	own, fleet := event.Credential{Organization: "acme", Provider: "openai"}, event.Credential{Provider: "openai", Name: "second"}
	refuse := func() {
		t.Helper()
		group, ctx := errgroup.WithContext(t.Context())
		for range 3 { // replicas
			group.Go(func() error {
				for range 3 {
					if err := h.Refuse(ctx, []event.Refused{{Credential: fleet, Status: http.StatusForbidden}, {Credential: own, Status: http.StatusUnauthorized}}); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	take := func(begun time.Time) {
		t.Helper()
		for range 2 {
			if err := h.Recover(t.Context(), []event.Taken{{Credential: own, Begun: begun}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	failing := func(want ...event.Credential) {
		t.Helper()
		got, err := h.Failing(t.Context(), 9)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Errorf("%v fail, want %v", got, want)
		}
	}
	refuse()
	both := []string{"credential.failing credential/openai", "credential.failing credential/openai/second"}
	b.wants(t, "refused by three replicas", both...)
	failing(own, fleet)
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM house_event WHERE organization_id = '' AND data->>'origin' = 'operator' OR organization_id = 'acme' AND data->>'status' = '401'"); n != 2 {
		t.Errorf("%d events are of the right organization", n)
	}
	take(time.Now().Add(-time.Minute))
	b.wants(t, "taken for a call that began before", both...)
	take(time.Now().Add(time.Minute))
	recovered := append(slices.Clone(both), "credential.recovered credential/openai")
	b.wants(t, "taken again", recovered...)
	failing(fleet)
	refuse()
	b.wants(t, "refused again within an hour", recovered...)
	failing(fleet)
	testkit.Exec(t, pool, "UPDATE credential_failing SET failing_since = now() - interval '61 minutes', recovered_at = now() - interval '1 minute' WHERE organization_id <> ''")
	refuse()
	b.wants(t, "refused again after an hour", append([]string{"credential.failing credential/openai"}, recovered...)...)
	failing(own, fleet)

	testkit.Exec(t, pool, "UPDATE credential_failing SET seen_at = now() - interval '31 days' WHERE organization_id <> ''")
	if err := h.Forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	failing(fleet)
}

// A key's age is the greatest that a replica has found, and it is due once.
func TestRotationsOfKeysAreReported(t *testing.T) {
	_, pool, _ := newControl(t)
	h, b := postgres.NewHouseEvents(pool), &books{pool: pool}
	age := func(days int, keys ...event.Key) {
		t.Helper()
		for range 2 {
			if err := h.Age(t.Context(), keys, days); err != nil {
				t.Fatal(err)
			}
		}
	}
	now := time.Now()
	old := event.Key{Provider: "openai", Name: "a", Fingerprint: "f1", SetAt: now.AddDate(0, 0, -29)}
	age(30, old, event.Key{Provider: "mistral", Fingerprint: "f3", SetAt: now.AddDate(0, 0, 1)})
	b.wants(t, "before it is due")
	testkit.Exec(t, pool, "UPDATE key_age SET set_at = set_at - interval '2 days'")
	old.SetAt = now // The file is made anew, with the same key.
	age(0, old)
	b.wants(t, "without a rule")
	age(30, old)
	due := []string{"credential.rotation_due credential/openai/a"}
	b.wants(t, "after 31 days", due...)
	old.Fingerprint = "f2"
	age(30, old)
	b.wants(t, "a new key", due...)
	testkit.Exec(t, pool, "UPDATE key_age SET set_at = now() - interval '40 days' WHERE fingerprint = 'f2'")
	age(30, old)
	b.wants(t, "the new key is due", append(due, due...)...)
	testkit.Exec(t, pool, "UPDATE key_age SET seen_at = now() - interval '31 days'")
	if err := h.Forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM key_age"); n != 0 {
		t.Errorf("%d keys are left that no replica has", n)
	}
}

// Organizations' credentials are due by their own rule, each version once.
func TestRotationsOfOrganizationsAreReported(t *testing.T) {
	control, pool, _ := newControl(t)
	h, b := postgres.NewHouseEvents(pool), &books{pool: pool}
	store := postgres.NewByok(pool, control)
	put := func(organization string, days int) {
		t.Helper()
		_, err := store.Change(t.Context(), organization, "openai", entry("byok.put", organization, "openai"), func(c byok.Config) (byok.Config, error) {
			next, _, err := c.Put(byok.Credential{Custody: byok.CustodyReference, Reference: "file:" + uuid.NewString(), Hint: "****", Fingerprint: "f"},
				byok.Terms{Owner: "ada", RotationDays: &days}, time.Now().UTC().AddDate(0, 0, -40))
			return next, err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	report := func() (total int) {
		t.Helper()
		var after event.Credential
		for {
			last, n, err := h.ReportRotations(t.Context(), after, 2)
			if err != nil {
				t.Fatal(err)
			}
			if total += n; n < 2 {
				return total
			}
			after = last
		}
	}
	put("a", 30)
	put("b", 30)
	put("c", 30)
	put("never", 0)
	put("later", 60)
	for range 2 {
		if n := report(); n != 3 {
			t.Errorf("reported %d, want 3", n)
		}
	}
	three := []string{"credential.rotation_due credential/openai", "credential.rotation_due credential/openai", "credential.rotation_due credential/openai"}
	b.wants(t, "due", three...)
	put("a", 30)
	report()
	b.wants(t, "the next version is due", append(three, three[0])...)
	if text := testkit.Value[string](t, pool, "SELECT string_agg(data::text, ' ') FROM house_event"); len(text) == 0 || strings.Contains(text, "****") || strings.Contains(text, "file:") {
		t.Errorf("an event has what is stored of a credential: %s", text)
	}
}
