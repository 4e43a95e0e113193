package openai

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/testkit/growth"
)

// What vendors report of each call becomes its usage.
func TestMeter(t *testing.T) {
	for name, c := range map[string]struct {
		path, kind string
		documents  []string
		want       *provider.Usage
	}{
		"a completion":         {PathCompletions, "", []string{`{"choices":[{"text":"a"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}}`}, &provider.Usage{Input: 2, CacheRead: 1, Output: 2}},
		"speech":               {PathSpeech, "", []string{`{"type":"speech.audio.delta","audio":"AA"}`, `{"type":"speech.audio.done","usage":{"input_tokens":4,"output_tokens":30}}`}, &provider.Usage{Input: 4, AudioOutput: 30, Characters: 9}},
		"seconds":              {PathTranscriptions, "", []string{`{"text":"a","usage":{"type":"duration","seconds":6.2}}`}, &provider.Usage{AudioSeconds: 7}},
		"a duration":           {PathTranscriptions, "", []string{`{"text":"a","duration":8.1}`}, &provider.Usage{AudioSeconds: 9}},
		"a duration as text":   {PathTranslations, "", []string{`{"text":"a","duration":"8.1"}`}, &provider.Usage{AudioSeconds: 9}},
		"tokens of sound":      {PathTranscriptions, "", []string{`{"usage":{"type":"tokens","input_tokens":20,"input_token_details":{"audio_tokens":14},"output_tokens":2}}`}, &provider.Usage{Input: 6, AudioInput: 14, Output: 2}},
		"SubRip":               {PathTranscriptions, "text/plain", []string{"1\n00:00:00,000 --> 01:01:02,500\nhello --> you\n"}, nil},
		"SubRip with its end":  {PathTranscriptions, "text/plain", []string{"1\n00:00:00,000 --> 01:01:02,500\nhello\n"}, &provider.Usage{AudioSeconds: 3663}},
		"WebVTT":               {PathTranscriptions, "text/vtt", []string{"WEBVTT\n\n00:00.000 --> 00:04.100\nhello\n"}, &provider.Usage{AudioSeconds: 5}},
		"text without times":   {PathTranscriptions, "text/plain", []string{"hello"}, nil},
		"images":               {PathImages, "", []string{`{"data":[{"b64_json":"A"},{"b64_json":"B"}],"usage":{"input_tokens":5,"output_tokens":60}}`}, &provider.Usage{Input: 5, ImageOutput: 60, Images: 2}},
		"images without usage": {PathVariations, "", []string{`{"data":[{"url":"x"}]}`}, &provider.Usage{Images: 1}},
		"streamed images": {
			PathImageEdits, "",
			[]string{`{"type":"image_edit.partial_image"}`, `{"type":"image_edit.completed","usage":{"input_tokens":5,"output_tokens":60}}`, `{"type":"image_edit.completed","usage":{"input_tokens":5,"output_tokens":61}}`},
			&provider.Usage{Input: 10, ImageOutput: 121, Images: 2},
		},
		"speech of zeros":       {PathSpeech, "", []string{`{"type":"speech.audio.done","usage":{"input_tokens":0,"output_tokens":0}}`}, nil},
		"seconds beside zeros":  {PathTranscriptions, "", []string{`{"text":"a","duration":8.1,"usage":{"input_tokens":0,"output_tokens":0}}`}, &provider.Usage{AudioSeconds: 9}},
		"rerank of zeros":       {PathRerank, "", []string{`{"results":[],"usage":{"total_tokens":0}}`}, nil},
		"rerank":                {PathRerank, "", []string{`{"results":[],"usage":{"total_tokens":15}}`}, &provider.Usage{Input: 15, Searches: 2}},
		"a moderation":          {PathModerations, "", []string{`{"results":[]}`}, nil},
		"numbers that are none": {PathTranscriptions, "", []string{`{"usage":{"seconds":1e300}}`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := &meter{call: &provider.Relay{Path: c.path, Estimate: provider.Usage{Characters: 9, Searches: 2}}}
			var event provider.Event
			for _, document := range c.documents {
				a := &wire.Answer{Kind: c.kind, Text: []byte(document)}
				if c.kind == "" {
					a.JSON = gjson.Parse(document)
				}
				event, _ = m.Read(a)
			}
			if diff := cmp.Diff(c.want, event.Usage); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}

// The text of a transcription is counted if the vendor counts none of it.
func TestMeterKeepsUncountedText(t *testing.T) {
	for usage, want := range map[string]string{
		`{"input_tokens":20,"output_tokens":0}`: "hello", `{"input_tokens":20}`: "hello", `{"input_tokens":20,"output_tokens":2}`: "", `{"seconds":7}`: "",
	} {
		m := &meter{call: &provider.Relay{Path: PathTranscriptions}}
		event, _ := m.Read(&wire.Answer{JSON: gjson.Parse(`{"text":"hello","usage":` + usage + `}`)})
		if event.Other != want {
			t.Errorf("%s: %q is counted, want %q", usage, event.Other, want)
		}
	}
}

// The event that holds the usage of a completion is the caller's only if it was asked for.
func TestMeterLeavesOut(t *testing.T) {
	for body, want := range map[string]bool{
		`{"prompt":"a"}`: true, `{"stream_options":{"include_usage":true}}`: false, `{"stream_options":{"include_usage":false,"x":1}}`: true,
	} {
		sent, asked := withUsage([]byte(body))
		if !gjson.GetBytes(sent, "stream_options.include_usage").Bool() {
			t.Errorf("%s was sent as %s, without a request for the usage", body, sent)
		}
		m := &meter{call: &provider.Relay{Path: PathCompletions}, usageAsked: asked}
		if _, leftOut := m.Read(&wire.Answer{JSON: gjson.Parse(`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)}); leftOut != want {
			t.Errorf("%s: the usage is left out: %t, want %t", body, leftOut, want)
		}
	}
}

func TestMeterGrowsLinearly(t *testing.T) {
	var rows []growth.Row
	for _, path := range []string{PathCompletions, PathSpeech, PathTranscriptions, PathImages, PathRerank} {
		inputs := append(growth.Around(`{"usage":`, growth.ValidJSON, `}`), growth.Around(`{"choices":`, growth.ValidJSON, `}`)...)
		inputs = append(inputs, growth.Repeat("images", `{"data":[{}`, ",{}", "]}"), growth.Repeat("choices", `{"choices":[{"text":"a"}`, `,{"text":"a"}`, "]}"))
		rows = append(rows, growth.Each(inputs, func(text []byte) {
			m := &meter{call: &provider.Relay{Path: path}}
			_, _ = m.Read(&wire.Answer{JSON: gjson.ParseBytes(text)})
			_, _ = withUsage(text)
		})...)
	}
	growth.Linear(t, append(rows, growth.EachText(append(growth.Text, growth.Repeat("cues", "", "00:00:00,000 --> 00:00:00,000\n", "")), func(text string) { _ = lastCue(text) })...)...)
}
