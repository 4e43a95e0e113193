package fault

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// repeatBehaviours repeat what was sent, credentials and signatures included.
var repeatBehaviours = []Behaviour{
	refused("repeat_body", "200 with the whole request, head and body, as plain text", func(x *Exchange) {
		x.plain(http.StatusOK, x.sent()+"\n"+string(x.Body))
	}),
	refused("repeat_error", "401 with an error message that has every header of the request", func(x *Exchange) {
		x.failWith(http.StatusUnauthorized, "invalid credential: "+x.sent())
	}),
	refused("repeat_page", "500 with a page that has every header of the request", func(x *Exchange) {
		x.plain(http.StatusInternalServerError, "<html><pre>"+x.sent()+"</pre></html>")
	}),
	refused("repeat_pieces", "400 with every header of the request, one character a line", func(x *Exchange) {
		x.plain(http.StatusBadRequest, strings.Join(strings.Split(x.sent(), ""), "\n"))
	}),
	refused("repeat_headers", "429 with the request's header values as Retry-After, as rate limits and as headers of its own", func(x *Exchange) {
		x.echoHeaders()
		for _, name := range []string{"Retry-After", "X-Ratelimit-Reset-Requests", "Anthropic-Ratelimit-Requests-Reset", "X-Request-Id", "Request-Id"} {
			x.Writer.Header().Set(name, x.credential())
		}
		x.Writer.WriteHeader(http.StatusTooManyRequests)
	}),
	served("repeat_beside", "the fake's own answer under the request's headers", func(x *Exchange) {
		x.echoHeaders()
		x.Writer.Header().Set("X-Request-Id", x.credential())
		x.own.ServeHTTP(x.Writer, x.Request)
	}),
	refused("repeat_redirect", "a redirect to a URL with the credential", func(x *Exchange) {
		redirect(http.StatusFound, "http://127.0.0.1:1/?key="+strings.ReplaceAll(x.credential(), " ", "+"))(x)
	}),
	refused("repeat_reason", "500 with the credential in the status line", func(x *Exchange) {
		x.Raw(func(c *Conn) { c.Send("HTTP/1.1 500 " + x.credential() + "\r\nContent-Length: 0\r\n\r\n") })
	}),
	refused("repeat_secrets", "403 with the secrets that the fake shares with its client", func(x *Exchange) {
		x.failWith(http.StatusForbidden, "your secrets are "+strings.Join(x.Secrets, " and "))
	}),
}

// sent returns the request's headers as text.
func (x *Exchange) sent() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s http://%s%s\n", x.Request.Method, x.Request.Host, x.Request.URL.RequestURI())
	_ = x.Request.Header.Write(&text) // a builder takes everything
	return text.String()
}

// credential returns the most secret header of the request.
func (x *Exchange) credential() string {
	for _, name := range slices.Concat(secretHeaders, []string{"X-Webhook-Signature"}) {
		if v := x.Request.Header.Get(name); v != "" {
			return v
		}
	}
	return x.Request.URL.Path // the URL itself is the secret
}

func (x *Exchange) echoHeaders() {
	for name, values := range x.Request.Header {
		x.Writer.Header()["X-Echo-"+name] = values
	}
}

func (x *Exchange) plain(status int, text string) {
	x.Writer.Header().Set("Content-Type", "text/plain")
	x.Writer.WriteHeader(status)
	_, _ = x.Writer.Write([]byte(text)) // the only error is a client that left
}

// failWith answers with an error in a form that most vendors' clients read.
func (x *Exchange) failWith(status int, message string) {
	text, err := json.Marshal(map[string]any{
		"type": "error", "message": message,
		"error": map[string]any{"message": message, "type": "invalid_request_error", "code": message, "status": message},
	})
	if err != nil {
		panic(err) // strings and maps of them are always fit
	}
	x.Writer.Header().Set("Content-Type", "application/json")
	x.Writer.WriteHeader(status)
	_, _ = x.Writer.Write(text) // the only error is a client that left
}
