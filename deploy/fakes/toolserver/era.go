package toolserver

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"switchyard.dev/deploy/fakes/fault"
)

// Versions of the protocol.
const modernVersion = "2026-07-28"

var legacyVersions = []string{"2025-11-25", "2025-06-18", "2025-03-26"}

var serverInfo = map[string]string{"name": "fake tools", "version": "1.0.0"}

// modern answers a request of the stateless revision.
func (s *Server) modern(w http.ResponseWriter, r *http.Request, m *request) {
	if text := mismatch(r, m); text != "" {
		reject(w, http.StatusBadRequest, m, codeHeaderMismatch, text)
		return
	}
	if version := r.Header.Get("Mcp-Protocol-Version"); version != modernVersion {
		fault.WriteJSON(w, http.StatusBadRequest, map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{
			"code": codeVersion, "message": "Unsupported protocol version",
			"data": map[string]any{"supported": []string{modernVersion}, "requested": version},
		}})
		return
	}
	if _, ok := m.meta["io.modelcontextprotocol/clientCapabilities"]; !ok {
		reject(w, http.StatusBadRequest, m, codeInvalidParams, "_meta: io.modelcontextprotocol/clientCapabilities is required")
		return
	}
	switch m.Method {
	case "server/discover":
		answer(w, m, map[string]any{
			"resultType": "complete", "supportedVersions": append([]string{modernVersion}, legacyVersions...), "ttlMs": 60_000, "cacheScope": "public",
			"capabilities": modernCapabilities(), "_meta": map[string]any{"io.modelcontextprotocol/serverInfo": serverInfo},
		})
	case "tools/list":
		s.list(w, r, m, map[string]any{"resultType": "complete", "ttlMs": 1000, "cacheScope": "public"})
	case "tools/call":
		s.call(w, r, m, modernVersion)
	default:
		if s.offer(w, r, m, modernVersion) || s.serveTask(w, r, m) {
			return
		}
		if m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		reject(w, http.StatusNotFound, m, codeNoMethod, "Method not found")
	}
}

// mismatch returns which header doesn't say what the body says; empty if all do.
func mismatch(r *http.Request, m *request) string {
	var version string
	_ = json.Unmarshal(m.meta["io.modelcontextprotocol/protocolVersion"], &version)
	want := map[string]string{"Mcp-Protocol-Version": version, "Mcp-Method": m.Method}
	switch m.Method {
	case "resources/read":
		want["Mcp-Name"] = m.Params.URI
	case "prompts/get":
		want["Mcp-Name"] = m.Params.Name
	case "tasks/get", "tasks/update", "tasks/cancel":
		want["Mcp-Name"] = m.Params.TaskID
	case "tools/call":
		want["Mcp-Name"] = m.Params.Name
		var arguments map[string]any
		_ = json.Unmarshal(m.Params.Arguments, &arguments)
		if region, ok := arguments["region"].(string); ok && m.Params.Name == "query" {
			want["Mcp-Param-Region"] = region
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got, ok := decode(r.Header.Get(name)); !ok || got != want[name] {
			return "Header mismatch: " + name
		}
	}
	return ""
}

// decode returns a header's value, which may be in base64 between marks.
func decode(value string) (string, bool) {
	inner, prefixed := strings.CutPrefix(value, "=?base64?")
	inner, suffixed := strings.CutSuffix(inner, "?=")
	if !prefixed || !suffixed {
		return value, true
	}
	text, err := base64.StdEncoding.DecodeString(inner)
	return string(text), err == nil
}

// legacy answers a request of a revision with sessions.
func (s *Server) legacy(w http.ResponseWriter, r *http.Request, m *request) {
	if m.Method == "initialize" {
		s.initialize(w, m)
		return
	}
	id := r.Header.Get("Mcp-Session-Id")
	s.mu.Lock()
	of, known := s.sessions[id]
	s.mu.Unlock()
	switch {
	case id == "":
		http.Error(w, "Bad Request: Mcp-Session-Id header is required", http.StatusBadRequest)
		return
	case !known:
		http.Error(w, "Not Found: session not found", http.StatusNotFound)
		return
	}
	switch m.Method {
	case "ping":
		answer(w, m, map[string]any{})
	case "tools/list":
		s.list(w, r, m, map[string]any{})
	case "tools/call":
		s.call(w, r, m, of.version)
	default:
		if s.offer(w, r, m, of.version) {
			return
		}
		if m.Method == "" && m.ID != nil && !s.answered(id, m) {
			http.Error(w, "Bad Request: the answer has no question", http.StatusBadRequest)
			return
		}
		if m.ID == nil || m.Method == "" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		reject(w, http.StatusOK, m, codeNoMethod, "Method not found")
	}
}

// initialize opens a session, in the version that the client asks for if the fake speaks it.
func (s *Server) initialize(w http.ResponseWriter, m *request) {
	version := m.Params.ProtocolVersion
	if !slices.Contains(legacyVersions, version) {
		version = legacyVersions[0]
	}
	s.mu.Lock()
	if len(s.sessions) >= maxSessions {
		clear(s.sessions)
	}
	s.opened++
	id := "session-" + strconv.Itoa(s.opened)
	s.sessions[id] = session{version, declares(m.Params.Capabilities)}
	s.mu.Unlock()
	w.Header().Set("Mcp-Session-Id", id)
	answer(w, m, map[string]any{
		"protocolVersion": version, "serverInfo": serverInfo, "capabilities": capabilities(),
	})
}

func (s *Server) endSession(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.sessions[id]
	delete(s.sessions, id)
	return known
}
