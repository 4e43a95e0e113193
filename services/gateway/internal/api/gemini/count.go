package gemini

import (
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/platform/apierr"
)

var countNames = known("contents", "generateContentRequest", "model")

// ReadCount parses the body of countTokens: a conversation, or a whole request in a member of its own.
func ReadCount(body []byte, model string) (*dialect.Chat, error) {
	root, err := parse(body, countNames)
	if err != nil {
		return nil, err
	}
	whole := root.raw("generateContentRequest")
	switch {
	case whole == nil:
		return Read(body, Call{Model: model})
	case root.has("contents"):
		return nil, apierr.Invalid("generateContentRequest", "excludes contents")
	}
	chat, err := Read(whole, Call{Model: model})
	if err != nil {
		return nil, apierr.Invalid("generateContentRequest", apierr.From(err).Text)
	}
	return chat, nil
}

// TokenCount is the answer of countTokens.
type TokenCount struct {
	Total int64 `json:"totalTokens"`
}
