//go:build e2e

package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/stack"
)

// batchTimeout is how long a batch may take: a killed replica's work is taken over after half a minute.
const batchTimeout = 2 * time.Minute

// addBatchVendor adds a vendor that runs batches, under another name of its model at the vendor.
func addBatchVendor(name, dialect string) vendor {
	return addVendor(vendor{name: name, dialect: dialect, model: name, upstream: name + "-upstream", more: object{"batches": true}})
}

// batchAPI is the API in whose form a test makes batches.
type batchAPI struct {
	dialect string
	batches string // path of the batches
	lines   string // path that the requests are for
}

var (
	openAIBatches    = batchAPI{"openai", "/v1/batches", "/v1/chat/completions"}
	anthropicBatches = batchAPI{"anthropic", "/v1/messages/batches", "/v1/messages"}
	batchAPIs        = []batchAPI{openAIBatches, anthropicBatches}
)

// customID returns the caller's id of a request of a batch, which begin with 0.
func customID(n int) string { return fmt.Sprint("request-", n) }

// request returns a request of a batch, which asks its own custom id.
func (a batchAPI) request(model string, n int) object {
	body := ask(model, "hello "+customID(n), object{"max_tokens": 20})
	if a.dialect == "anthropic" {
		return object{"custom_id": customID(n), "params": body}
	}
	return object{"custom_id": customID(n), "method": http.MethodPost, "url": a.lines, "body": body}
}

// requests returns so many requests of a model.
func (a batchAPI) requests(model string, count int) []any {
	requests := make([]any, count)
	for n := range requests {
		requests[n] = a.request(model, n)
	}
	return requests
}

// try makes a batch, for OpenAI of a file that it uploads. A request that is a string is a line of the file as it is.
func (a batchAPI) try(t *testing.T, c client, requests []any) answer {
	t.Helper()
	if a.dialect == "anthropic" {
		return c.post(t, a.batches, object{"requests": requests})
	}
	file := c.upload(t, jsonLines(t, requests)).fields(t, http.StatusOK, "id")["id"]
	return c.post(t, a.batches, object{"input_file_id": file, "endpoint": a.lines, "completion_window": "24h"})
}

// start makes a batch and returns its id.
func (a batchAPI) start(t *testing.T, c client, model string, count int) string {
	t.Helper()
	return gjson.GetBytes(a.try(t, c, a.requests(model, count)).want(t, http.StatusOK).body, "id").Str
}

// jsonLines returns values as lines of JSON; a string is a line as it is.
func jsonLines(t *testing.T, values []any) string {
	t.Helper()
	var text strings.Builder
	for _, v := range values {
		line, isText := v.(string)
		if !isText {
			encoded, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			line = string(encoded)
		}
		text.WriteString(line + "\n")
	}
	return text.String()
}

// upload stores a file of the purpose batch.
func (c client) upload(t *testing.T, text string) answer {
	t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	err := w.WriteField("purpose", "batch")
	part, failed := w.CreateFormFile("file", "requests.jsonl")
	if failed == nil {
		_, failed = part.Write([]byte(text))
	}
	if err := errors.Join(err, failed, w.Close()); err != nil {
		t.Fatal(err)
	}
	return c.with("Content-Type", w.FormDataContentType()).post(t, "/v1/files", form.String())
}

// batchState is a batch as a caller sees it.
type batchState struct {
	gjson.Result

	api    batchAPI
	header http.Header
}

func (a batchAPI) get(t *testing.T, c client, id string) batchState {
	t.Helper()
	got := c.get(t, a.batches+"/"+id).want(t, http.StatusOK)
	return batchState{gjson.ParseBytes(got.body), a, got.header}
}

// status returns its state: OpenAI's, or Anthropic's.
func (b batchState) status() string {
	if b.api.dialect == "anthropic" {
		return b.Get("processing_status").Str
	}
	return b.Get("status").Str
}

func (b batchState) ended() bool {
	return slices.Contains([]string{"completed", "failed", "expired", "cancelled", "ended"}, b.status())
}

// settled waits for the end of a batch.
func (a batchAPI) settled(t *testing.T, c client, id string) (b batchState) {
	t.Helper()
	waitFor(t, batchTimeout, "the end of "+id, func() error {
		got, err := c.try(t, http.MethodGet, a.batches+"/"+id, nil)
		if err != nil || got.status != http.StatusOK {
			return fmt.Errorf("answered %d, %w", got.status, err)
		}
		if b = (batchState{gjson.ParseBytes(got.body), a, got.header}); !b.ended() {
			return errors.New(b.Raw)
		}
		return nil
	})
	return b
}

// results returns the lines of a batch's results by their custom ids: answers and errors.
func (b batchState) results(t *testing.T, c client) (answers, failures map[string]gjson.Result) {
	t.Helper()
	answers, failures = map[string]gjson.Result{}, map[string]gjson.Result{}
	read := func(path string) {
		for line := range strings.Lines(string(c.get(t, path).want(t, http.StatusOK).body)) {
			result := gjson.Parse(line)
			into, id := answers, result.Get("custom_id").Str
			if result.Get("response.status_code").Int() != http.StatusOK && result.Get("result.type").Str != "succeeded" {
				into = failures
			}
			if _, twice := into[id]; twice {
				t.Errorf("%s has two results", id)
			}
			into[id] = result
		}
	}
	if b.api.dialect == "anthropic" {
		read(b.Get("results_url").Str)
		return answers, failures
	}
	for _, file := range []string{b.Get("output_file_id").Str, b.Get("error_file_id").Str} {
		if file != "" {
			read("/v1/files/" + file + "/content")
		}
	}
	return answers, failures
}

// complete checks that a batch has a result of each of its requests: answers of the first ones with the caller's name of the
// model, and errors of the others.
func (b batchState) complete(t *testing.T, c client, model string, answered, all int) {
	t.Helper()
	answers, failures := b.results(t, c)
	if len(answers) != answered || len(failures) != all-answered {
		t.Errorf("%d answers and %d errors, want %d and %d: %s", len(answers), len(failures), answered, all-answered, b.Raw)
	}
	for n := range answered {
		result := answers[customID(n)]
		text := result.Get("response.body.choices.0.message.content").Str + result.Get("result.message.content.0.text").Str
		named := result.Get("response.body.model").Str + result.Get("result.message.model").Str
		if !strings.HasSuffix(text, "hello "+customID(n)) || named != model {
			t.Fatalf("the result of %s: %s", customID(n), shorten([]byte(result.Raw)))
		}
	}
}

// vendorJob is a batch job or a file as a vendor lists it.
type vendorJob struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Message string `json:"processing_status"`
}

// listed returns what a vendor has of the fleet's: its jobs, or its files.
func (h *harness) listed(t *testing.T, v vendor, path string) []vendorJob {
	t.Helper()
	var list struct {
		Data []vendorJob `json:"data"`
	}
	key := h.fake(stack.FakeProvider).with("Authorization", "Bearer "+v.key())
	if v.dialect == "anthropic" {
		key = h.fake(stack.FakeProvider).with("X-Api-Key", v.key(), "Anthropic-Version", "2023-06-01")
	}
	key.unrecorded(t, http.MethodGet, path+"?limit=100", nil).into(t, http.StatusOK, &list)
	for i, job := range list.Data {
		list.Data[i].Status += job.Message
	}
	return list.Data
}

// job waits until a vendor has a job, and returns it. It may have no other one.
func (a batchAPI) job(t *testing.T, h *harness, v vendor) (job vendorJob) {
	t.Helper()
	waitFor(t, waitTimeout, "a job at "+v.name, func() error {
		jobs := h.listed(t, v, a.batches)
		if len(jobs) != 1 {
			return fmt.Errorf("%d jobs", len(jobs))
		}
		job = jobs[0]
		return nil
	})
	return job
}

// direct gives a job of a vendor a state, which it keeps: see deploy/fakes.
func (h *harness) direct(t *testing.T, job string, order object) {
	t.Helper()
	h.fake(stack.FakeProvider).do(t, http.MethodPut, "/_batches/"+job, order).want(t, http.StatusNoContent)
}

// made returns how many jobs of so many requests the vendors made on a path: each of these tests has a number of its own.
func (a batchAPI) made(t *testing.T, h *harness, requests int) (n int) {
	t.Helper()
	var list struct {
		Batches []struct {
			Path     string `json:"path"`
			Requests int    `json:"requests"`
		} `json:"batches"`
	}
	h.fake(stack.FakeProvider).get(t, "/_batches").into(t, http.StatusOK, &list)
	for _, b := range list.Batches {
		if b.Path == a.batches && b.Requests == requests {
			n++
		}
	}
	return n
}
