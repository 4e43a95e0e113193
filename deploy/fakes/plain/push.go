package plain

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// PushService accepts pushes for load tests: it answers each POST to /push/<number of the device> with 201 and counts
// it. GET /tally reads the counts, DELETE /tally resets them. Nothing is decrypted.
type PushService struct {
	mu  sync.Mutex
	got map[int]int
}

// PushTally holds what a push service got since its last reset.
type PushTally struct {
	// Pushes counts all pushes, Devices the devices that got one or more.
	Pushes  int `json:"pushes"`
	Devices int `json:"devices"`
}

// ServeHTTP implements http.Handler.
func (p *PushService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		p.writeTally(w)
		return
	case http.MethodDelete:
		p.mu.Lock()
		p.got = nil
		p.mu.Unlock()
		return
	}
	device, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/push/"))
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	p.mu.Lock()
	if p.got == nil {
		p.got = map[int]int{}
	}
	p.got[device]++
	p.mu.Unlock()
	w.WriteHeader(http.StatusCreated)
}

func (p *PushService) writeTally(w http.ResponseWriter) {
	var tally PushTally
	p.mu.Lock()
	for _, n := range p.got {
		tally.Pushes += n
	}
	tally.Devices = len(p.got)
	p.mu.Unlock()
	_ = json.NewEncoder(w).Encode(tally) // a client that has left asks again
}
