package api

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/money/spend"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/caller"
)

var updateSpend = flag.Bool("update-spend", false, "write the golden files of exports anew")

// exported is a store that has n rows, made by row, and notes what reads of it see.
type exported struct {
	spend.Store

	n    int
	row  func(i int, q spend.Query) spend.Row
	read func()
	done int
}

func (e *exported) Report(_ context.Context, q spend.Query) (spend.Report, error) {
	if e.read != nil {
		e.read()
	}
	var page spend.Report
	for ; e.done < e.n && len(page.Rows) < q.Limit; e.done++ {
		page.Rows = append(page.Rows, e.row(e.done, q))
	}
	return page, nil
}

func export(t *testing.T, store spend.Store, w http.ResponseWriter, m *gatewayv1.GetSpendRequest) {
	t.Helper()
	r := httptest.NewRequestWithContext(caller.With(t.Context(), caller.Caller{Role: caller.RoleService, Organization: "acme"}), http.MethodGet, "/v1/spend", nil)
	m.Interval, m.From = "month", timestamppb.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	m.To = timestamppb.New(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	if err := (&usageServer{spend: store}).exportSpend(w, r, m, m.GetFormat()); err != nil {
		t.Fatal(err)
	}
}

// bucketsOf returns a usage in which every bucket has another count.
func bucketsOf(i int) (u provider.Usage) {
	for _, b := range provider.Buckets() {
		*b.Of(&u) = int64(1000*i + int(b))
	}
	return u
}

// The exports have these columns in this order, and the forms of numbers, moments, tags and nulls that their
// specifications name.
func TestExportedSpend(t *testing.T) {
	pico, _ := new(big.Int).SetString("123456789012345678901234567890", 10)
	january, february := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	rows := []spend.Row{
		{Start: january, Values: []string{"openai", "gpt-5.2", "key_1", "ann"}, Tags: `{"team": "web, \"b\""}`, Sums: spend.Sums{Calls: 3, Usage: bucketsOf(1), Pico: pico}},
		{Start: january, Values: []string{"openai", "gpt-5.2", "", ""}, Tags: "{}", Sums: spend.Sums{Calls: 1, Pico: big.NewInt(1)}},
		{Start: february, Values: []string{spend.Other, spend.Other, spend.Other, spend.Other}, Tags: spend.Other, Sums: spend.Sums{Calls: 7, Usage: bucketsOf(2), Pico: big.NewInt(0)}},
	}
	for format, golden := range map[string]string{formatCSV: "spend.csv", formatFOCUS: "spend-focus.csv"} {
		t.Run(format, func(t *testing.T) {
			store := &exported{n: len(rows), row: func(i int, _ spend.Query) spend.Row { return rows[i] }}
			m := &gatewayv1.GetSpendRequest{Format: format}
			if format == formatCSV {
				m.GroupBy = "provider,model,key,user"
			}
			w := httptest.NewRecorder()
			export(t, store, w, m)
			path := filepath.Join("testdata", golden)
			if *updateSpend {
				if err := os.WriteFile(path, w.Body.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\r\n"), strings.Split(w.Body.String(), "\r\n")); diff != "" {
				t.Errorf("%s (-want +got; -update-spend writes it):\n%s", path, diff)
			}
		})
	}
}

// countingWriter is an answer whose body is counted and not kept.
type countingWriter struct {
	http.ResponseWriter

	n int64
}

func (w *countingWriter) Write(p []byte) (int, error) {
	w.n += int64(len(p))
	return io.Discard.Write(p)
}

// An export takes the memory of a page, however long it is.
func TestExportIsStreamed(t *testing.T) {
	const rows, most = 150_000, 24 << 20
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var grown uint64
	store := &exported{n: rows}
	store.row = func(i int, q spend.Query) spend.Row {
		values := []string{"openai", "gpt-5.2", fmt.Sprint("key_", i), fmt.Sprint("user-", i)}
		return spend.Row{Start: q.Since, Values: values, Tags: `{"team": "web"}`, Sums: spend.Sums{Calls: 1, Pico: big.NewInt(int64(i))}}
	}
	store.read = func() {
		if store.done%25_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			grown = max(grown, now.HeapAlloc-min(before.HeapAlloc, now.HeapAlloc))
		}
	}
	w := &countingWriter{ResponseWriter: httptest.NewRecorder()}
	export(t, store, w, &gatewayv1.GetSpendRequest{Format: formatFOCUS})
	if grown > most || w.n < 2*most || store.done != rows {
		t.Errorf("%d rows of %d took %d bytes for %d written", store.done, rows, grown, w.n)
	}
}
