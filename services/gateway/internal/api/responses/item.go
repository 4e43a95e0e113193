package responses

import (
	"cmp"
	"encoding/json"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/jsoncheck"
)

// The items of an answer.
type messageItem struct {
	ID      string        `json:"id"`
	Type    string        `json:"type"`
	Status  string        `json:"status"`
	Role    string        `json:"role"`
	Content []contentPart `json:"content"`
}

// contentPart is a text of a message.
type contentPart struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Annotations []any  `json:"annotations"`
	Logprobs    []any  `json:"logprobs"`
}

type reasoningItem struct {
	ID               string        `json:"id"`
	Type             string        `json:"type"`
	Summary          []summaryPart `json:"summary"`
	EncryptedContent string        `json:"encrypted_content,omitempty"`
}

type summaryPart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type functionItem struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Status    string `json:"status"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	Arguments string `json:"arguments"`
}

type customItem struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Status    string `json:"status"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	Input     string `json:"input"`
}

type searchItem struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Status    string          `json:"status"`
	CallID    string          `json:"call_id"`
	Execution string          `json:"execution"`
	Arguments json.RawMessage `json:"arguments"`
}

func newMessage(id, status string, content ...contentPart) messageItem {
	if content == nil {
		content = []contentPart{}
	}
	return messageItem{id, typeMessage, status, string(provider.RoleAssistant), content}
}

func textPart(text string, annotations []any) contentPart {
	if annotations == nil {
		annotations = []any{}
	}
	return contentPart{"output_text", text, annotations, []any{}}
}

func newReasoning(id, text, sealed string) reasoningItem {
	item := reasoningItem{id, typeReasoning, []summaryPart{}, sealed}
	if text != "" {
		item.Summary = append(item.Summary, summaryPart{"summary_text", text})
	}
	return item
}

// newCall returns the item of a call, as the kind of its tool requires.
func newCall(id, status string, c callable, callID, arguments string) any {
	switch c.kind {
	case toolCustom:
		return customItem{id, typeCustomCall, status, callID, c.name, c.namespace, customInput(arguments)}
	case toolSearch:
		object := json.RawMessage(cmp.Or(arguments, "{}"))
		if !jsoncheck.Valid(object) {
			object = jsontext.AppendText(nil, arguments)
		}
		return searchItem{id, typeToolSearchCall, status, callID, "client", object}
	}
	return functionItem{id, typeFunctionCall, status, callID, c.name, c.namespace, arguments}
}

// callPrefix returns the prefix of the ids of calls of a kind.
func callPrefix(kind string) string {
	switch kind {
	case toolCustom:
		return "ctc"
	case toolSearch:
		return "tsc"
	}
	return "fc"
}
