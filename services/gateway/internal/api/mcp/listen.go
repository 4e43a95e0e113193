package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/notice"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// Notices says when lists have changed; see notice.Hub.
type Notices interface {
	Listen(ctx context.Context, l *notice.Listener) error
}

// listed are the lists of which callers are notified, by toolcall.Listed.
var listed = [toolcall.Lists]struct {
	// wanted is the member by which a caller asks for the notice.
	feature        toolserver.Feature
	wanted, method string
}{
	toolcall.ListedTools:     {toolserver.FeatureTools, "toolsListChanged", wire.MethodToolsChange},
	toolcall.ListedResources: {toolserver.FeatureResources, "resourcesListChanged", wire.MethodResourcesChange},
	toolcall.ListedPrompts:   {toolserver.FeaturePrompts, "promptsListChanged", wire.MethodPromptsChange},
}

// offered returns the lists that a face has.
func (h *Handler) offered(a *toolcall.Asker, server string) (of []toolcall.Listed) {
	features := h.Tools.Features(a.Organization, server)
	for kind := range toolcall.Listed(toolcall.Lists) {
		if features[listed[kind].feature] || kind == toolcall.ListedTools && server == "" {
			of = append(of, kind)
		}
	}
	return of
}

// listen answers subscriptions/listen with a stream, which ends with the answer.
func (x *exchange) listen(ctx context.Context) {
	wanted, wrong := x.wanted()
	switch {
	case wrong != "":
		x.fail(&wire.Error{Code: wire.CodeInvalidParams, Message: wrong}, http.StatusBadRequest)
		return
	case wanted.tasks != nil && !x.declaresTasks():
		x.fail(undeclaredTasks(), http.StatusBadRequest)
		return
	}
	of := slices.DeleteFunc(x.handler.offered(x.asker, x.server), func(kind toolcall.Listed) bool { return !wanted.lists[kind] })
	meta := map[string]json.RawMessage{wire.MetaSubscription: x.message.ID}
	ctx, cancel := context.WithCancel(ctx)
	follows := follows{tools: x.handler.Tools, asker: x.asker, server: x.server, updated: func(uri string) {
		x.notify(wire.MethodUpdated, map[string]any{"_meta": meta, "uri": uri})
	}}
	begin := func() {
		accepted := make(map[string]any)
		for _, kind := range of {
			accepted[listed[kind].wanted] = true
		}
		if uris := follows.begin(ctx, wanted.uris); len(uris) > 0 {
			accepted[wantedResources] = uris
		}
		if ids := follows.beginTasks(ctx, x, wanted.tasks, meta); len(ids) > 0 {
			accepted[wantedTasks] = ids
		}
		x.notify(wire.MethodListening, map[string]any{"_meta": meta, "notifications": accepted})
		follows.open()
	}
	var err error
	if len(of) == 0 && len(wanted.uris) == 0 && len(wanted.tasks) == 0 {
		begin()
	} else {
		err = x.handler.Notices.Listen(ctx, &notice.Listener{
			Asker: x.asker, Server: x.server, Of: of, Begin: begin,
			Changed: func(kind toolcall.Listed, _ notice.State) {
				x.notify(listed[kind].method, map[string]any{"_meta": meta})
			},
		})
	}
	cancel()
	follows.wait()
	if err != nil {
		x.refuse(err)
		return
	}
	x.result(map[string]any{"resultType": wire.ResultComplete, "_meta": meta})
}

// notify sends a notification before the answer.
func (x *exchange) notify(method string, params any) {
	text, err := jsontext.Marshal(params)
	if err == nil {
		x.reply.notify(&wire.Message{Method: method, Params: text})
	}
}

// A subscriptionFilter holds the notices that a caller asks for.
type subscriptionFilter struct {
	lists [toolcall.Lists]bool
	// uris are those of resources, tasks the ids of tasks; nil for none at all.
	uris, tasks []string
}

// wantedResources and wantedTasks are the members by which a caller asks for notices of resources and of tasks, and
// maxFollowed how many it may name of each.
const (
	wantedResources = "resourceSubscriptions"
	wantedTasks     = "taskIds"
	maxFollowed     = 50
)

// wanted reads which notices a caller asks for. Others than these are not sent, and not acknowledged.
func (x *exchange) wanted() (of subscriptionFilter, wrong string) {
	var notifications json.RawMessage
	wire.Members(x.params(), func(name string, value []byte) bool {
		if name == "notifications" {
			notifications = value
		}
		return true
	})
	if notifications == nil || notifications[0] != '{' {
		return of, "params.notifications: must be an object"
	}
	wire.Members(notifications, func(name string, value []byte) bool {
		if name == wantedResources && !of.readURIs(value) {
			wrong = "params.notifications." + name + ": must be a list of at most 50 URIs"
		}
		if name == wantedTasks && !of.readTasks(value) {
			wrong = "params.notifications." + name + ": must be a list of at most 50 ids"
		}
		for kind := range listed {
			if name == listed[kind].wanted {
				if of.lists[kind] = string(value) == "true"; !of.lists[kind] && string(value) != "false" {
					wrong = "params.notifications." + name + ": must be true or false"
				}
			}
		}
		return true
	})
	return of, wrong
}

// readURIs reads a list of URIs, each once. It reports whether it is one.
func (f *subscriptionFilter) readURIs(value []byte) bool {
	valid := true
	return wire.Elements(value, func(value []byte) bool {
		uri, _ := wire.Text(value)
		if valid = upstream.IsURI(uri) && len(f.uris) < maxFollowed; valid && !slices.Contains(f.uris, uri) {
			f.uris = append(f.uris, uri)
		}
		return valid
	}) && valid
}
