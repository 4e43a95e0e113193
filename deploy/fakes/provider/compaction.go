package provider

import (
	"encoding/json"
	"net/http"
)

// compaction is the answer to a request to shorten a conversation.
type compaction struct {
	ID        string           `json:"id"`
	Object    string           `json:"object"`
	CreatedAt int64            `json:"created_at"`
	Output    []compactionItem `json:"output"`
	Usage     *responsesUsage  `json:"usage"`
}

type compactionItem struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	Encrypted string `json:"encrypted_content"`
}

// asked returns a request of the Responses API with its conversation; it answers itself where there is none.
func asked(w http.ResponseWriter, r *http.Request, body []byte) (req responsesRequest, p prompt, ok bool) {
	if err := json.Unmarshal(body, &req); err != nil {
		fail(w, r, http.StatusBadRequest, "We could not parse the JSON body of your request: "+err.Error())
		return req, p, false
	}
	req.seal = sealOf(r)
	p, err := req.prompt()
	if err != nil {
		fail(w, r, http.StatusBadRequest, err.Error())
		return req, p, false
	}
	return req, p, true
}

// compact answers POST /v1/responses/compact. Only the account that asked can read the item.
func compact(w http.ResponseWriter, r *http.Request, body []byte) {
	req, p, ok := asked(w, r, body)
	if !ok {
		return
	}
	read := inputOfTexts(p)
	writeJSON(w, http.StatusOK, compaction{
		ID: id("resp_", 40, body, "compaction"), Object: "response.compaction", CreatedAt: created,
		Output: []compactionItem{{"compaction", id("cmp_", 40, body, "item"), id(req.seal, 32, body, "compaction")}},
		Usage:  &responsesUsage{InputTokens: read, OutputTokens: 8, TotalTokens: read + 8},
	})
}

// countInput answers POST /v1/responses/input_tokens.
func countInput(w http.ResponseWriter, r *http.Request, body []byte) {
	if _, p, ok := asked(w, r, body); ok {
		writeJSON(w, http.StatusOK, map[string]any{"object": "response.input_tokens", "input_tokens": inputOfTexts(p)})
	}
}

func inputOfTexts(p prompt) (tokens int) {
	for _, text := range p.texts {
		tokens += Tokens(text)
	}
	return tokens
}
