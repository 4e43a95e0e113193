package toolcall

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/mcp/task"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// A request about a task reaches its server exactly if a call of its tool would, and the task is its caller's: by its
// principal, by the registration, the address and the definition of when it was made.
func TestTasksReachWhatCallsReach(t *testing.T) {
	c, w := working(t)
	rapid.Check(t, func(t *rapid.T) {
		tools, hasRun := w.draw(t)
		asker := Asker{Organization: "acme", User: "ann", Key: "k1"}
		if hasRun {
			asker.Run = "run-1"
		}
		for _, d := range tools {
			offers := rapid.IntRange(0, 3).Draw(t, "offers tasks") > 0
			if d.server.Features = nil; offers {
				d.server.Features = []toolserver.Feature{toolserver.FeatureTools, toolserver.FeatureTasks}
			}
			h := task.Handle{
				Server: d.server.ID, Owner: d.server.Organization, Place: placeOf(d.server), ID: "theirs", Tool: d.name,
				Definition: tool(d.server, d.name).Digest.String(), Of: principalOf(&asker), Call: newID().String(),
			}
			path, changed := rapid.SampledFrom([]string{"", d.server.ID}).Draw(t, "path"), true
			switch rapid.SampledFrom([]string{"", "", "", "", "user", "key", "run", "place", "owner", "definition", "tool", "path"}).Draw(t, "changed") {
			case "user":
				h.Of.User = "bob"
			case "key":
				h.Of.Key = ""
			case "run":
				h.Of.Run += "2"
			case "place":
				h.Place = "elsewhere"
			case "owner":
				h.Owner += "x"
			case "definition":
				h.Definition = "0"
			case "tool":
				h.Tool = "none"
			case "path":
				path = "other"
			default:
				changed = false
			}
			id, err := h.Seal(c.Tickets, "acme", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			method := rapid.SampledFrom([]string{wire.MethodGetTask, wire.MethodUpdateTask, wire.MethodCancelTask}).Draw(t, "method")
			w.tasks.queries, w.steps, w.records, w.rows, w.used = nil, nil, nil, nil, nil
			_, err = c.Task(t.Context(), &TaskRequest{Asker: asker, Server: path, Method: method, ID: id, Client: taskClient()})
			if want := d.may && offers && !changed; (len(w.tasks.queries) > 0) != want || (err == nil) != want || len(w.rows) > 0 {
				t.Fatalf("%s of %s %s (changed %t): sent %d, %v, want %t", method, d.server.ID, d.name, changed, len(w.tasks.queries), err, want)
			}
		}
	})
}
