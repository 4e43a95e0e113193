package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/testkit"
)

func TestTermFlags(t *testing.T) {
	for args, want := range map[string]apikey.Update{
		"--tpm 7":                    {TokensPerMinute: new(int64(7))},
		"--tpm none --class none":    {TokensPerMinute: new(int64), Class: new(apikey.Class(""))},
		"--model a --model b":        {Models: &[]string{"a", "b"}},
		"--all-models":               {Models: new([]string)},
		"--budget 5000/month":        {Budget: &apikey.Budget{CeilingCents: 5000, Period: apikey.PeriodMonth}},
		"--budget none --class bulk": {Budget: &apikey.Budget{}, Class: new(apikey.ClassBulk)},
		"":                           {}, "--tpm 0": {}, "--tpm many": {}, "--budget 5000": {}, "--budget 0/month": {}, "--model a --all-models": {},
	} {
		var terms apikey.Terms
		flags := pflag.NewFlagSet("terms", pflag.ContinueOnError)
		termFlags(flags, &terms)
		flags.Bool("all-models", false, "")
		got, err := parseTerms(flags, strings.Fields(args), &terms)
		if want == (apikey.Update{}) {
			if err == nil {
				t.Errorf("%q is accepted", args)
			}
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", args, err, diff)
		}
	}
}

func parseTerms(flags *pflag.FlagSet, args []string, terms *apikey.Terms) (apikey.Update, error) {
	if err := flags.Parse(args); err != nil {
		return apikey.Update{}, err
	}
	return named(flags, terms)
}

// Terms that the command line sets reach the service from every replica, over the change feed alone, and no customer can
// send others.
func TestTermsReachEveryReplica(t *testing.T) {
	var got atomic.Value
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Store(strings.Join(r.Header.Values("X-Key-Terms"), "|"))
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(service.Close)
	f := newFleet(t, service.URL, testkit.PostgresURL(t, migrations.FS), "")
	replicas := []*replica{f.start(t), f.start(t)}
	var key struct{ ID, Key string }
	out := f.command(t, "keys", "create", "--org", "org-1", "--product", "ai", "--permission", "read", "--tpm", "100000", "--model", "gpt-5",
		"--model", "b", "--budget", "5000/month", "--class", "interactive", "--json")
	if err := json.Unmarshal([]byte(out), &key); err != nil {
		t.Fatal(err)
	}
	all := `{"key":"` + key.ID + `","tpm":100000,"models":["gpt-5","b"],"budget":{"ceiling_cents":5000,"period":"month"},"class":"interactive"}`
	for _, step := range []struct {
		args []string
		want string
	}{
		{nil, all},
		{[]string{"--tpm", "none", "--all-models", "--budget", "none"}, `{"key":"` + key.ID + `","class":"interactive"}`},
		{[]string{"--class", "none"}, ""},
	} {
		if step.args != nil {
			f.command(t, append([]string{"keys", "terms", key.ID}, step.args...)...)
		}
		for _, x := range replicas {
			testkit.Wait(t, "the terms at the service", func() error { // the bound is proved in apikey, in bubble time
				status, err := x.chat(t.Context(), key.Key, "X-Key-Terms", `{"key":"forged"}`)
				if err != nil || status != http.StatusOK {
					return fmt.Errorf("status %d: %w", status, err)
				}
				if terms := got.Load(); terms != step.want {
					return fmt.Errorf("terms %s, want %s", terms, step.want)
				}
				return nil
			})
		}
	}
}
