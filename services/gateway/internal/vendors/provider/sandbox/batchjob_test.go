package sandbox_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/sandbox"
)

func batchOf(api, model string, bodies ...string) *provider.BatchJob {
	return &provider.BatchJob{Mark: "m", API: api, Model: model, Count: len(bodies), Lines: func(yield func(provider.BatchLine, error) bool) {
		for i, body := range bodies {
			if !yield(provider.BatchLine{CustomID: "m-" + string(rune('0'+i)), Body: []byte(body)}, nil) {
				return
			}
		}
	}}
}

// A batch job is under way for a second, and answers each request in the form of its API.
func TestBatch(t *testing.T) {
	var p provider.BatchRunner = sandbox.New(sandbox.Config{Name: "sandbox"})
	for name, c := range map[string]struct {
		job     *provider.BatchJob
		path    string
		want    string
		outcome provider.BatchOutcome
		usage   *provider.Usage
	}{
		"a chat": {
			batchOf("/v1/chat/completions", "sandbox", `{"messages":[{"role":"user","content":"hi"}]}`),
			"response.body.choices.0.message.content", "sandbox: hi", provider.BatchAnswered, &provider.Usage{Input: 1, Output: 3},
		},
		"a chat in parts": {
			batchOf("/v1/chat/completions", "sandbox", `{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`),
			"response.body.choices.0.message.content", "sandbox: hi", provider.BatchAnswered, &provider.Usage{Input: 1, Output: 3},
		},
		"a message": {
			batchOf("/v1/messages", "sandbox", `{"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`),
			"result.message.content.0.text", "sandbox: hi", provider.BatchAnswered, &provider.Usage{Input: 1, Output: 3},
		},
		"an embedding": {
			batchOf("/v1/embeddings", "sandbox", `{"input":"hi","dimensions":2}`),
			"response.body.data.0.embedding.#", "2", provider.BatchAnswered, &provider.Usage{Input: 1},
		},
		"a failure": {
			batchOf("/v1/chat/completions", "sandbox-fail-400", `{}`), "response.status_code", "400", provider.BatchRequestFailed, nil,
		},
		"a message that fails": {
			batchOf("/v1/messages", "sandbox-fail-400", `{}`), "result.type", "errored", provider.BatchRequestFailed, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			err := p.BatchResults(t.Context(), provider.Credential{}, c.job, nil, func(r provider.BatchResult) error {
				n++
				if got := gjson.GetBytes(r.Line, c.path).String(); got != c.want || r.CustomID != "m-0" || r.Outcome != c.outcome {
					t.Errorf("%s is %q of %q, want %q; outcome %s", c.path, got, r.CustomID, c.want, r.Outcome)
				}
				if diff := cmp.Diff(c.usage, r.Usage); diff != "" {
					t.Errorf("usage (-want +got):\n%s", diff)
				}
				return nil
			})
			if err != nil || n != 1 {
				t.Errorf("%d results, %v", n, err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		made, err := p.CreateBatch(t.Context(), provider.Credential{}, batchOf("/v1/messages", "sandbox", "{}"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []provider.BatchStatus{provider.BatchInProgress, provider.BatchCompleted} {
			report, err := p.ReadBatch(t.Context(), provider.Credential{}, made.ID)
			if err != nil || report.Status != want {
				t.Errorf("the job is %v, %v, want %s", report, err, want)
			}
			time.Sleep(time.Second)
		}
	})
	if _, err := p.CreateBatch(t.Context(), provider.Credential{}, batchOf("/v1/messages", "gpt", "{}")); err == nil {
		t.Error("a job of a model that the sandbox doesn't have is made")
	}
}
