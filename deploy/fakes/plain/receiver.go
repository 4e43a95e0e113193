package plain

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Receiver accepts webhooks for load tests: it answers each POST at once with 200 and counts it. A payload may begin
// with {"at":<Unix nanoseconds>, the time of sending; the receiver records its age on arrival. GET /tally reads the
// count and the ages since the last reading.
type Receiver struct {
	// Delay before the answer to what is posted to /slow.
	Delay time.Duration

	mu   sync.Mutex
	got  int
	ages []int64
}

// Tally holds what a receiver got since the last reading.
type Tally struct {
	// Got counts deliveries since the start of the receiver.
	Got int `json:"got"`
	// Ages on arrival in microseconds.
	Ages []int64 `json:"ages"`
}

// ServeHTTP implements http.Handler.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method == http.MethodGet {
		r.writeTally(w)
		return
	}
	now := time.Now()
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	age, known := ageOf(body, now)
	r.count(age, known)
	if request.URL.Path == "/slow" {
		wait(request, r.Delay)
	}
}

func (r *Receiver) count(age int64, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got++
	if known {
		r.ages = append(r.ages, age)
	}
}

func (r *Receiver) writeTally(w http.ResponseWriter) {
	r.mu.Lock()
	tally := Tally{Got: r.got, Ages: r.ages}
	r.ages = nil
	r.mu.Unlock()
	_ = json.NewEncoder(w).Encode(tally) // a client that has left asks again
}

func ageOf(body []byte, now time.Time) (int64, bool) {
	rest, found := bytes.CutPrefix(body, []byte(`{"at":`))
	digits, _, _ := bytes.Cut(rest, []byte(","))
	sent, err := strconv.ParseInt(string(digits), 10, 64)
	if !found || err != nil {
		return 0, false
	}
	return now.Sub(time.Unix(0, sent)).Microseconds(), true
}
