package openai

import (
	"context"
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// The paths of the relayed calls. Source: OpenAI API reference, "Completions (legacy)", "Moderations", "Audio" and
// "Images"; Jina API reference, "Reranker", which vLLM has too.
const (
	PathCompletions    = "/completions"
	PathModerations    = "/moderations"
	PathSpeech         = "/audio/speech"
	PathTranscriptions = "/audio/transcriptions"
	PathTranslations   = "/audio/translations"
	PathImages         = imageGenerations
	PathImageEdits     = "/images/edits"
	PathVariations     = "/images/variations"
	PathRerank         = "/rerank"
)

// Relay implements provider.Relayer.
func (p *Provider) Relay(ctx context.Context, credential provider.Credential, call *provider.Relay) (provider.RelayStream, error) {
	at, err := p.endpoint(call.Path, call.Model)
	if err != nil {
		return nil, err
	}
	sent := *call
	m := &meter{call: call}
	if call.Path == PathCompletions && call.Stream && p.traits.streamUsage {
		sent.Body, m.usageAsked = withUsage(call.Body)
	}
	header := header(nil)
	header.Set("Accept", "*/*")
	return p.caller.With(credential).Relay(ctx, at, header, &sent, m)
}

// withUsage returns a body that requests usage at the end of its stream; asked reports whether the caller's does.
func withUsage(body json.RawMessage) (sent json.RawMessage, asked bool) {
	options := wire.ParseView(body).Get("stream_options")
	asked = options.Get("include_usage").Type == gjson.True
	value := `{"include_usage":true}`
	if options.IsObject() {
		value = string(wire.Override([]byte(options.Raw), wire.Member{Name: "include_usage", Value: "true"}))
	}
	return wire.Override(body, wire.Member{Name: "stream_options", Value: value}), asked
}

// meter reads the answer to a relayed call.
type meter struct {
	call *provider.Relay
	// usageAsked reports whether the caller wants the event that holds the usage of a completion.
	usageAsked bool
	// usage is that of the events so far, images how many of them are images.
	usage  *provider.Usage
	images int
}

// Read implements wire.Meter.
func (m *meter) Read(a *wire.Answer) (event provider.Event, leftOut bool) {
	switch m.call.Path {
	case PathCompletions:
		return m.completion(a.JSON)
	case PathSpeech:
		m.bill(a.JSON.Get("usage"))
		if m.usage != nil {
			m.usage.Characters = m.call.Estimate.Characters
		}
	case PathTranscriptions, PathTranslations:
		m.transcription(a)
		event.Text = wire.Text(a.JSON.Get("delta"))
		if m.usage != nil && m.usage.Prompt() > 0 && m.usage.Completion() == 0 { // The text must be counted.
			event.Other = wire.Text(a.JSON.Get("text"))
		}
	case PathImages, PathImageEdits, PathVariations:
		m.image(a.JSON)
	case PathRerank:
		if tokens := count(a.JSON.Get("usage.total_tokens")); tokens > 0 {
			m.usage = &provider.Usage{Input: tokens, Searches: m.call.Estimate.Searches}
		}
	}
	event.Usage = m.usage
	return event, false
}

// completion reads a text completion, or a chunk of one.
func (m *meter) completion(document gjson.Result) (event provider.Event, leftOut bool) {
	choices := 0
	var text wire.Joined
	each(document.Get("choices"), func(choice gjson.Result) {
		choices++
		text.Add(wire.Text(choice.Get("text")))
		if choice.Get("finish_reason").Str != "" {
			event.FinishReason = provider.FinishStop
		}
	})
	if used := usageOf(document.Get("usage")); used != nil {
		m.usage = used
	}
	event.Text, event.Usage = text.String(), m.usage
	return event, choices == 0 && m.usage != nil && !m.usageAsked
}

// bill reads a usage in tokens whose input and output are split by kind. Only audio models report it here. Two zeros are
// no report.
func (m *meter) bill(used gjson.Result) {
	in, out := split{left: count(used.Get("input_tokens"))}, split{left: count(used.Get("output_tokens"))}
	if in.left == 0 && out.left == 0 {
		return
	}
	m.usage = &provider.Usage{AudioInput: in.take(count(used.Get("input_token_details.audio_tokens")))}
	m.usage.Input = in.left
	if m.call.Path == PathSpeech {
		m.usage.AudioOutput = out.left
	} else {
		m.usage.Output = out.left
	}
}

// transcription reads a transcription: its usage in tokens or seconds, its duration, or the end of its last subtitle.
func (m *meter) transcription(a *wire.Answer) {
	m.bill(a.JSON.Get("usage"))
	seconds := a.JSON.Get("usage.seconds")
	if seconds.Type != gjson.Number {
		seconds = a.JSON.Get("duration")
	}
	var length float64
	switch {
	case m.usage != nil:
		return
	case seconds.Type == gjson.Number || seconds.Type == gjson.String: // Whisper's own server writes it as text.
		length = seconds.Float()
	case a.Kind != "":
		length = lastCue(string(a.Text))
	}
	if whole := math.Ceil(length); whole > 0 && whole < math.MaxInt32 {
		m.usage = &provider.Usage{AudioSeconds: int64(whole)}
	}
}

// cue matches the end of a subtitle's time range in SubRip and WebVTT.
var cue = regexp.MustCompile(`--> (?:(\d{1,4}):)?(\d{2}):(\d{2})[.,](\d{3})`)

// lastCue returns the time in seconds at which the last subtitle ends; 0 where there is none.
func lastCue(text string) float64 {
	at := strings.LastIndex(text, "--> ")
	if at < 0 {
		return 0
	}
	found := cue.FindStringSubmatch(text[at:])
	if found == nil {
		return 0
	}
	var seconds float64
	for _, figure := range found[1:4] {
		n, _ := strconv.Atoi(figure) // Digits, or nothing for the hours.
		seconds = seconds*60 + float64(n)
	}
	thousandths, _ := strconv.Atoi(found[4])
	return seconds + float64(thousandths)/1000
}

// image reads generated images, or an event of them.
func (m *meter) image(document gjson.Result) {
	if strings.HasSuffix(document.Get("type").Str, ".completed") {
		m.images++
	}
	each(document.Get("data"), func(gjson.Result) { m.images++ })
	if m.images == 0 {
		return
	}
	before := m.usage
	m.usage = imageUsage(document.Get("usage"), m.images)
	if before != nil { // Each image of a stream reports its own tokens.
		m.usage.ImageInput += before.ImageInput
		m.usage.Input += before.Input
		m.usage.Output += before.Output
		m.usage.ImageOutput += before.ImageOutput
	}
}
