package openai

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit/growth"
)

// readers are the calls with a JSON body.
var readers = map[string]func(dialect.Source) (*dialect.Call, error){
	"completion": Completion, "moderation": Moderation, "speech": Speech, "images": Images, "edit": ImageEdit,
}

// What a call can cost follows from what it asks for.
func TestCallsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		call, body     string
		estimate, most provider.Usage
	}{
		"a completion":           {"completion", `{"prompt":"hello","max_tokens":10}`, provider.Usage{Input: 2}, provider.Usage{Input: 7 + aroundInput, Output: 10}},
		"an unbounded one":       {"completion", `{"prompt":"hello"}`, provider.Usage{Input: 2}, provider.Usage{Input: 7 + aroundInput, Output: usualTokens}},
		"several":                {"completion", `{"prompt":["a","b"],"max_tokens":10,"n":2,"best_of":3}`, provider.Usage{Input: 3}, provider.Usage{Input: 9 + aroundInput, Output: 60}},
		"one of tokens":          {"completion", `{"prompt":[1,2,3],"max_tokens":10}`, provider.Usage{Input: 3}, provider.Usage{Input: 7 + aroundInput, Output: 10}},
		"one that is repeated":   {"completion", `{"prompt":"hello","max_tokens":10,"echo":true}`, provider.Usage{Input: 2}, provider.Usage{Input: 7 + aroundInput, Output: 17 + aroundInput}},
		"a moderation":           {"moderation", `{"input":["a","b"]}`, provider.Usage{Input: 3}, provider.Usage{Input: 9 + aroundInput}},
		"speech":                 {"speech", `{"input":"grüße"}`, provider.Usage{Input: 2, AudioOutput: 7, Characters: 5}, provider.Usage{Input: 7 + aroundInput, Characters: 5, Output: 80 + aroundOutput}},
		"images":                 {"images", `{"prompt":"a cat","n":2,"background":"auto"}`, provider.Usage{Input: 2, Images: 2}, provider.Usage{Input: 7 + aroundInput, Images: 2, Output: 2 * largestImage}},
		"an image with previews": {"images", `{"prompt":"a cat","partial_images":2}`, provider.Usage{Input: 2, Images: 1}, provider.Usage{Input: 7 + aroundInput, Images: 1, Output: 3 * largestImage}},
		"an edit of images":      {"edit", `{"prompt":"a cat","images":[{"file_id":"a"},{"image_url":"https://a.example/b.png"}],"mask":{"file_id":"c"}}`, provider.Usage{Input: 2, Images: 1}, provider.Usage{Input: 7 + aroundInput + 3*largestImage, Images: 1, Output: largestImage}},
		"an edit of one image":   {"edit", `{"prompt":"a cat","image":"aQ=="}`, provider.Usage{Input: 2, Images: 1}, provider.Usage{Input: 7 + aroundInput + largestImage, Images: 1, Output: largestImage}},
	} {
		t.Run(name, func(t *testing.T) {
			call, err := readers[c.call](dialect.Source{Body: []byte(c.body)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]provider.Usage{c.estimate, c.most}, []provider.Usage{call.Relay.Estimate, call.Relay.Most}); diff != "" {
				t.Errorf("estimate and most (-want +got):\n%s", diff)
			}
		})
	}
}

// A recording's length comes from its header or its size, and its header never lowers the most.
func TestLength(t *testing.T) {
	wave := make([]byte, 44+16000*3)
	copy(wave, "RIFF....WAVEfmt ")
	binary.LittleEndian.PutUint32(wave[28:], 16000)
	for name, c := range map[string]struct {
		file        []byte
		usual, most int64
	}{
		"compressed":     {make([]byte, 80_000), 11, 107},
		"a WAVE file":    {wave, 4, 65},
		"an absurd rate": {append([]byte("RIFF....WAVEfmt ............\xff\xff\xff\xff"), make([]byte, 8000)...), 1, 11},
		"no rate":        {append([]byte("RIFF....WAVEfmt ............\x00\x00\x00\x00"), make([]byte, 8000)...), 2, 11},
		"a short file":   {[]byte("RIFF"), 1, 1},
	} {
		if usual, most := length(c.file); usual != c.usual || most != c.most {
			t.Errorf("%s: %d and at most %d seconds, want %d and %d", name, usual, most, c.usual, c.most)
		}
	}
}

func TestCallGrowsLinearly(t *testing.T) {
	for name, read := range readers {
		inputs := append(growth.Around(`{"input":`, growth.ValidJSON, `}`), growth.Around(`{"prompt":`, growth.ValidJSON, `}`)...)
		inputs = append(inputs, growth.Number("members", `{"input":"a","prompt":"b"`, `,"a#":1`, "}"),
			growth.Repeat("prompts", `{"prompt":["a"`, `,"a"`, "]}"), growth.Repeat("tokens", `{"prompt":[1`, ",1", "]}"),
			growth.Repeat("a text to speak", `{"input":"`, "ü", `"}`))
		t.Run(name, func(t *testing.T) {
			growth.Linear(t, growth.Each(inputs, func(body []byte) {
				_, _ = read(dialect.Source{Body: body})
				_ = IsPlainImages(body)
			})...)
		})
	}
}

func FuzzCall(f *testing.F) {
	f.Add("speech", []byte(`{"input":"a","stream_format":"sse"}`))
	f.Add("completion", []byte(`{"prompt":[[1],[2]],"n":2,"switchyard":{}}`))
	f.Add("images", []byte(`{"prompt":"a","partial_images":3}`))
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		read, ok := readers[name]
		if !ok {
			return
		}
		call, err := read(dialect.Source{Body: body})
		switch {
		case err != nil && apierr.From(err).Kind != apierr.KindInvalid:
			t.Errorf("%v is not an error of the caller", err)
		case err == nil && (call.Relay.Estimate.Prompt() > call.Relay.Most.Input || call.Relay.Estimate.Characters > call.Relay.Most.Characters):
			t.Errorf("the estimate %+v is more than the most %+v", call.Relay.Estimate, call.Relay.Most)
		}
	})
}

func TestFormsOfCalls(t *testing.T) {
	const form = "--x\r\nContent-Disposition: form-data; name=\"image[]\"; filename=\"a.png\"\r\n\r\nx\r\n"
	body := strings.Repeat(form, 2) + "--x\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\nhats\r\n--x--\r\n"
	call, err := ImageEdit(dialect.Source{ContentType: "multipart/form-data; boundary=x", Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	want := provider.Usage{Input: 4 + aroundInput + 2*largestImage, Images: 1, Output: largestImage}
	if diff := cmp.Diff(want, call.Relay.Most); diff != "" {
		t.Errorf("most (-want +got):\n%s", diff)
	}
}
