package mcp

import (
	"context"
	"encoding/json"
	"net/http"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// metaAmbiguous is the member of _meta that names the URIs that several servers have.
const metaAmbiguous = "dev.switchyard/ambiguous"

// offerMember returns the member of a page that has the items of a list.
func offerMember(of upstream.Offer) string {
	switch of {
	case upstream.Resources:
		return "resources"
	case upstream.Templates:
		return "resourceTemplates"
	case upstream.Prompts:
	}
	return "prompts"
}

// offers answers a list of resources, templates or prompts with one page.
func (x *exchange) offers(ctx context.Context, of upstream.Offer) {
	after, ok := readCursor(x.cursor, upstream.MaxURI)
	if !ok {
		x.fail(&wire.Error{Code: wire.CodeInvalidParams, Message: "params.cursor: must be the nextCursor of a page"}, http.StatusBadRequest)
		return
	}
	all, err := x.handler.Tools.Offers(ctx, x.asker, x.server, of)
	if err != nil {
		x.refuse(err)
		return
	}
	page, more := pageAfter(all.Items, after, func(o *toolcall.Offered) (string, []byte) { return o.Name, o.Text })
	items := make([]json.RawMessage, len(page))
	for i := range page {
		if items[i] = page[i].Text; of == upstream.Prompts {
			items[i] = renamed(page[i].Text, page[i].Name)
		}
	}
	result := map[string]any{offerMember(of): items}
	if x.modern {
		result["resultType"], result["ttlMs"], result["cacheScope"] = wire.ResultComplete, 0, "private"
	}
	meta := make(map[string][]string)
	if len(all.Unavailable) > 0 {
		meta[metaUnavailable] = all.Unavailable
	}
	if len(all.Ambiguous) > 0 {
		meta[metaAmbiguous] = all.Ambiguous
	}
	if len(meta) > 0 {
		result["_meta"] = meta
	}
	if more {
		result["nextCursor"] = cursorAfter(page[len(page)-1].Name)
	}
	x.result(result)
}

// query answers resources/read, prompts/get and completion/complete.
func (x *exchange) query(ctx context.Context) {
	q := &toolcall.Query{Asker: *x.asker, Method: x.message.Method, Server: x.server, Meta: x.meta}
	if wrong := x.about(q); wrong != "" {
		x.fail(&wire.Error{Code: wire.CodeInvalidParams, Message: wrong}, http.StatusBadRequest)
		return
	}
	var ok bool
	if q.Client, ok = x.client(); !ok {
		return
	}
	if x.token != nil {
		q.Progress = x.progress
	}
	q.Log = x.log()
	answer, err := x.handler.Tools.Query(ctx, q)
	if err != nil {
		x.refuse(err)
		return
	}
	if x.modern {
		answer.Text = completed(answer.Text)
		if q.Method == wire.MethodReadResource && answer.Kind == upstream.KindComplete {
			answer.Text = uncached(answer.Text)
		}
	}
	x.answer(answer.Text)
}

// about reads what a query is about. wrong says what is missing; empty for nothing.
func (x *exchange) about(q *toolcall.Query) (wrong string) {
	switch q.Method {
	case wire.MethodReadResource:
		if q.Name = x.uri; q.Name == "" {
			return "params.uri: is required"
		}
	case wire.MethodGetPrompt:
		if q.Name, q.Arguments = x.name, x.arguments; q.Name == "" {
			return "params.name: is required"
		}
	default:
		return x.completion(q)
	}
	return ""
}

// completion reads what is to be completed.
func (x *exchange) completion(q *toolcall.Query) (wrong string) {
	var kind, name, uri string
	isRef := x.ref != nil && wire.Members(x.ref, func(member string, value []byte) bool {
		switch member {
		case "type":
			kind, _ = wire.Text(value)
		case "name":
			name, _ = wire.Text(value)
		case "uri":
			uri, _ = wire.Text(value)
		}
		return true
	})
	switch {
	case isRef && kind == "ref/prompt" && name != "" && len(name) <= maxName:
		q.Name = name
	case isRef && kind == "ref/resource" && upstream.IsURI(uri):
		q.Name, q.Template = uri, true
	default:
		return "params.ref: must be of the type ref/prompt with a name, or ref/resource with a uri"
	}
	named, valued := false, false
	if x.argument == nil || !wire.Members(x.argument, func(member string, value []byte) bool {
		named = named || member == "name" && value[0] == '"'
		valued = valued || member == "value" && value[0] == '"'
		return true
	}) || !named || !valued {
		return "params.argument: must be an object with a name and a value"
	}
	if x.context != nil && x.context[0] != '{' {
		return "params.context: must be an object"
	}
	q.Arguments, q.Context = x.argument, x.context
	return ""
}

// uncached returns a result of the revision without sessions that must not be kept, whatever its server says:
// it depends on the caller and the policy of the moment. Its contents stay as they are.
func uncached(result json.RawMessage) json.RawMessage {
	out := make([]byte, 0, len(result)+40)
	out = append(out, `{"ttlMs":0,"cacheScope":"private"`...)
	wire.Members(result, func(member string, value []byte) bool {
		if member != "ttlMs" && member != "cacheScope" {
			out = append(append(jsontext.AppendText(append(out, ','), member), ':'), value...)
		}
		return true
	})
	return append(out, '}')
}
