package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/socket"
)

// errTerms refuses a request on a connection that was opened with other terms of the key: the gateway knows those of the
// upgrade only.
var errTerms = apierr.Unavailable("the terms of this API key have changed; connect again", socket.ErrStale)

// connect relays a WebSocket connection. Each request on it is admitted as a call of its own: with the key as it is then.
func (a *API) connect(w http.ResponseWriter, req *http.Request, l *chain.Line, need apikey.Need, use quota.Use, call proxy.Call) error {
	authorization, requestID := req.Header.Get("Authorization"), req.Header.Get(caller.HeaderRequest)
	opened, admitted := time.Now(), 0
	var holder quota.Caller
	call.Admit = func(ctx context.Context) error {
		key, err := a.options.Verifier.Verify(ctx, authorization)
		if err != nil {
			return err
		}
		if err := key.May(need); err != nil {
			return err
		}
		if key.TermsHeader != call.Terms {
			return errTerms
		}
		if _, err := a.options.Limiter.Take(ctx, key.Buckets.Key, key.Buckets.Organization); err != nil {
			return err
		}
		holder = callerOf(key)
		if _, err := a.options.Quotas.Take(ctx, holder, use); err != nil {
			return err
		}
		admitted++
		return nil
	}
	call.Refusal = func(e *apierr.Error, stream string) []byte { return refusal(e, stream, requestID) }
	session, err := a.options.Sockets.Connect(w, req, call)
	l.Session = &session
	if failed := admitted - session.Counted; failed > 0 {
		a.options.Quotas.GiveBack(holder, use, int64(failed), opened)
	}
	return err
}

// socketError is the message that refuses a request on a WebSocket, in the forms of HTTP and of the API's error event:
// clients differ in which of them they read.
type socketError struct {
	Type     string        `json:"type"`
	Stream   string        `json:"stream_id,omitempty"`
	Status   int           `json:"status"`
	Code     string        `json:"code"`
	Message  string        `json:"message"`
	Param    *string       `json:"param"`
	Sequence int           `json:"sequence_number"`
	Headers  socketHeaders `json:"headers"`
	Error    openAIDetail  `json:"error"`
}

// socketHeaders are those that the error would have over HTTP.
type socketHeaders struct {
	RequestID   string `json:"x-request-id"`
	RetryAfter  string `json:"retry-after,omitempty"`
	ShouldRetry string `json:"x-should-retry,omitempty"`
}

// refusal returns the message that refuses a request. Clients also read the wait in its text and retry, so the text of
// an error that must not be retried has none.
func refusal(e *apierr.Error, stream, requestID string) []byte {
	message := socketError{
		Type: "error", Stream: stream, Status: e.Kind.HTTPStatus(), Headers: socketHeaders{RequestID: requestID},
	}
	retryable := e.ErrorClass().Retryable()
	if !retryable {
		message.Headers.ShouldRetry = "false"
	}
	shown := *e
	if seconds := e.RetryAfterSeconds(); seconds > 0 {
		message.Headers.RetryAfter = strconv.Itoa(seconds)
		if retryable {
			shown.Text += ". Please try again in " + strconv.Itoa(seconds) + "s."
		}
	}
	message.Error = newOpenAI(&shown, requestID).Error
	message.Code, message.Message, message.Param = message.Error.Code, message.Error.Message, message.Error.Param
	text, _ := json.Marshal(message) // It holds texts and numbers only.
	return text
}
