package fault

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"switchyard.dev/deploy/fakes/journal"
)

const (
	defaultPage = 100
	maxPage     = 100_000
)

// ServeJournal adds a fake's journal to its control paths: GET /_<name> with limit (default 100, the newest, oldest
// first), DELETE /_<name>, and GET /_count. selects turns further query parameters into a filter; nil means there are
// none.
func ServeJournal[T any](control *http.ServeMux, name string, j *journal.Journal[T], selects func(url.Values) func(T) bool) {
	filter := func(r *http.Request) func(T) bool {
		if selects == nil {
			return nil
		}
		return selects(r.URL.Query())
	}
	control.HandleFunc("GET /_"+name, func(w http.ResponseWriter, r *http.Request) {
		limit := defaultPage
		if raw := r.URL.Query().Get("limit"); raw != "" {
			n, err := strconv.Atoi(raw)
			if err != nil || n < 1 || n > maxPage {
				WriteJSON(w, http.StatusBadRequest, map[string]string{"error": "limit: want 1 to " + strconv.Itoa(maxPage)})
				return
			}
			limit = n
		}
		WriteJSON(w, http.StatusOK, map[string]any{name: j.Last(limit, filter(r)), "total": j.Total()})
	})
	control.HandleFunc("DELETE /_"+name, func(w http.ResponseWriter, _ *http.Request) {
		j.Clear()
		w.WriteHeader(http.StatusNoContent)
	})
	control.HandleFunc("GET /_count", func(w http.ResponseWriter, r *http.Request) {
		WriteJSON(w, http.StatusOK, map[string]int{"count": j.Count(filter(r)), "total": j.Total()})
	})
}

// WriteJSON answers a control call.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	// The only error left is a client that is gone.
	_ = enc.Encode(v)
}
