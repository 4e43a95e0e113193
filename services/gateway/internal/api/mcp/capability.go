package mcp

import "switchyard.dev/services/gateway/internal/mcp/toolserver"

// capabilities are what the gateway says that it can do. Members that are absent it can't.
type capabilities struct {
	Tools       *announced `json:"tools,omitempty"`
	Resources   *announced `json:"resources,omitempty"`
	Prompts     *announced `json:"prompts,omitempty"`
	Completions *struct{}  `json:"completions,omitempty"`
}

// announced is a capability whose lists may change.
type announced struct {
	ListChanged bool `json:"listChanged,omitempty"`
}

// capabilities returns what the servers of the organization offer. All servers together always have tools, though none
// may be registered.
func (x *exchange) capabilities() capabilities {
	of := x.handler.Tools.Features(x.asker.Organization, x.server)
	var c capabilities
	if of[toolserver.FeatureTools] || x.server == "" {
		c.Tools = &announced{}
	}
	if of[toolserver.FeatureResources] {
		c.Resources = &announced{}
	}
	if of[toolserver.FeaturePrompts] {
		c.Prompts = &announced{}
	}
	if of[toolserver.FeatureCompletions] {
		c.Completions = &struct{}{}
	}
	return c
}
