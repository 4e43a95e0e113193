package sandbox_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/gateway/internal/vendors/provider/sandbox"
	"switchyard.dev/services/platform/apierr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	p := sandbox.New(sandbox.Config{Name: "sandbox"})
	for _, model := range []string{"sandbox", "sandbox-reasoning"} {
		t.Run(model, func(t *testing.T) { providertest.RunChatProvider(t, p, model) })
	}
	t.Run("embeddings", func(t *testing.T) { providertest.RunEmbedder(t, p, "sandbox-embed") })
	t.Run("images", func(t *testing.T) { providertest.RunImageMaker(t, p, "sandbox-draw") })
}

func TestModelsThatFailEverywhere(t *testing.T) {
	p := sandbox.New(sandbox.Config{})
	for model, class := range map[string]apierr.Class{
		"sandbox-fail-500": apierr.ClassServerError, "sandbox-fail-429": apierr.ClassRateLimit,
		"sandbox-fail-401": apierr.ClassAuth, "sandbox-fail-400": apierr.ClassPolicy,
		"sandbox-fail-context": apierr.ClassContextOverflow, "sandbox-fail-content": apierr.ClassContentPolicy,
		"another": apierr.ClassPolicy,
	} {
		_, chat := p.Chat(t.Context(), provider.Credential{}, &provider.Chat{Model: model})
		_, stream := p.StreamChat(t.Context(), provider.Credential{}, &provider.Chat{Model: model})
		_, embed := p.Embed(t.Context(), provider.Credential{}, &provider.Embedding{Model: model, Input: []string{"a"}})
		_, images := p.MakeImages(t.Context(), provider.Credential{}, &provider.ImageRequest{Model: model, Count: 1})
		for _, err := range []error{chat, stream, embed, images} {
			if e, ok := errors.AsType[*provider.Error](err); !ok || e.Class != class || e.Text == "" {
				t.Errorf("%s: err = %v, want class %s", model, err, class)
			}
		}
	}
}

func TestReasoning(t *testing.T) {
	chat := with(say("hello"), func(c *provider.Chat) { c.Model = "sandbox-reasoning" })
	providertest.Answers(t, sandbox.New(sandbox.Config{}), chat, &provider.Answer{
		Text: "sandbox: hello", Reasoning: "The question has 5 bytes. I repeat it.", FinishReason: provider.FinishStop,
		Usage: &provider.Usage{Input: 2, Output: 4, Reasoning: 10}, Model: "sandbox-reasoning",
	})
}

func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := sandbox.New(sandbox.Config{})
		chat := with(say("one two"), func(c *provider.Chat) { c.Model = "sandbox-slow" })
		start := time.Now()
		if _, err := p.Chat(t.Context(), provider.Credential{}, chat); err != nil || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		start = time.Now()
		stream, err := p.StreamChat(t.Context(), provider.Credential{}, chat)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := providertest.Collect(stream); err != nil || got.Text != "sandbox: one two" || time.Since(start) != 1400*time.Millisecond {
			t.Errorf("%+v, %v after %v", got, err, time.Since(start))
		}
	})
}

// A wait ends with the call, at once.
func TestWaitsEnd(t *testing.T) {
	for _, model := range []string{"sandbox-fail-hang", "sandbox-slow"} {
		synctest.Test(t, func(t *testing.T) {
			late := errors.New("no answer in time")
			ctx, cancel := context.WithTimeoutCause(t.Context(), 500*time.Millisecond, late)
			defer cancel()
			start := time.Now()
			_, err := sandbox.New(sandbox.Config{}).Chat(ctx, provider.Credential{}, &provider.Chat{Model: model})
			e, ok := errors.AsType[*provider.Error](err)
			if !ok || e.Class != apierr.ClassTransient || !errors.Is(err, late) {
				t.Errorf("%s: %v, want class %s by %v", model, err, apierr.ClassTransient, late)
			}
			if took := time.Since(start); took != 500*time.Millisecond {
				t.Errorf("%s: ended after %v, want 500ms", model, took)
			}
		})
	}
}

func TestOneToolAtATime(t *testing.T) {
	chat := with(say("get_time and get_weather"), func(c *provider.Chat) {
		tools(c)
		c.ParallelTools = new(false)
	})
	answer, err := sandbox.New(sandbox.Config{}).Chat(t.Context(), provider.Credential{}, chat)
	if err != nil || len(answer.ToolCalls) != 1 {
		t.Errorf("%+v, %v, want one call", answer, err)
	}
}

func TestVision(t *testing.T) {
	p := sandbox.New(sandbox.Config{})
	result, err := p.MakeImages(t.Context(), provider.Credential{}, &provider.ImageRequest{Model: "sandbox", Prompt: "a cat", Count: 1, Size: "64x32", Delivery: "url"})
	if err != nil {
		t.Fatal(err)
	}
	png := result.Images[0].URL
	bytes, err := base64.StdEncoding.DecodeString(png[strings.Index(png, ",")+1:])
	if err != nil {
		t.Fatal(err)
	}
	webp := "data:image/webp;base64," + base64.StdEncoding.EncodeToString([]byte("RIFF\x00\x00\x00\x00WEBPVP8 "))
	for name, tt := range map[string]struct {
		parts []provider.Part
		want  string
	}{
		"one":    {[]provider.Part{{Text: "What is it?"}, {ImageURL: png}}, "sandbox: What is it? [image/png 64x32, " + strconv.Itoa(len(bytes)) + " bytes]"},
		"alone":  {[]provider.Part{{ImageURL: webp}}, "sandbox: [image/webp, 16 bytes]"},
		"two":    {[]provider.Part{{ImageURL: webp}, {ImageURL: webp}}, "sandbox: [image/webp, 16 bytes; image/webp, 16 bytes]"},
		"no one": {[]provider.Part{{ImageURL: "data:image/png;base64,aGVsbG8="}}, "sandbox: [text/plain, 5 bytes]"},
	} {
		t.Run(name, func(t *testing.T) {
			chat := &provider.Chat{Model: "sandbox", Messages: []provider.Message{{Role: provider.RoleUser, Content: tt.parts}}}
			answer, err := p.Chat(t.Context(), provider.Credential{}, chat)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, answer.Text); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
	for _, url := range []string{"https://images.example/a.png", "data:image/png,abc", "data:image/png;base64,%%%", "data:"} {
		chat := &provider.Chat{Model: "sandbox", Messages: []provider.Message{{Role: provider.RoleUser, Content: []provider.Part{{ImageURL: url}}}}}
		_, err := p.Chat(t.Context(), provider.Credential{}, chat)
		if e, ok := errors.AsType[*provider.Error](err); !ok || !e.Unsupported || !strings.HasPrefix(e.Text, "image_url: ") {
			t.Errorf("%s: %v, want unsupported", url, err)
		}
	}
	if p.FetchesImages() {
		t.Error("the sandbox has no network")
	}
}

func TestRefusedSettings(t *testing.T) {
	p := sandbox.New(sandbox.Config{})
	for _, dimensions := range []int{-1, 4097} {
		_, err := p.Embed(t.Context(), provider.Credential{}, &provider.Embedding{Model: "sandbox", Input: []string{"a"}, Dimensions: dimensions})
		unsupported(t, err, "dimensions: ")
	}
	for _, size := range []string{"x", "1x", "0x1", "-1x1", "1537x1", "1x1x1", "big", "99999999999999999999x1"} {
		_, err := p.MakeImages(t.Context(), provider.Credential{}, &provider.ImageRequest{Model: "sandbox", Count: 1, Size: size})
		unsupported(t, err, "size: ")
	}
	_, err := p.MakeImages(t.Context(), provider.Credential{}, &provider.ImageRequest{Model: "sandbox", Count: 1, Format: "webp"})
	unsupported(t, err, "output_format: ")
}

func unsupported(t *testing.T, err error, field string) {
	t.Helper()
	if e, ok := errors.AsType[*provider.Error](err); !ok || !e.Unsupported || !strings.HasPrefix(e.Text, field) {
		t.Errorf("err = %v, want %sunsupported", err, field)
	}
}

// The same prompt gives the same image; another prompt or index gives another.
func TestImagesAreTheirPrompts(t *testing.T) {
	p := sandbox.New(sandbox.Config{})
	draw := func(prompt string) []provider.Image {
		made, err := p.MakeImages(t.Context(), provider.Credential{}, &provider.ImageRequest{Model: "sandbox", Prompt: prompt, Count: 2})
		if err != nil {
			t.Fatal(err)
		}
		return made.Images
	}
	cat, again, dog := draw("cat"), draw("cat"), draw("dog")
	if diff := cmp.Diff(cat, again); diff != "" {
		t.Errorf("the same prompt (-first +second):\n%s", diff)
	}
	if cat[0] == cat[1] {
		t.Error("both places have the same image")
	}
	if cat[0] == dog[0] {
		t.Error("both prompts have the same image")
	}
}
