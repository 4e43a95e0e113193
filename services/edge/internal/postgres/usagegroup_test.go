package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/edge/internal/meter/metertest"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/testkit"
)

// grouped is a count of a user with tags.
func grouped(organization, key string, minute time.Time, user, tags string, n int64) meter.Count {
	return meter.Count{Count: n, Counter: meter.Counter{
		Organization: organization, Key: key, Metric: "llm_requests", Minute: minute, User: user, Tags: tags,
	}}
}

// lines are the totals of a query as text.
func lines(t *testing.T, usage *Usage, q meter.Query) (text []string) {
	t.Helper()
	q.From, q.To, q.Limit = exportHour, exportHour.Add(24*time.Hour), 1000
	totals, err := usage.Sum(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, sum := range totals {
		text = append(text, fmt.Sprintf("%s %s %q %d", sum.Organization, sum.Key, sum.Labels, sum.Count))
	}
	return text
}

// Counts are summed by user and tags; what has none is the rest.
func TestSumByGroup(t *testing.T) {
	usage := NewUsage(testkit.Postgres(t, migrations.FS))
	metertest.Add(t, usage,
		grouped("acme", "k1", exportHour, "", "", 5),
		grouped("acme", "k1", exportHour, "", `{"team":"web"}`, 1),
		grouped("acme", "k1", exportHour, "", `{"feature":"a b","team":"web"}`, 2),
		grouped("acme", "k1", exportHour, "ann", `{"feature":"a b","team":"web"}`, 4),
		grouped("acme", "k1", exportHour.Add(time.Minute), "ann", `{"feature":"a b","team":"web"}`, 8),
		grouped("acme", "k1", exportHour.Add(time.Hour), "bob", "", 16),
		grouped("acme", "k2", exportHour, "", `{"team":"db"}`, 32),
		grouped("beta", "k3", exportHour, "ann", "", 64),
	)
	for name, tt := range map[string]struct {
		q    meter.Query
		want []string
	}{
		"by user": {meter.Query{Dimensions: []string{"user"}}, []string{
			`acme k1 [""] 8`, `acme k1 ["ann"] 12`, `acme k1 ["bob"] 16`, `acme k2 [""] 32`, `beta k3 ["ann"] 64`,
		}},
		"by tags": {meter.Query{Organization: "acme", Dimensions: []string{"tag.feature", "tag.team"}}, []string{
			`acme k1 ["" ""] 21`, `acme k1 ["" "web"] 1`, `acme k1 ["a b" "web"] 14`, `acme k2 ["" "db"] 32`,
		}},
		"of a user":            {meter.Query{User: "ann"}, []string{`acme k1 [] 12`, `beta k3 [] 64`}},
		"of a tag, by user":    {meter.Query{Tags: map[string]string{"team": "web"}, Dimensions: []string{"user"}}, []string{`acme k1 [""] 3`, `acme k1 ["ann"] 12`}},
		"of a key, by user":    {meter.Query{Key: "k2", Dimensions: []string{"user"}}, []string{`acme k2 [""] 32`}},
		"of no such tag":       {meter.Query{Tags: map[string]string{"team": "x"}}, nil},
		"by user after a page": {meter.Query{Dimensions: []string{"user"}, After: meter.Total{Organization: "acme", Key: "k1", Metric: "llm_requests", Labels: []string{"ann"}}}, []string{`acme k1 ["bob"] 16`, `acme k2 [""] 32`, `beta k3 ["ann"] 64`}},
		"by user and day":      {meter.Query{Organization: "beta", Period: meter.Day, Dimensions: []string{"user"}}, []string{`beta k3 ["ann"] 64`}},
	} {
		if diff := cmp.Diff(tt.want, lines(t, usage, tt.q)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// An organization has a bounded number of groups in an hour; sums stay exact, before and after hours become days.
func TestGroupsAreBounded(t *testing.T) {
	usage := NewUsage(testkit.Postgres(t, migrations.FS))
	const users = maxGroups + 20
	for range 2 {
		for from := 0; from < users; from += 100 {
			var counts []meter.Count
			for i := from; i < min(from+100, users); i++ {
				counts = append(counts, grouped("acme", "k1", exportHour, fmt.Sprintf("user-%04d", i), "", 1))
			}
			metertest.Add(t, usage, counts...)
		}
	}
	metertest.Add(t, usage, grouped("beta", "k1", exportHour, "user-0000", "", 1), grouped("acme", "k1", exportHour.Add(time.Hour), "user-0000", "", 1))
	check := func(when string) {
		t.Helper()
		got := lines(t, usage, meter.Query{Organization: "acme", Dimensions: []string{"user"}})
		if want := `acme k1 ["(other)"] 40`; len(got) != maxGroups+1 || got[0] != want {
			t.Errorf("%s: %d groups, the first %s; want %d and %s", when, len(got), got[0], maxGroups+1, want)
		}
		if want := []string{fmt.Sprintf("acme k1 [] %d", 2*users+1)}; !cmp.Equal(lines(t, usage, meter.Query{Organization: "acme"}), want) {
			t.Errorf("%s: without groups %v, want %v", when, lines(t, usage, meter.Query{Organization: "acme"}), want)
		}
	}
	check("by hour")
	end := exportHour.Add(48 * time.Hour)
	for _, merge := range []func() (int, error){
		func() (int, error) { return usage.Merge(t.Context(), meter.Day, end, 5000) },
		func() (int, error) { return usage.MergeGroups(t.Context(), end, 5000) },
	} {
		if n, err := merge(); err != nil || n == 0 {
			t.Fatalf("merged %d: %v", n, err)
		}
	}
	day := exportHour.Truncate(24 * time.Hour)
	totals, err := usage.Sum(t.Context(), meter.Query{Organization: "acme", Period: meter.Day, Dimensions: []string{"user"}, From: day, To: end, Limit: 1000})
	if err != nil || len(totals) != maxGroups+1 || totals[0].Count != 40 || totals[1].Count != 3 {
		t.Errorf("by day: %d groups, %v, want %d, the first with 40 and the second with 3", len(totals), err, maxGroups+1)
	}
	if n, err := usage.DropGroups(t.Context(), end, 5000); err != nil || n != maxGroups+2 {
		t.Errorf("dropped %d (%v), want %d of two organizations", n, err, maxGroups+2)
	}
}
