package api

import "switchyard.dev/services/platform/apierr"

// jsonRPC is the error of a request that was refused before it was read, as the gateway has it on its faces of the Model
// Context Protocol. It belongs to no id: the edge doesn't read bodies.
type jsonRPC struct {
	Version string        `json:"jsonrpc"`
	Error   jsonRPCDetail `json:"error"`
}

type jsonRPCDetail struct {
	Code    int         `json:"code"`
	Message string      `json:"message"`
	Data    jsonRPCData `json:"data"`
}

type jsonRPCData struct {
	Reason       apierr.Reason `json:"reason"`
	ErrorClass   apierr.Class  `json:"error_class"`
	Retryable    bool          `json:"retryable"`
	RequestID    string        `json:"request_id,omitempty"`
	Field        string        `json:"field,omitempty"`
	RetryAfterMs int64         `json:"retry_after_ms,omitempty"`
}

// Codes of errors: codeBase less the HTTP status, and those that JSON-RPC has.
const (
	codeBase           = -31000
	codeInvalidRequest = -32600
	codeInternal       = -32603
)

func newJSONRPC(e *apierr.Error, requestID string) any {
	code := codeBase - e.Kind.HTTPStatus()
	switch e.Kind {
	case apierr.KindInvalid:
		code = codeInvalidRequest
	case apierr.KindInternal:
		code = codeInternal
	default:
	}
	class := e.ErrorClass()
	data := jsonRPCData{e.Reason, class, class.Retryable(), requestID, e.Field(), e.RetryAfter.Milliseconds()}
	return jsonRPC{"2.0", jsonRPCDetail{code, e.Text, data}}
}
