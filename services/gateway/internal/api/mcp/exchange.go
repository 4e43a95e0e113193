package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// exchange is one request with its answer.
type exchange struct {
	*incoming

	handler *Handler
	asker   *toolcall.Asker
	server  string
	reply   *reply
	started time.Time
	// progressed is until when reports of progress are used up; see paced.
	progressed time.Time
	// failure is how the request failed, for the span and metrics; empty if it did not.
	failure string
	// known reports that the named tool exists, so that its name may be a label.
	known bool
}

// serve answers the request.
func (x *exchange) serve(ctx context.Context) {
	ctx, span := x.start(ctx)
	defer func() { x.finish(ctx, span) }()
	switch method := x.message.Method; {
	case method == wire.MethodListTools:
		x.list(ctx)
	case method == wire.MethodCallTool:
		x.call(ctx)
	case method == wire.MethodListResources, method == wire.MethodListTemplates, method == wire.MethodListPrompts:
		x.offers(ctx, upstream.Offer(method))
	case method == wire.MethodReadResource, method == wire.MethodGetPrompt, method == wire.MethodComplete:
		x.query(ctx)
	case x.takesTasks() && (method == wire.MethodGetTask || method == wire.MethodUpdateTask || method == wire.MethodCancelTask):
		x.task(ctx)
	case x.modern && method == wire.MethodListen:
		x.listen(ctx)
	case x.modern && method == wire.MethodDiscover:
		x.result(discovery{
			lasting: passing(), Versions: versions(),
			Capabilities: x.capabilities(), Meta: map[string]any{wire.MetaServerInfo: gateway()},
		})
	case !x.modern && method == wire.MethodInitialize:
		x.initialize()
	case x.session != nil && method == wire.MethodSetLevel:
		x.setLevel(ctx)
	case x.session != nil && x.handler.subscribes() && (method == wire.MethodSubscribe || method == wire.MethodUnsubscribe):
		x.subscribe(ctx)
	case !x.modern && method == wire.MethodPing:
		x.result(struct{}{})
	default:
		x.fail(&wire.Error{Code: wire.CodeMethodNotFound, Message: "method: is not served"}, http.StatusNotFound)
	}
}

// lasting says how long a result of the revision without sessions may be kept: not at all, and only by its caller,
// since everything depends on the caller and the policy of the moment. The older revisions don't have it.
type lasting struct {
	Type  string `json:"resultType,omitempty"`
	TTL   *int   `json:"ttlMs,omitempty"`
	Scope string `json:"cacheScope,omitempty"`
}

func passing() lasting { return lasting{Type: wire.ResultComplete, TTL: new(int), Scope: "private"} }

type discovery struct {
	lasting

	Versions     []string       `json:"supportedVersions"`
	Capabilities capabilities   `json:"capabilities"`
	Meta         map[string]any `json:"_meta"`
}

// initialize answers the handshake. A client that wants a version that isn't served gets the newest of the older ones.
func (x *exchange) initialize() {
	version := wire.Legacy20251125
	var client json.RawMessage
	wire.Members(x.params(), func(name string, value []byte) bool {
		if wanted, _ := wire.Text(value); name == "protocolVersion" && wire.IsLegacy(wanted) {
			version = wanted
		}
		if name == "capabilities" && value[0] == '{' {
			client = value
		}
		return true
	})
	x.begin(version, client)
	x.result(struct {
		Version      string       `json:"protocolVersion"`
		Capabilities capabilities `json:"capabilities"`
		Server       serverInfo   `json:"serverInfo"`
	}{version, x.capabilities(), gateway()})
}

func (x *exchange) params() json.RawMessage {
	if x.message.Params == nil {
		return json.RawMessage("{}")
	}
	return x.message.Params
}

// result answers with a result.
func (x *exchange) result(value any) {
	text, err := jsontext.Marshal(value)
	if err != nil {
		x.fail(&wire.Error{Code: wire.CodeInternal, Message: "internal error"}, http.StatusOK)
		return
	}
	x.answer(text)
}

// answer answers with a result that is encoded.
func (x *exchange) answer(result json.RawMessage) {
	x.reply.answer(http.StatusOK, (&wire.Message{ID: x.message.ID, Result: result}).Append(nil))
}

// fail answers with an error. In the older revisions every error of a method has status 200.
func (x *exchange) fail(e *wire.Error, status int) {
	if !x.modern {
		status = http.StatusOK
	}
	x.failure = codeText(e.Code)
	x.reply.answer(status, (&wire.Message{ID: x.message.ID, Error: e}).Append(nil))
}
