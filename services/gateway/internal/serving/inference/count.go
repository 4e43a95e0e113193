package inference

import (
	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/content/token"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// What OpenAI counts around the text of a conversation, as its cookbook has it: messageTokens for each message (its
// marks and its role), nameTokens for a name beside the name itself, and answerTokens for the beginning of the answer.
const (
	messageTokens = 4
	nameTokens    = 1
	answerTokens  = 3
)

// imageTokens is the estimate for an image in a prompt where the vendor reported no usage. The number of its bytes does
// not determine its tokens; vendors count from 85 (OpenAI, low detail) to about 1,600 (Anthropic, the largest that it
// doesn't shrink), and around this for one megapixel.
const imageTokens = 1000

// fileBytes is how many bytes of a document's base64 count as a token, roughly: a page of a PDF has some 50 kB and 1,500
// tokens.
const fileBytes = 32

// EstimateInput estimates the input tokens of a request to Route.Model, as a bill does when a vendor reports none.
func EstimateInput(r *Request) int64 { return estimateInput(r, r.Route.Model).Prompt() }

// estimateInput estimates the input of a request for a model with any of the names: by its vocabulary where that is
// known, else by bytes.
func estimateInput(r *Request, names ...string) provider.Usage {
	if r.Relay != nil {
		return r.Relay.Estimate
	}
	var u provider.Usage
	if counter, known := token.For(names...); known {
		u.Input = countInput(r, &counter)
	} else {
		u = provider.Estimate(promptBytes(r), 0)
	}
	for _, tokens := range r.Embedding.Tokens {
		u.Input += int64(len(tokens))
	}
	for _, m := range r.Chat.Messages {
		for _, part := range m.Content {
			if part.ImageURL != "" {
				u.ImageInput += imageTokens
			}
			if part.File != nil {
				u.Input += int64(len(part.File.URL) / fileBytes)
			}
		}
	}
	return u
}

// countInput counts the texts of a request and what is around them. Tools count as the JSON that defines them: how a
// vendor writes them for the model is not published.
func countInput(r *Request, counter *token.Counter) (around int64) {
	counter.Add(r.ImageRequest.Prompt)
	for _, text := range r.Embedding.Input {
		counter.Add(text)
	}
	for _, m := range r.Chat.Messages {
		around += messageTokens
		if m.Name != "" {
			around += nameTokens
			counter.Add(m.Name)
		}
		for _, part := range m.Content {
			counter.Add(part.Text)
		}
		for _, call := range m.ToolCalls {
			counter.Add(call.Name)
			counter.Add(call.Arguments)
		}
	}
	for _, tool := range r.Chat.Tools {
		counter.Add(tool.Name)
		counter.Add(tool.Description)
		counter.Add(string(tool.Parameters))
	}
	if len(r.Chat.Messages) > 0 {
		around += answerTokens
	}
	return around + counter.Tokens()
}

// promptBytes returns the size of the texts that are sent.
func promptBytes(r *Request) int {
	n := len(r.ImageRequest.Prompt)
	for _, text := range r.Embedding.Input {
		n += len(text)
	}
	for _, m := range r.Chat.Messages {
		for _, part := range m.Content {
			n += len(part.Text)
		}
		for _, call := range m.ToolCalls {
			n += len(call.Name) + len(call.Arguments)
		}
	}
	for _, tool := range r.Chat.Tools {
		n += len(tool.Name) + len(tool.Description) + len(tool.Parameters)
	}
	return n
}

// names returns the names by which the candidate's vocabulary may be known: the vendor's, which may be one that the
// caller's company gave to a deployment, and the policy's.
func (c *candidate) names() []string { return []string{c.Upstream, c.Model} }

// transcript keeps what a model writes until its vendor has reported the usage or failed to. The zero value keeps
// nothing.
type transcript struct {
	keeps bool
	// hold is charged for text.
	hold *memory.Hold
	text []byte
}

// transcript returns one that keeps a text only if the vocabulary of the candidate's model is known.
func (a *attempt) transcript() transcript {
	_, known := token.For(a.names()...)
	return transcript{keeps: known, hold: a.hold}
}

// A transcript has mostTranscript bytes at most, and leastTranscript bytes of memory if it isn't empty. The rest of an
// answer counts at the ratio of tokens to bytes of what is kept.
const mostTranscript, leastTranscript = 64 << 10, 512

// write adds a text. Where the memory for answers is short, the transcript is given up, and the answer goes on.
func (t *transcript) write(s string) {
	if !t.keeps {
		return
	}
	if room := mostTranscript - len(t.text); len(s) > room {
		s, t.keeps = s[:room], false
	}
	if size := len(t.text) + len(s); size > cap(t.text) {
		grown := max(size, min(2*cap(t.text), mostTranscript), leastTranscript)
		if t.hold.Charge(grown-cap(t.text)) != nil {
			t.hold.Return(cap(t.text))
			*t = transcript{}
			return
		}
		t.text = append(make([]byte, 0, grown), t.text...)
	}
	t.text = append(t.text, s...)
}

// outputTokens estimates the output of an answer without a report: by the vocabulary of the candidate's model where it
// is known, else by bytes. It is for the bill, after the last byte of the answer has arrived.
func (t *tally) outputTokens(of *candidate) int64 {
	counter, known := token.For(of.names()...)
	if !known {
		return provider.Estimate(0, t.bytes).Output
	}
	counter.Add(string(t.written.text))
	counter.Skip(t.bytes - len(t.written.text))
	return counter.Tokens()
}
