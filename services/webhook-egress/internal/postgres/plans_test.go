package postgres_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
)

// whole holds the statements that may read a whole index, with the index and the reason.
var whole = map[string]string{
	"CancelReplay replays_due":               "the jobs that have not ended are few",
	"FailReplay replays_due":                 "the jobs that have not ended are few",
	"PostponeReplay replays_due":             "the jobs that have not ended are few",
	"FreeOrphans replica_pkey":               "the replicas are few",
	"ListOrphanFlows replica_pkey":           "the replicas are few",
	"RemoveSilentReplicas replica":           "the replicas are few",
	"ListDeletedFlows flow_deleted":          "a page of them, in their order",
	"NextReady flow_ready":                   "the first one, in their order",
	"ListHouseEvents house_event_pkey":       "a page of them, in their order",
	"PurgeHouseEvents house_event_recorded":  "a page of them, once a minute",
	"TakeOperational operational_event_pkey": "a page of them, in their order",
	"TakeTargetEvents target_event_pkey":     "a page of them, in their order",
	"ListIdleFlows flow_direct":              "a page of them, once an hour",
	"ListIdlePathFlows flow_of_path":         "a page of them, once an hour",
}

// Whatever the statistics say when a statement is prepared, its plan looks up each row by its key. A plan that reads or
// sorts a table is as good while the table is empty; then the table grows and the plan stays.
func TestPlansLookUpByKey(t *testing.T) {
	queries := statements(t)
	for state, prepare := range map[string][]string{
		"never analyzed":  nil,
		"analyzed, empty": {"VACUUM ANALYZE"},
		"analyzed, one row": {
			"INSERT INTO flow (organization_id, scheme, host, port, ready_at) VALUES ('acme', 'https', 'h', 443, now())",
			"INSERT INTO delivery_queue (delivery_id, created_at, flow_id, due_at) VALUES (gen_random_uuid(), now(), 1, now())",
			"VACUUM ANALYZE",
		},
		"analyzed, emptied": {
			"INSERT INTO delivery_queue (delivery_id, created_at, flow_id, due_at) SELECT gen_random_uuid(), now(), 1, now() FROM generate_series(1, 5000)",
			"DELETE FROM delivery_queue",
			"VACUUM ANALYZE",
		},
	} {
		t.Run(state, func(t *testing.T) {
			_, pool := openOne(t)
			for _, command := range prepare {
				testkit.Exec(t, pool, command)
			}
			for _, name := range slices.Sorted(maps.Keys(queries)) {
				for _, fault := range planOf(t, pool, name, queries[name]).faults(name) {
					t.Errorf("%s: %s", name, fault)
				}
			}
		})
	}
}

// The test above finds the plans that it is about: the joins and the sort that were used before.
func TestPlansThatReadATableAreFound(t *testing.T) {
	const wanted = "(SELECT unnest($1::uuid[]) AS id) AS wanted"
	for name, tt := range map[string]struct{ query, settings, fault string }{
		"join": {
			query: "DELETE FROM delivery_queue q USING " + wanted + " WHERE q.delivery_id = wanted.id",
			fault: "reads all of delivery_queue_pkey",
		},
		"sort": {
			query:    "SELECT delivery_id FROM delivery_queue WHERE flow_id = $1::bigint ORDER BY due_at LIMIT 1",
			settings: "SET enable_bitmapscan = on; SET enable_indexscan = off", fault: "reads delivery_queue before it sorts",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, pool := openOne(t)
			testkit.Exec(t, pool, "VACUUM ANALYZE delivery_queue")
			for setting := range strings.SplitSeq(tt.settings, ";") {
				testkit.Exec(t, pool, setting)
			}
			if faults := planOf(t, pool, "bad", tt.query).faults("bad"); !slices.Contains(faults, tt.fault) {
				t.Errorf("faults %q, want %q", faults, tt.fault)
			}
		})
	}
}

// A claim and a settle read the rows that they take, however many wait, although their plans were made while the queue
// had one row.
func TestWaitingRowsAreNotRead(t *testing.T) {
	s, pool := openOne(t)
	const taken, waiting = 10, 3000
	retry := func(job delivery.Job) dispatch.Result { return retried(job, time.Minute) }
	round := func() {
		for _, result := range []func(delivery.Job) dispatch.Result{delivered, retry} {
			var results []dispatch.Result
			for _, job := range claim(t, s, 1, taken).Jobs {
				results = append(results, result(job))
			}
			settle(t, s, results...)
		}
	}
	enqueue(t, s, leaseOf(1, false), draft("acme"))
	testkit.Exec(t, pool, "VACUUM ANALYZE")
	round()
	fill(t, s, pool, "acme", waiting)
	before := workOf(t, pool, "^delivery_queue$")
	round()
	after := workOf(t, pool, "^delivery_queue$")
	if read := after.Read + after.Sequential - before.Read - before.Sequential; read > 20*taken {
		t.Errorf("%d rows of the queue were read to take and settle %d", read, 2*taken)
	}
}

// plan is a node of a plan as EXPLAIN prints it.
type plan struct {
	Type      string `json:"Node Type"`
	Table     string `json:"Relation Name"`
	Index     string `json:"Index Name"`
	Condition string `json:"Index Cond"`
	Children  []plan `json:"Plans"`
}

// faults returns what a plan reads besides the rows of its keys.
func (p *plan) faults(query string) []string {
	var found []string
	switch p.Type {
	case "Seq Scan":
		if whole[query+" "+p.Table] == "" {
			found = append(found, "reads all of "+p.Table)
		}
	case "Index Scan", "Index Only Scan":
		if p.Condition == "" && whole[query+" "+p.Index] == "" {
			found = append(found, "reads all of "+p.Index)
		}
	case "Bitmap Heap Scan":
		found = append(found, "reads "+p.Table+" before it sorts")
	}
	for i := range p.Children {
		found = append(found, p.Children[i].faults(query)...)
	}
	return found
}

// planOf returns the plan that a statement gets for any parameters.
func planOf(t *testing.T, pool *pgxpool.Pool, name, query string) *plan {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	prepared, err := conn.Conn().Prepare(t.Context(), "plan of "+name, query)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	execute := "EXPLAIN (FORMAT JSON) EXECUTE " + pgx.Identifier{prepared.Name}.Sanitize()
	if n := len(prepared.ParamOIDs); n > 0 {
		execute += "(" + strings.Repeat("NULL, ", n-1) + "NULL)"
	}
	var text string
	if err := conn.QueryRow(t.Context(), execute, pgx.QueryExecModeSimpleProtocol).Scan(&text); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var explained []struct{ Plan plan }
	if err := json.Unmarshal([]byte(text), &explained); err != nil {
		t.Fatal(err)
	}
	return &explained[0].Plan
}

// statements returns the SQL of every query that sqlc generated, by name.
func statements(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("dbsql/*.sql.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("generated queries: %d files, err %v", len(files), err)
	}
	found := make(map[string]string)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
				if text := textOf(t, spec.Values[0]); strings.HasPrefix(text, "-- name: ") {
					found[strings.Fields(text)[2]] = text
				}
			}
			return true
		})
	}
	if len(found) < 50 {
		t.Fatalf("%d queries found: the test proves nothing", len(found))
	}
	return found
}

// textOf returns the value of a constant text, which sqlc writes in parts if it holds a backquote.
func textOf(t *testing.T, of ast.Expr) string {
	t.Helper()
	switch e := of.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return ""
		}
		text, err := strconv.Unquote(e.Value)
		if err != nil {
			t.Fatal(err)
		}
		return text
	case *ast.BinaryExpr:
		return textOf(t, e.X) + textOf(t, e.Y)
	}
	return ""
}
