//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	openairesponses "github.com/openai/openai-go/v3/responses"
	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/stack"
)

// slowly is a vendor whose streams take two seconds.
var slowly = addVendor(vendor{name: "background-slowly", dialect: "openai", model: "background-slowly"})

func (h *harness) answersSlowly(t *testing.T) {
	t.Helper()
	h.script(t, stack.FakeProvider, rule{Match: slowly.match(), Action: object{
		"slow_body_ms": 50, "answer": object{"text": strings.Repeat("word ", 40)},
	}})
}

// awaitResponse polls a response until it has come to its end.
func awaitResponse(t *testing.T, client openai.Client, id string) (got *openairesponses.Response) {
	t.Helper()
	waitFor(t, waitTimeout, "the end of "+id, func() (err error) {
		if got, err = client.Responses.Get(t.Context(), id, openairesponses.ResponseGetParams{}); err != nil {
			return err
		}
		if got.Status == "queued" || got.Status == "in_progress" {
			return fmt.Errorf("status %s", got.Status)
		}
		return nil
	})
	return got
}

// The vendor's SDK makes a response in the background, polls it, reads its events again and cancels one.
func TestResponsesSDKBackground(t *testing.T) {
	t.Parallel()
	h := use(t)
	h.answersSlowly(t)
	for _, d := range h.sdkEndpoints(t) {
		t.Run(d.name, func(t *testing.T) {
			client := d.openAIClient()
			params := openairesponses.ResponseNewParams{Model: sdkAnthropic.model, Input: inputText("hello"), Background: openai.Bool(true)}
			queued, err := client.Responses.New(t.Context(), params)
			if err != nil || queued.Status != "queued" || !queued.Background {
				t.Fatalf("%s, %v, want a queued response", queued.RawJSON(), err)
			}
			if got := awaitResponse(t, client, queued.ID); got.Status != "completed" || !strings.HasSuffix(got.OutputText(), "hello") || got.Usage.TotalTokens == 0 {
				t.Errorf("it ended as %s", got.RawJSON())
			}
			stream := client.Responses.NewStreaming(t.Context(), params)
			var kinds []string
			for number := int64(0); stream.Next(); number++ {
				if event := stream.Current(); event.SequenceNumber != number {
					t.Errorf("event %d has the number %d: %s", number, event.SequenceNumber, event.RawJSON())
				} else if kinds = append(kinds, event.Type); number == 0 {
					queued.ID = event.Response.ID
				}
			}
			if err := stream.Err(); err != nil || len(kinds) < 6 || kinds[1] != "response.queued" || kinds[len(kinds)-1] != "response.completed" {
				t.Fatalf("%v, events %v", err, kinds)
			}
			again := client.Responses.GetStreaming(t.Context(), queued.ID, openairesponses.ResponseGetParams{StartingAfter: openai.Int(2)},
				option.WithQuery("stream", "true")) // The SDK alone says so in a body, which a GET doesn't have.
			var rest []string
			for again.Next() {
				rest = append(rest, again.Current().Type)
			}
			if err := again.Err(); err != nil || strings.Join(rest, " ") != strings.Join(kinds[3:], " ") {
				t.Errorf("%v, after event 2 come %v, want %v", err, rest, kinds[3:])
			}
			params.Model = slowly.model
			if queued, err = client.Responses.New(t.Context(), params); err != nil {
				t.Fatal(err)
			}
			cancelled, err := client.Responses.Cancel(t.Context(), queued.ID)
			if err != nil || cancelled.Status != "cancelled" {
				t.Errorf("%v, %s, want it cancelled", err, cancelled.RawJSON())
			}
			if got := awaitResponse(t, client, queued.ID); got.Status != "cancelled" {
				t.Errorf("later it is %s", got.Status)
			}
		})
	}
}

// What a killed replica was making, the other one makes anew, once and marked; a stream that was seen ends as failed. Both
// replicas read, stream and cancel the responses of each other.
func TestBackgroundOverAKill(t *testing.T) {
	t.Parallel()
	h := pairOfGateways(t)
	h.answersSlowly(t)
	organization := unique("org")
	first, second := h.service(stack.Gateway, organization), h.service(secondGateway, organization)
	body := object{"model": slowly.model, "input": "hello", "background": true}
	settled := func(id string) (response gjson.Result) {
		waitFor(t, waitTimeout, "the end of "+id, func() error {
			response = gjson.ParseBytes(first.get(t, "/v1/responses/"+id).want(t, http.StatusOK).body)
			if status := response.Get("status").Str; status == "queued" || status == "in_progress" {
				return fmt.Errorf("status %s", status)
			}
			return nil
		})
		return response
	}
	var whole []string
	for range 4 { // Either replica may make each of them.
		whole = append(whole, gjson.GetBytes(second.post(t, "/v1/responses", body).want(t, http.StatusOK).body, "id").Str)
	}
	leave := second.begin(t, "/v1/responses", body.with(streamed))
	defer leave()
	waitFor(t, waitTimeout, "both replicas at work", func() error {
		for _, id := range whole {
			if status := gjson.GetBytes(first.get(t, "/v1/responses/"+id).body, "status").Str; status != "in_progress" {
				return fmt.Errorf("%s is %s", id, status)
			}
		}
		return nil
	})
	if err := h.Kill(string(secondGateway)); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	anew := 0
	for _, id := range whole {
		response := settled(id)
		if response.Get("status").Str != "completed" || !strings.Contains(response.Get("output.0.content.0.text").Str, "word word") {
			t.Errorf("%s ended as %s", id, response.Raw)
		}
		if attempts := response.Get("switchyard.attempts"); attempts.Exists() {
			if anew++; attempts.Int() != 2 {
				t.Errorf("%s was begun %d times", id, attempts.Int())
			}
		}
	}
	t.Logf("%d of %d were begun anew; all ended %s after the kill", anew, len(whole), time.Since(killed))
	if err := h.Restart(t.Context(), string(secondGateway)); err != nil {
		t.Fatal(err)
	}
	id := gjson.GetBytes(first.post(t, "/v1/responses", body).want(t, http.StatusOK).body, "id").Str
	if a := second.post(t, "/v1/responses/"+id+"/cancel", nil).want(t, http.StatusOK); gjson.GetBytes(a.body, "status").Str != "cancelled" {
		t.Errorf("cancelled at the other replica: %s", a.body)
	}
	if response := settled(id); response.Get("status").Str != "cancelled" {
		t.Errorf("it ended as %s", response.Raw)
	}
}
