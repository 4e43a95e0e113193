package input

import (
	"encoding/json"
	"strings"

	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// abilities are what of a client's capabilities matters for what it can be asked.
type abilities struct {
	elicits, form, url             bool
	samples, tools, context, roots bool
	tasks                          bool
}

// read reads capabilities, an object that has passed wire.Check. Capabilities that are no object are none.
func read(capabilities json.RawMessage) abilities {
	var a abilities
	wire.Members(orEmpty(capabilities), func(name string, value []byte) bool {
		switch name {
		case "elicitation":
			a.elicits = wire.Members(value, func(mode string, value []byte) bool {
				a.form = a.form || mode == "form" && value[0] == '{'
				a.url = a.url || mode == "url" && value[0] == '{'
				return true
			})
			a.form = a.form || a.elicits && !a.url // No mode at all means forms.
		case "sampling":
			a.samples = wire.Members(value, func(name string, value []byte) bool {
				a.tools = a.tools || name == "tools" && value[0] == '{'
				a.context = a.context || name == "context" && value[0] == '{'
				return true
			})
		case "roots":
			a.roots = value[0] == '{'
		case "extensions":
			wire.Members(value, func(name string, _ []byte) bool {
				a.tasks = a.tasks || name == wire.ExtensionTasks
				return !a.tasks
			})
		}
		return true
	})
	return a
}

// CanOpen reports whether a client that declared these capabilities can be asked to open a page.
func CanOpen(capabilities json.RawMessage) bool { return read(capabilities).url }

// Able reports whether a client that declared these capabilities may be asked.
func (r *Request) Able(capabilities json.RawMessage) bool {
	a := read(capabilities)
	switch r.Method {
	case wire.MethodElicit:
		if r.mode() == modeURL {
			return a.url
		}
		return a.form
	case wire.MethodSample:
		return a.samples && (a.tools || !r.usesTools())
	case wire.MethodRoots:
		return a.roots
	}
	return false
}

// usesTools reports whether a model is to be asked with tools.
func (r *Request) usesTools() bool {
	found := false
	wire.Members(orEmpty(r.Params), func(name string, _ []byte) bool {
		found = found || name == "tools" || name == "toolChoice"
		return !found
	})
	return found
}

// Offer is what a server may ask. The zero value is nothing.
type Offer struct {
	// Elicitation, Sampling and Roots let through that the caller can do it, if it can. SamplingTools does so for tools of
	// samplings.
	Elicitation, Sampling, SamplingTools, Roots bool
	// Answered reports that the gateway answers samplings itself, whatever the caller can; with tools if SamplingTools.
	Answered bool
	// Tasks lets through that the caller takes results that come later.
	Tasks bool
}

// Offered returns the capabilities that a server is shown: the caller's of this request, cut to what an offer lets
// through; nil for none.
func Offered(capabilities json.RawMessage, o Offer) json.RawMessage {
	a := read(capabilities)
	var members []string
	if o.Elicitation && (a.form || a.url) {
		var modes []string
		if a.form {
			modes = append(modes, `"form":{}`)
		}
		if a.url {
			modes = append(modes, `"url":{}`)
		}
		members = append(members, `"elicitation":{`+strings.Join(modes, ",")+"}")
	}
	switch {
	case o.SamplingTools && (o.Answered || o.Sampling && a.tools):
		members = append(members, `"sampling":{"tools":{}}`)
	case o.Answered, o.Sampling && a.samples:
		members = append(members, `"sampling":{}`)
	}
	if o.Roots && a.roots {
		members = append(members, `"roots":{}`)
	}
	if o.Tasks && a.tasks {
		members = append(members, `"extensions":{"`+wire.ExtensionTasks+`":{}}`)
	}
	if members == nil {
		return nil
	}
	return json.RawMessage("{" + strings.Join(members, ",") + "}")
}
