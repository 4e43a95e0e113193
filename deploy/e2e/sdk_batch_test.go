//go:build e2e

package e2e_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/stack"
)

// Vendors of batches for the SDKs, one for each endpoint, so that each can look at what its vendor has.
var (
	sdkBatchOpenAI = map[string]vendor{
		"gateway": addBatchVendor("sdk-batch-1", "openai"), "edge": addBatchVendor("sdk-batch-2", "openai"),
	}
	sdkBatchAnthropic = map[string]vendor{
		"gateway": addBatchVendor("sdk-batch-3", "anthropic"), "edge": addBatchVendor("sdk-batch-4", "anthropic"),
	}
	// sdkBatchScripts is the vendor of the scripts of npm.
	sdkBatchScripts = map[string]vendor{
		"openai": addBatchVendor("sdk-batch-npm-1", "openai"), "anthropic": addBatchVendor("sdk-batch-npm-2", "anthropic"),
	}
)

// uploadWith uploads a file with the SDK.
func uploadWith(t *testing.T, client openai.Client, text string) *openai.FileObject {
	t.Helper()
	stored, err := client.Files.New(t.Context(), openai.FileNewParams{
		File: openai.File(strings.NewReader(text), "requests.jsonl", "application/jsonl"), Purpose: openai.FilePurposeBatch,
	})
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// awaitBatch polls a batch until it has come to its end, and returns it with the headers of the last answer.
func awaitBatch(t *testing.T, client openai.Client, id string) (got *openai.Batch, header http.Header) {
	t.Helper()
	waitFor(t, batchTimeout, "the end of "+id, func() (err error) {
		var response *http.Response
		if got, err = client.Batches.Get(t.Context(), id, option.WithResponseInto(&response)); err != nil {
			return err
		}
		header = response.Header
		if !slices.Contains([]openai.BatchStatus{"completed", "failed", "expired", "cancelled"}, got.Status) {
			return errors.New(got.RawJSON())
		}
		return nil
	})
	return got, header
}

// OpenAI's SDK uploads requests, of which the vendor refuses one, makes a batch of them, polls it, and reads its results.
func TestOpenAISDKBatch(t *testing.T) {
	t.Parallel()
	const lines = 20
	h := use(t)
	organization := unique("org")
	for _, d := range h.sdkEndpointsOf(t, organization) {
		t.Run(d.name, func(t *testing.T) {
			client, v := d.openAIClient(), sdkBatchOpenAI[d.name]
			requests := openAIBatches.requests(v.model, lines)
			// The gateway sends what it doesn't know as it came; a vendor checks it.
			requests[lines-1] = openAIBatches.request(v.model, lines-1).with(object{"body": ask(v.model, "", object{
				"messages": []object{{"role": "assistant", "content": nil, "function_call": object{"name": "f", "arguments": "{}"}}, {"role": "function", "name": "f", "content": "x"}},
			})})
			text := jsonLines(t, requests)
			stored := uploadWith(t, client, text)
			if stored.Bytes != int64(len(text)) || stored.Filename != "requests.jsonl" || stored.Purpose != "batch" || !strings.Contains(stored.RawJSON(), `"status":"processed"`) {
				t.Errorf("stored as %s", stored.RawJSON())
			}
			made, err := client.Batches.New(t.Context(), openai.BatchNewParams{
				InputFileID: stored.ID, Endpoint: "/v1/chat/completions", CompletionWindow: "24h", Metadata: map[string]string{"team": "a"},
			})
			if err != nil {
				t.Fatal(err)
			}
			if made.Status != "validating" || made.RequestCounts.Total != lines || made.Metadata["team"] != "a" || made.ExpiresAt-made.CreatedAt != 24*3600 {
				t.Errorf("made as %s", made.RawJSON())
			}
			got, header := awaitBatch(t, client, made.ID)
			if c := got.RequestCounts; got.Status != "completed" || c.Total != lines || c.Completed != lines-1 || c.Failed != 1 || got.Model != v.model {
				t.Fatalf("it ended as %s", got.RawJSON())
			}
			if u := got.Usage; u.InputTokens == 0 || u.TotalTokens != u.InputTokens+u.OutputTokens || got.CompletedAt < got.InProgressAt || got.InProgressAt < got.CreatedAt {
				t.Errorf("usage or times: %s", got.RawJSON())
			}
			if header.Get("X-Switchyard-Provider") != v.name {
				t.Errorf("provider %q, want %s", header.Get("X-Switchyard-Provider"), v.name)
			}
			checkBatchFiles(t, client, got, v.model, lines)
			batchState{gjson.Parse(got.RawJSON()), openAIBatches, header}.billedOnce(t, h, organization, lines-1)
			checkBatchLists(t, client, made.ID, stored.ID)
			waitFor(t, waitTimeout, "the vendor's files are deleted", func() error {
				if files := h.listed(t, v, "/v1/files"); len(files) > 0 {
					return fmt.Errorf("it has %v", files)
				}
				return nil
			})
		})
	}
}

// checkBatchFiles reads the files of a batch's results: all but the last request were answered.
func checkBatchFiles(t *testing.T, client openai.Client, b *openai.Batch, model string, lines int) {
	t.Helper()
	read := func(id string) (results []gjson.Result) {
		content, err := client.Files.Content(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		defer content.Body.Close()
		text, err := io.ReadAll(content.Body)
		if err != nil {
			t.Fatal(err)
		}
		if about, err := client.Files.Get(t.Context(), id); err != nil || about.Bytes != int64(len(text)) || about.Purpose != "batch_output" {
			t.Errorf("%v, %s, want %d bytes", err, about.RawJSON(), len(text))
		}
		for line := range strings.Lines(string(text)) {
			results = append(results, gjson.Parse(line))
		}
		return results
	}
	answers, failures := read(b.OutputFileID), read(b.ErrorFileID)
	said := map[string]string{}
	for _, a := range answers {
		said[a.Get("custom_id").Str] = a.Get("response.body.choices.0.message.content").Str
		if a.Get("response.body.model").Str != model || a.Get("response.status_code").Int() != http.StatusOK || a.Get("id").Str == "" {
			t.Errorf("a result: %s", a.Raw)
		}
	}
	for n := range lines - 1 {
		if id := customID(n); !strings.HasSuffix(said[id], "hello "+id) {
			t.Errorf("%s: %q", id, said[id])
		}
	}
	if len(answers) != lines-1 || len(failures) != 1 || failures[0].Get("custom_id").Str != customID(lines-1) || failures[0].Get("response.status_code").Int() != http.StatusBadRequest {
		t.Errorf("%d answers, errors %v", len(answers), failures)
	}
}

// checkBatchLists checks that a batch and a file are listed; the file can be deleted, and is gone then.
func checkBatchLists(t *testing.T, client openai.Client, batch, file string) {
	t.Helper()
	batches := client.Batches.ListAutoPaging(t.Context(), openai.BatchListParams{Limit: openai.Int(1)})
	found := 0
	for batches.Next() {
		if batches.Current().ID == batch {
			found++
		}
	}
	if err := batches.Err(); err != nil || found != 1 {
		t.Errorf("%v, the batch is listed %d times", err, found)
	}
	files := client.Files.ListAutoPaging(t.Context(), openai.FileListParams{Limit: openai.Int(1), Purpose: openai.String("batch")})
	found = 0
	for files.Next() {
		if files.Current().ID == file {
			found++
		}
	}
	if err := files.Err(); err != nil || found != 1 {
		t.Errorf("%v, the file is listed %d times", err, found)
	}
	if deleted, err := client.Files.Delete(t.Context(), file); err != nil || !deleted.Deleted {
		t.Errorf("deletion: %v", err)
	}
	_, err := client.Files.Get(t.Context(), file)
	if e, ok := errors.AsType[*openai.Error](err); !ok || e.StatusCode != http.StatusNotFound {
		t.Errorf("after the deletion: %v, want 404", err)
	}
}

// A batch of embeddings.
func TestOpenAISDKBatchEmbeddings(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	for _, d := range h.sdkEndpointsOf(t, organization) {
		t.Run(d.name, func(t *testing.T) {
			client, v := d.openAIClient(), sdkBatchOpenAI[d.name]
			var requests []any
			for n := range 3 {
				requests = append(requests, object{"custom_id": customID(n), "method": "POST", "url": "/v1/embeddings", "body": object{
					"model": v.model, "input": []string{"one", "two"}, "dimensions": 8,
				}})
			}
			made, err := client.Batches.New(t.Context(), openai.BatchNewParams{
				InputFileID: uploadWith(t, client, jsonLines(t, requests)).ID, Endpoint: "/v1/embeddings", CompletionWindow: "24h",
			})
			if err != nil {
				t.Fatal(err)
			}
			got, header := awaitBatch(t, client, made.ID)
			if got.Status != "completed" || got.RequestCounts.Completed != 3 || got.ErrorFileID != "" {
				t.Fatalf("it ended as %s", got.RawJSON())
			}
			content, err := client.Files.Content(t.Context(), got.OutputFileID)
			if err != nil {
				t.Fatal(err)
			}
			defer content.Body.Close()
			text, err := io.ReadAll(content.Body)
			line, _, _ := strings.Cut(string(text), "\n")
			if result := gjson.Parse(line).Get("response.body"); err != nil || result.Get("data.1.embedding.#").Int() != 8 || result.Get("model").Str != v.model {
				t.Errorf("%v, a result: %s", err, shorten([]byte(line)))
			}
			batchState{gjson.Parse(got.RawJSON()), openAIBatches, header}.billedOnce(t, h, organization, 3)
			if rows := h.rows(t, organization, got.ID, 1); rows[0].Operation != "embeddings" {
				t.Errorf("the row %+v", rows[0])
			}
		})
	}
}

// Anthropic's SDK makes a batch, polls it, reads its results and deletes it, and cancels another one.
func TestAnthropicSDKBatch(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	for _, d := range h.sdkEndpointsOf(t, organization) {
		t.Run(d.name, func(t *testing.T) {
			client, v := d.anthropicClient(), sdkBatchAnthropic[d.name]
			batches := client.Messages.Batches
			params := anthropic.MessageBatchNewParams{}
			for n := range 3 {
				m := message(v.model, "hello "+customID(n))
				params.Requests = append(params.Requests, anthropic.MessageBatchNewParamsRequest{
					CustomID: customID(n), Params: anthropic.MessageBatchNewParamsRequestParams{Model: m.Model, MaxTokens: m.MaxTokens, Messages: m.Messages},
				})
			}
			made, err := batches.New(t.Context(), params)
			if err != nil {
				t.Fatal(err)
			}
			if made.ProcessingStatus != "in_progress" || made.RequestCounts.Processing != 3 || !strings.HasPrefix(made.ID, "msgbatch_") {
				t.Errorf("made as %s", made.RawJSON())
			}
			got := made
			waitFor(t, batchTimeout, "the end of "+made.ID, func() error {
				if got, err = batches.Get(t.Context(), made.ID, anthropic.MessageBatchGetParams{}); err != nil {
					return err
				}
				if got.ProcessingStatus != "ended" {
					return errors.New(got.RawJSON())
				}
				return nil
			})
			if got.RequestCounts.Succeeded != 3 || got.EndedAt.IsZero() || got.ResultsURL == "" {
				t.Errorf("it ended as %s", got.RawJSON())
			}
			results := batches.ResultsStreaming(t.Context(), made.ID, anthropic.MessageBatchResultsParams{})
			said := map[string]string{}
			for results.Next() {
				if m := results.Current().Result.AsSucceeded().Message; m.Model == v.model && len(m.Content) == 1 {
					said[results.Current().CustomID] = m.Content[0].Text
				}
			}
			if err := results.Err(); err != nil || len(said) != 3 || !strings.HasSuffix(said[customID(2)], "hello "+customID(2)) {
				t.Errorf("%v, results %v", err, said)
			}
			list := batches.ListAutoPaging(t.Context(), anthropic.MessageBatchListParams{Limit: anthropic.Int(1)})
			found := 0
			for list.Next() {
				if list.Current().ID == made.ID {
					found++
				}
			}
			if list.Err() != nil || found != 1 {
				t.Errorf("%v, the batch is listed %d times", list.Err(), found)
			}
			anthropicBatches.get(t, h.service(stack.Gateway, organization), made.ID).billedOnce(t, h, organization, 3)
			waitFor(t, waitTimeout, "the deletion, once the vendor's copy is deleted", func() error {
				_, err := batches.Delete(t.Context(), made.ID, anthropic.MessageBatchDeleteParams{})
				return err
			})
			_, err = batches.Get(t.Context(), made.ID, anthropic.MessageBatchGetParams{})
			if e, ok := errors.AsType[*anthropic.Error](err); !ok || e.StatusCode != http.StatusNotFound {
				t.Errorf("after the deletion: %v, want 404", err)
			}

			next, err := batches.New(t.Context(), params)
			if err != nil {
				t.Fatal(err)
			}
			if next, err = batches.Cancel(t.Context(), next.ID, anthropic.MessageBatchCancelParams{}); err != nil || next.ProcessingStatus != "canceling" && next.ProcessingStatus != "ended" {
				t.Errorf("cancelled: %v, %s", err, next.RawJSON())
			}
			waitFor(t, batchTimeout, "the end of the cancelled batch", func() error {
				if next, err = batches.Get(t.Context(), next.ID, anthropic.MessageBatchGetParams{}); err != nil || next.ProcessingStatus != "ended" {
					return fmt.Errorf("%w, %s", err, next.RawJSON())
				}
				return nil
			})
			if next.RequestCounts.Canceled != 3 {
				t.Errorf("it ended as %s", next.RawJSON())
			}
		})
	}
}
