//go:build e2e

package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"switchyard.dev/deploy/dev/stack"
)

// eachRelay runs a test at each endpoint against the sandbox, which has every call.
func eachRelay(t *testing.T, test func(t *testing.T, client openai.Client)) {
	t.Helper()
	eachEndpoint(t, sdkEndpoint.openAIClient, []string{"sandbox"}, func(t *testing.T, _ *harness, client openai.Client, _ string) {
		t.Helper()
		test(t, client)
	})
}

func TestOpenAISDKModeration(t *testing.T) {
	eachRelay(t, func(t *testing.T, client openai.Client) {
		t.Helper()
		got, err := client.Moderations.New(t.Context(), openai.ModerationNewParams{
			Model: "sandbox", Input: openai.ModerationNewParamsInputUnion{OfStringArray: []string{"one", "two"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Results) != 2 || got.Results[0].Flagged {
			t.Errorf("results %s, want two that flag nothing", got.RawJSON())
		}
	})
}

func TestOpenAISDKAudio(t *testing.T) {
	eachRelay(t, func(t *testing.T, client openai.Client) {
		t.Helper()
		spoken, err := client.Audio.Speech.New(t.Context(), openai.AudioSpeechNewParams{
			Model: "sandbox", Input: "hello", Voice: openai.AudioSpeechNewParamsVoiceUnion{OfString: openai.String("alloy")},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer spoken.Body.Close()
		sound, err := io.ReadAll(spoken.Body)
		if err != nil || !bytes.HasPrefix(sound, []byte("RIFF")) || spoken.Header.Get("Content-Type") != "audio/wav" {
			t.Fatalf("%d bytes of %s, err %v; want a WAVE file", len(sound), spoken.Header.Get("Content-Type"), err)
		}
		transcribed, err := client.Audio.Transcriptions.New(t.Context(), openai.AudioTranscriptionNewParams{
			Model: "sandbox", File: openai.File(bytes.NewReader(sound), "hello.wav", "audio/wav"),
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%d bytes", len(sound)); !strings.Contains(transcribed.Text, want) {
			t.Errorf("text %q, want one of %s", transcribed.Text, want)
		}
	})
}

func TestOpenAISDKImageEdits(t *testing.T) {
	eachRelay(t, func(t *testing.T, client openai.Client) {
		t.Helper()
		image := func() io.Reader { return openai.File(strings.NewReader("not a real image"), "cat.png", "image/png") }
		edited, err := client.Images.Edit(t.Context(), openai.ImageEditParams{
			Model: "sandbox", Prompt: "a hat", N: openai.Int(2), Image: openai.ImageEditParamsImageUnion{OfFileArray: []io.Reader{image(), image()}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(edited.Data) != 2 || edited.Data[0].B64JSON == "" {
			t.Errorf("%d images, want two with bytes", len(edited.Data))
		}
		made, err := client.Images.Generate(t.Context(), openai.ImageGenerateParams{
			Model: "sandbox", Prompt: "a cat", Background: openai.ImageGenerateParamsBackgroundTransparent,
		})
		if err != nil || len(made.Data) != 1 || made.Data[0].B64JSON == "" {
			t.Errorf("an image with a field of OpenAI's own: %+v, err %v; want one with bytes", made, err)
		}
	})
}

func TestOpenAISDKCompletion(t *testing.T) {
	eachRelay(t, func(t *testing.T, client openai.Client) {
		t.Helper()
		params := openai.CompletionNewParams{Model: "sandbox", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("hello")}}
		got, err := client.Completions.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Choices) != 1 || got.Choices[0].Text != "hello" || got.Usage.TotalTokens == 0 {
			t.Errorf("answer %s", got.RawJSON())
		}
		stream := client.Completions.NewStreaming(t.Context(), params)
		defer stream.Close()
		var text strings.Builder
		for stream.Next() {
			for _, choice := range stream.Current().Choices {
				text.WriteString(choice.Text)
			}
		}
		if stream.Err() != nil || text.String() != "hello" {
			t.Errorf("streamed %q, err %v; want hello", text.String(), stream.Err())
		}
	})
}

// What a relayed call was billed is in the feed, and a customer's call is counted.
func TestRelayedCallsAreBilled(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	customer := h.customer(t, organization, "ai", "read")
	customer.post(t, "/product/v1/ai/openai/v1/audio/speech", object{"model": "sandbox", "input": "grüße", "voice": "alloy"}).want(t, http.StatusOK)
	customer.post(t, "/product/v1/ai/cohere/v2/rerank", object{"model": "sandbox", "query": "a", "documents": []string{"a", "b"}}).want(t, http.StatusOK)
	waitFor(t, waitTimeout, "the two calls to be billed", func() error {
		var page struct {
			Records []struct {
				Operation  string `json:"operation"`
				Characters int    `json:"characters"`
				Searches   int    `json:"searches"`
			} `json:"records"`
		}
		h.operator(stack.Gateway).get(t, "/v1/usage?organization_id="+organization).into(t, http.StatusOK, &page)
		if len(page.Records) != 2 {
			return fmt.Errorf("%d records, want 2", len(page.Records))
		}
		for _, r := range page.Records {
			if r.Operation == "speech" && r.Characters != 5 || r.Operation == "rerank" && r.Searches != 1 {
				return fmt.Errorf("%+v is billed, want 5 characters of speech, 1 search", r)
			}
		}
		return nil
	})
}
