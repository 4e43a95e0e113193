package mcp

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/apierr"
)

// codeBase is what the codes of the gateway's own errors count down from, by the HTTP status that the error has
// elsewhere: 403 is -31403. They are outside of what JSON-RPC and the protocol reserve.
const codeBase = -31000

// details is the data of the gateway's own errors.
type details struct {
	Reason apierr.Reason `json:"reason"`
	// ErrorClass and Retryable say what the code doesn't: some permanent errors share a status with temporary ones.
	ErrorClass apierr.Class `json:"error_class"`
	Retryable  bool         `json:"retryable"`
	RequestID  string       `json:"request_id,omitempty"`
	Field      string       `json:"field,omitempty"`
	// ApprovalRef names the approval that the error is about.
	ApprovalRef string `json:"approval_ref,omitempty"`
	// RetryAfterMs is the minimum time to wait, in milliseconds.
	RetryAfterMs int64 `json:"retry_after_ms,omitempty"`
}

// refuse answers with an error of the gateway or of a server. A refusal of the policy has status 200: clients take 401
// and 403 as a demand to sign in.
func (x *exchange) refuse(err error) {
	if answer, ok := errors.AsType[*wire.Error](err); ok {
		if missing := x.missing(answer); missing != nil {
			x.fail(missing, http.StatusBadRequest)
			return
		}
		x.fail(relayed(answer), http.StatusOK)
		return
	}
	shown := apierr.From(err)
	status := http.StatusOK
	if shown.Kind == apierr.KindInvalid {
		status = http.StatusBadRequest
	}
	e := errorOf(shown, x.asker.RequestID, approvalOf(err))
	x.fail(&e, status)
}

// approvalOf returns the reference of the approval that an error is about; empty for none.
func approvalOf(err error) string {
	if about, ok := errors.AsType[*toolcall.ApprovalError](err); ok {
		return about.Ref
	}
	return ""
}

// errorOf returns an error as the protocol has it. approvalRef is the approval that it is about; empty for none.
func errorOf(e *apierr.Error, requestID, approvalRef string) wire.Error {
	code := int64(codeBase - e.Kind.HTTPStatus())
	class := e.ErrorClass()
	data := details{
		Reason: e.Reason, ErrorClass: class, Retryable: class.Retryable(), RequestID: requestID, ApprovalRef: approvalRef,
		RetryAfterMs: e.RetryAfter.Milliseconds(),
	}
	switch e.Kind {
	case apierr.KindInvalid:
		code = wire.CodeInvalidParams
		if field, _, ok := strings.Cut(e.Text, ": "); ok && !strings.ContainsAny(field, " \t") {
			data.Field = field
		}
	case apierr.KindInternal:
		code = wire.CodeInternal
	default:
	}
	text, err := jsontext.Marshal(data)
	if err != nil {
		text = nil // Texts can't fail.
	}
	return wire.Error{Code: code, Message: e.Text, Data: text}
}

// ErrorBody returns the document of an error that ends a request before it is read; see rpc.Dialect. It belongs to no
// id.
func ErrorBody(e *apierr.Error, requestID string) any {
	shown := errorOf(e, requestID, "")
	if e.Kind == apierr.KindInvalid {
		shown.Code = wire.CodeInvalidRequest
	}
	return json.RawMessage((&refusal{err: shown}).text())
}

// maxMessage bounds the message of a server's error, in bytes.
const maxMessage = 4 << 10

// relayed returns a server's error for the caller. Codes that say something of the transport, which is the gateway's own,
// become an internal error.
func relayed(e *wire.Error) *wire.Error {
	out := wire.Error{Code: e.Code, Message: e.Message}
	reserved := e.Code <= -32000 && e.Code >= -32768
	if reserved && e.Code != wire.CodeInvalidParams {
		out.Code = wire.CodeInternal
	}
	if len(out.Message) > maxMessage {
		out.Message = out.Message[:maxMessage]
		for !utf8.ValidString(out.Message) {
			out.Message = out.Message[:len(out.Message)-1]
		}
	}
	return &out
}

func codeText(code int64) string { return strconv.FormatInt(code, 10) }
