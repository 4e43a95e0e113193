package api_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"switchyard.dev/services/platform/testkit"
)

// counts matches the counts of tokens in answers of every dialect.
var counts = regexp.MustCompile(`("[a-z_]*(?:_tokens|TokenCount|[a-z]Tokens)"):\d+`)

// countsNothing makes the vendor write zeros in place of its counts.
func (b *bench) countsNothing() {
	b.vendor.mu.Lock()
	defer b.vendor.mu.Unlock()
	answers := b.vendor.fails
	b.vendor.fails = func(w http.ResponseWriter, r *http.Request) {
		record := httptest.NewRecorder()
		answers(record, r)
		w.Header().Set("Content-Type", record.Header().Get("Content-Type"))
		w.WriteHeader(record.Code)
		_, _ = io.WriteString(w, counts.ReplaceAllString(record.Body.String(), "$1:0"))
	}
}

// checkEstimated waits for the ledger rows of a number of calls, and fails unless all are estimates of input and output.
func (b *bench) checkEstimated(t *testing.T, calls int) {
	t.Helper()
	testkit.Wait(t, fmt.Sprintf("%d rows", calls), func() error {
		if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM ledger_entry"); n != calls {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	const believed = `SELECT coalesce(string_agg(concat_ws(' ', request_id, provider, model, usage_state, input_tokens, output_tokens), E'\n'), '') FROM ledger_entry
		WHERE usage_state <> 'estimated' OR input_tokens = 0 OR output_tokens + image_output_tokens = 0`
	if rows := testkit.Value[string](t, b.pool, believed); rows != "" {
		t.Errorf("zeros are believed:\n%s", rows)
	}
}

// A vendor of any dialect that counts nothing of what it answers is billed by an estimate, on every face, whole and
// streamed, for texts, calls and images.
func TestZeroUsageIsEstimated(t *testing.T) {
	b := setupWith(t, answersPolicy)
	calls := 0
	for _, kind := range []string{kindCall, kindNoCall, kindImage} {
		b.answers(kind)
		b.countsNothing()
		for form, answers := range answersOf {
			if _, ok := answers[kind]; !ok {
				continue
			}
			for name, face := range chatFaces {
				for _, stream := range []bool{false, true} {
					calls++
					if got := face.ask(t, b, form+"/m", stream); !strings.Contains(got.body, "estimated\":true") && name == "JSON" {
						t.Errorf("%s of %s: %d %s", kind, form, got.status, got.body)
					}
				}
			}
		}
	}
	b.answers(kindNoCall)
	b.countsNothing()
	socket := b.connects(t)
	for form := range answersOf {
		if _, ok := answersOf[form][kindNoCall]; ok {
			calls++
			socket.asks(t, `{"type":"response.create","model":"`+form+`/m","store":false,"input":"hi"}`)
		}
	}
	b.checkEstimated(t, calls)
}

// So it is with the dialects of clouds.
func TestZeroUsageOfClouds(t *testing.T) {
	b := limitsBench(t)
	b.countsNothing()
	calls := 0
	for name, h := range limited {
		for _, model := range h.models {
			for _, write := range limitedFaces {
				path, body := write(name+"/"+model, &question{})
				if got := b.say(t, "POST", path, body); got.status != http.StatusOK {
					t.Errorf("%s: %d %s", path, got.status, got.body)
				}
				calls++
			}
		}
	}
	b.checkEstimated(t, calls)
}

// A relayed call is billed by an estimate if the vendor reports zero tokens.
func TestZeroUsageOfRelayedCalls(t *testing.T) {
	b := relayBench(t)
	b.countsNothing()
	recording := func(fields ...string) []string {
		kind, body := form(t, "file", append(fields, "model", "ear")...)
		return []string{"/v1/audio/transcriptions", kind, body, "audio_seconds=8"}
	}
	for name, c := range map[string][]string{
		"completion":             {"/v1/completions", "", `{"model":"text","prompt":"say hello"}`, "input=3 output=2"},
		"streamed completion":    {"/v1/completions", "", `{"model":"text","prompt":"say hello","stream":true}`, "input=3 output=2"},
		"speech in events":       {"/v1/audio/speech", "", `{"model":"voice","input":"grüße","voice":"alloy","stream_format":"sse"}`, "input=2 audio_output=7 characters=5"},
		"streamed transcription": append(recording("stream", "true")[:3], "output=2 audio_seconds=8"),
		"rerank":                 {"/v1/rerank", "", `{"model":"ranker","query":"q","documents":["a","b"]}`, "input=3 searches=1"},
	} {
		kind := c[1]
		if kind == "" {
			kind = "application/json"
		}
		id := strings.ReplaceAll(name, " ", "-")
		got := b.post(t, c[0], c[2], "Content-Type", kind, "X-Request-Id", id)
		row := b.record(t, id)
		if got.status != http.StatusOK || row["usage_state"] != "estimated" || bucketsOf(row) != c[3] {
			t.Errorf("%s: %d, %v %s, want %s", name, got.status, row["usage_state"], bucketsOf(row), c[3])
		}
	}
}
