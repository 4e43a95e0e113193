package mcp

import (
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// capabilities are what the gateway says that it can do. Members that are absent it can't.
type capabilities struct {
	Tools       *announced  `json:"tools,omitempty"`
	Resources   *subscribed `json:"resources,omitempty"`
	Prompts     *announced  `json:"prompts,omitempty"`
	Completions *struct{}   `json:"completions,omitempty"`
	Logging     *struct{}   `json:"logging,omitempty"`

	Extensions map[string]struct{} `json:"extensions,omitempty"`
}

// announced is a capability whose lists may change.
type announced struct {
	ListChanged bool `json:"listChanged,omitempty"`
}

// subscribed is announced for resources, of which single ones may be followed.
type subscribed struct {
	announced

	Subscribe bool `json:"subscribe,omitempty"`
}

// capabilities returns what the servers of the organization offer. All servers together always have tools, though none
// may be registered. Changes are announced on streams, which an older revision has within a session alone.
func (x *exchange) capabilities() capabilities {
	of := x.handler.Tools.Features(x.asker.Organization, x.server)
	changes := announced{x.modern || x.handler.Sessions != nil}
	var c capabilities
	if of[toolserver.FeatureTools] || x.server == "" {
		c.Tools = &changes
	}
	if of[toolserver.FeatureResources] {
		c.Resources = &subscribed{changes, x.modern || x.handler.subscribes()}
	}
	if of[toolserver.FeaturePrompts] {
		c.Prompts = &changes
	}
	if of[toolserver.FeatureCompletions] {
		c.Completions = &struct{}{}
	}
	if x.modern && of[toolserver.FeatureTasks] {
		c.Extensions = map[string]struct{}{wire.ExtensionTasks: {}}
	}
	if changes.ListChanged { // In an older revision a session keeps whether log messages are wanted.
		c.Logging = &struct{}{}
	}
	return c
}
