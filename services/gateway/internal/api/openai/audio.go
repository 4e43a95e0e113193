package openai

import (
	"bytes"
	"encoding/binary"
	"mime"
	"strings"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
)

// Transcription reads a recording to transcribe.
func Transcription(s dialect.Source) (*dialect.Call, error) {
	return recordingOf(s, openai.PathTranscriptions)
}

// Translation reads a recording to transcribe in English.
func Translation(s dialect.Source) (*dialect.Call, error) {
	return recordingOf(s, openai.PathTranslations)
}

func recordingOf(s dialect.Source, path string) (*dialect.Call, error) {
	f, err := dialect.ParseForm(s)
	if err != nil {
		return nil, err
	}
	_, recording, err := f.File("file")
	if err != nil {
		return nil, err
	}
	prompt, err := f.Text("prompt")
	if err != nil {
		return nil, err
	}
	c := relayTo(provider.OperationTranscriptions, path)
	usual, most := length(recording)
	c.Relay.Estimate = provider.Usage{AudioSeconds: usual}
	c.Relay.Most = provider.Usage{
		AudioSeconds: most, Input: int64(len(prompt)) + aroundInput + most*audioTokens, Output: aroundOutput + most*textTokens,
	}
	return c, c.FinishForm(f)
}

// Tokens of a second of sound: those that a model hears (OpenAI's count some ten), and those that it writes in the
// fastest speech, with the times of words.
const (
	audioTokens = 64
	textTokens  = 32
)

// Bytes of a second of a compressed recording: a usual one (64 kbit/s) and the smallest (Opus at 6 kbit/s).
const (
	usualSecond    = 8000
	smallestSecond = 750
)

// length returns how many seconds a recording usually has, from its header where that says so, and has at most. A header is
// the caller's word: it doesn't lower the most.
func length(file []byte) (usual, most int64) {
	size := int64(len(file))
	usual, most = size/usualSecond+1, size/smallestSecond+1
	if seconds, ok := waveLength(file); ok {
		usual = seconds
	}
	return usual, most
}

// waveLength returns the length of a WAVE file with PCM sound in seconds, rounded up. Source: Multimedia Programming
// Interface and Data Specifications 1.0, "WAVE".
func waveLength(file []byte) (seconds int64, ok bool) {
	const (
		head, chunkHead = 12, 8
		rateAt          = chunkHead + 8 // bytes of a second, within the chunk "fmt "
	)
	if len(file) < head+rateAt+4 || !bytes.HasPrefix(file, []byte("RIFF")) || string(file[chunkHead:head]) != "WAVE" {
		return 0, false
	}
	if string(file[head:head+4]) != "fmt " {
		return 0, false
	}
	rate := int64(binary.LittleEndian.Uint32(file[head+rateAt:]))
	if rate < smallestSecond {
		return 0, false
	}
	return int64(len(file))/rate + 1, true
}

// isJSON reports whether a body is JSON and not a form.
func isJSON(s dialect.Source) bool {
	kind, _, err := mime.ParseMediaType(s.ContentType)
	return err != nil || !strings.HasPrefix(kind, "multipart/")
}
