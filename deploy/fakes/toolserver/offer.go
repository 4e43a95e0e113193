package toolserver

import (
	"net/http"
	"strings"
	"time"

	"switchyard.dev/deploy/fakes/fault"
)

// resources and prompts are what the fake offers beside tools; what follows "fake://echo/" can be read of a template.
var (
	resources = []any{
		map[string]any{"uri": "fake://a", "name": "a", "mimeType": "text/plain"},
		map[string]any{"uri": "fake://b", "name": "b", "hologram": true},
	}
	templates = []any{map[string]any{"uriTemplate": "fake://echo/{text}", "name": "echo"}}
	prompts   = []any{map[string]any{"name": "greet", "description": "Greets a person.", "arguments": []any{map[string]any{"name": "who", "required": true}}}}
)

// offer answers what isn't about tools. It reports false for another method.
func (s *Server) offer(w http.ResponseWriter, r *http.Request, m *request, version string) bool {
	result := map[string]any{}
	if version == modernVersion {
		result["resultType"] = "complete"
	}
	list := func(member string, items []any) {
		if version == modernVersion {
			result["ttlMs"], result["cacheScope"] = 1000, "public"
		}
		result[member] = items
	}
	switch m.Method {
	case "resources/list":
		list("resources", resources)
	case "resources/templates/list":
		list("resourceTemplates", templates)
	case "prompts/list":
		list("prompts", prompts)
	case "resources/read":
		text, known := strings.CutPrefix(m.Params.URI, "fake://")
		if text = strings.TrimPrefix(text, "echo/"); !known {
			reject(w, http.StatusOK, m, codeInvalidParams, "Resource not found")
			return true
		}
		list("contents", []any{map[string]string{"uri": m.Params.URI, "text": text}})
		s.asked(r, m, version, m.Params.URI)
	case "prompts/get":
		if m.Params.Name != "greet" {
			reject(w, http.StatusOK, m, codeInvalidParams, "Unknown prompt")
			return true
		}
		result["messages"] = []any{map[string]any{"role": "user", "content": map[string]string{"type": "text", "text": "Greet " + string(m.Params.Arguments)}}}
		s.asked(r, m, version, m.Params.Name)
	case "completion/complete":
		result["completion"] = map[string]any{"values": []string{m.Params.Argument.Value + "a", m.Params.Argument.Value + "b"}}
		s.asked(r, m, version, m.Params.Argument.Name)
	default:
		return false
	}
	answer(w, m, result)
	return true
}

// asked notes a request beside calls of tools, as one of its method.
func (s *Server) asked(r *http.Request, m *request, version, about string) {
	s.calls.Add(Call{
		Time: time.Now().UTC(), Path: r.URL.Path, Version: version, Tool: m.Method + " " + about, Arguments: m.Params.Arguments, Meta: m.Params.Meta,
		Headers: fault.RedactHeader(r.Header),
	}, len(m.Params.Arguments)+len(m.Params.Meta)+512)
}

// capabilities are what the fake can do.
func capabilities() map[string]any {
	return map[string]any{"tools": map[string]any{}, "resources": map[string]any{}, "prompts": map[string]any{}, "completions": map[string]any{}}
}

// modernCapabilities are those, and the extensions of the stateless revision.
func modernCapabilities() map[string]any {
	all := capabilities()
	all["extensions"] = map[string]any{extensionTasks: map[string]any{}}
	return all
}
