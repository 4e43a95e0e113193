package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

func (v *vendor) lastKey() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.keys) == 0 {
		return ""
	}
	return v.keys[len(v.keys)-1]
}

const askFirst = `{"model":"first/ok","messages":[{"role":"user","content":"hello"}]`

func (b *bench) bring(tb testing.TB, organization, provider, key string) {
	tb.Helper()
	a := b.say(tb, http.MethodPost, configPath, `{"provider":"`+provider+`","sealed":`+b.sealed(tb, organization, provider, key)+`}`, "X-Organization-Id", organization)
	if a.status != 200 && a.status != 201 {
		tb.Fatalf("%d %s", a.status, a.body)
	}
}

// The request's byok, the organization's configuration and the fleet's key decide which credential pays.
func TestChatWithOwnKey(t *testing.T) {
	b := setup(t)
	const required = askFirst + `,"byok":{"mode":"require"}}`
	b.chat(t, required).refused(t, 503, "missing_keys", "no provider configured (missing keys)")
	b.bring(t, "acme", "first", ownKey)
	b.follows(t, "the first credential", func() bool { return b.chat(t, required).status == 200 })
	if key := b.vendor.lastKey(); key != "Bearer "+ownKey {
		t.Errorf("the vendor was called with %q", key)
	}
	for body, want := range map[string]string{
		askFirst + `}`:                                             canary,
		askFirst + `,"byok":{}}`:                                   ownKey,
		askFirst + `,"byok":{"mode":"prefer"}}`:                    ownKey,
		askFirst + `,"byok":{"provider":"first"}}`:                 ownKey,
		askFirst + `,"byok":{"provider":"FIRST","mode":"prefer"}}`: ownKey,
		`{"model":"third/shared","messages":[{"role":"user","content":"x"}],"byok":{"mode":"prefer"}}`: canary,
		`{"model":"ok","provider":"first","messages":[{"role":"user","content":"x"}],"byok":{}}`:       ownKey,
		`{"model":"ok","messages":[{"role":"user","content":"x"}],"byok":{"provider":"first"}}`:        ownKey,
	} {
		if a := b.chat(t, body); a.status != 200 || b.vendor.lastKey() != "Bearer "+want {
			t.Errorf("%s: %d %s with %q", body, a.status, a.body, b.vendor.lastKey())
		}
	}
	b.chat(t, required, "X-Organization-Id", "bolt").refused(t, 503, "missing_keys", "missing keys")
	b.chat(t, `{"model":"second/spare","messages":[{"role":"user","content":"x"}],"byok":{}}`).refused(t, 503, "missing_keys", "missing keys")
	b.chat(t, askFirst+`,"byok":{"provider":"second"},"provider":"first"}`).refused(t, 400, "invalid_request", "byok.provider")
	b.chat(t, askFirst+`,"byok":{"mode":"maybe"}}`).refused(t, 400, "invalid_request", "byok.mode")
	if n := b.rows(t, "credential = 'byok' AND credential_fingerprint = $1", fingerprint(secret.New(ownKey))); n != 7 {
		t.Errorf("%d ledger rows with the own key, want 7", n)
	}
	// A refused credential of an organization does not affect the fleet's.
	b.bring(t, "acme", "first", otherKey)
	b.follows(t, "the rotation", func() bool { b.chat(t, required); return b.vendor.lastKey() == "Bearer "+otherKey })
	b.say(t, http.MethodDelete, configPath+"/first", "").gives(t, 204)
	b.follows(t, "the end of the credential", func() bool { return b.chat(t, required).status == 503 })
	b.bring(t, "acme", "first", ownKey)
	b.follows(t, "the new credential", func() bool { return b.chat(t, required).status == 200 })
	b.say(t, http.MethodPost, "/v1/byok/purge", `{}`).gives(t, 200)
	b.follows(t, "the purge", func() bool { return b.chat(t, required).status == 503 })
}

// A missing secret fails its own calls and no others.
func TestChatWithUnreadableKey(t *testing.T) {
	b := setup(t)
	b.keep(t, "acme", "k", ownKey)
	b.say(t, http.MethodPost, configPath, `{"provider":"first","secret_ref":"file:k"}`).gives(t, 201)
	if err := os.Remove(filepath.Join(b.secrets, "acme", "k")); err != nil {
		t.Fatal(err)
	}
	const required = askFirst + `,"byok":{}}`
	b.follows(t, "the configuration", func() bool { return strings.Contains(b.chat(t, required).body, "can't be read") })
	b.chat(t, required).refused(t, 503, "missing_keys", "no provider configured (missing keys): the organization's credential for first can't be read")
	if a := b.chat(t, askFirst+`,"byok":{"mode":"prefer"}}`); a.status != 200 {
		t.Errorf("prefer: %d %s", a.status, a.body)
	}
	b.say(t, http.MethodPost, configPath+"/first/rotate", `{"secret_ref":"file:k"}`).refused(t, 400, "secret_unresolved", "no such secret")
}

// A canary value goes through every custody, with a failure after each; then all output of the service is searched for
// it.
func TestByokNeverLeaks(t *testing.T) {
	b := setup(t)
	const fileKey, envKey, sealedKey = "sk-canary-file-0123456789abcdef", "sk-canary-env-0123456789abcdef", "sk-canary-sealed-0123456789abcdef"
	b.keep(t, "acme", "k", fileKey)
	b.keep(t, "acme", "bad", fileKey+" and a space")
	t.Setenv("BYOKTEST_acme__K", envKey)
	var answers []string
	say := func(a answer) { answers = append(answers, a.body, fmt.Sprint(a.header)) }
	for _, custody := range []struct{ body, key string }{
		{`"secret_ref":"file:k"`, fileKey},
		{`"secret_ref":"env:BYOKTEST_acme__K"`, envKey},
		{`"sealed":` + b.sealed(t, "acme", "first", sealedKey), sealedKey},
		{`"secret_ref":"file:bad"`, sealedKey}, // Refused, so that the previous one stays.
		{`"sealed":` + b.sealed(t, "bolt", "first", sealedKey), sealedKey},
	} {
		say(b.say(t, http.MethodPost, configPath, `{"provider":"first",`+custody.body+`}`))
		b.follows(t, "the credential", func() bool {
			say(b.chat(t, askFirst+`,"byok":{}}`))
			return b.vendor.lastKey() == "Bearer "+custody.key
		})
		for _, model := range []string{"ok", "down", "cut", "late-error", "panic"} {
			for _, stream := range []bool{false, true} {
				say(b.chat(t, fmt.Sprintf(`{"model":"first/%s","stream":%v,"allow_substitution":false,"messages":[{"role":"user","content":"x"}],"byok":{}}`, model, stream)))
			}
		}
		for _, path := range []string{configPath, configPath + "/first", configPath + "/first/lifecycle"} {
			say(b.say(t, http.MethodGet, path, ""))
		}
	}
	if !strings.Contains(b.log.String(), "the adapter's bug with ") {
		t.Error("no adapter has panicked: the test looks for nothing")
	}
	for _, key := range []string{fileKey, envKey, sealedKey} {
		if !strings.Contains(strings.Join(b.vendor.keys, " "), key) {
			t.Errorf("the vendor never saw %s: the test looks for nothing", key[:15])
		}
	}
	say(b.say(t, http.MethodGet, "/v1/byok/stale", "", "Authorization", "Bearer ops", "X-Organization-Id", ""))
	say(b.say(t, http.MethodPost, "/v1/byok/purge", `{}`))
	metrics := metricdata.ResourceMetrics{}
	if err := b.metrics.Collect(t.Context(), &metrics); err != nil {
		t.Fatal(err)
	}
	var spans strings.Builder
	for _, span := range b.spans.GetSpans() {
		fmt.Fprintf(&spans, "%+v\n", span)
	}
	if spans.Len() == 0 || len(metrics.ScopeMetrics) == 0 {
		t.Error("there are no spans or no metrics to look through")
	}
	numbers, _ := json.Marshal(metrics)
	answers = append(answers, b.log.String(), spans.String(), string(numbers), b.dump(t))
	for _, key := range []string{fileKey, envKey, sealedKey} {
		testkit.NoLeak(t, key, answers...)
	}
}

// dump returns every row of every table.
func (b *bench) dump(tb testing.TB) string {
	tb.Helper()
	rows, err := b.pool.Query(tb.Context(), `SELECT tablename FROM pg_tables WHERE schemaname = current_schema()`)
	if err != nil {
		tb.Fatal(err)
	}
	var tables []string
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			tb.Fatal(err)
		}
		tables = append(tables, table)
	}
	rows.Close()
	var all strings.Builder
	for _, table := range tables {
		var text string
		if err := b.pool.QueryRow(tb.Context(), `SELECT coalesce(string_agg(t::text, ' '), '') FROM "`+table+`" t`).Scan(&text); err != nil {
			tb.Fatal(err)
		}
		all.WriteString(text)
	}
	if !strings.Contains(all.String(), "byok") {
		tb.Error("the dump holds no configuration")
	}
	return all.String()
}
