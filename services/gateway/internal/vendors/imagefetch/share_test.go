package imagefetch

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/memory"
)

// servers stands in for image servers: silent.example never responds, all others respond at once.
type servers struct{}

func (servers) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == "silent.example" {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(png)))}, nil
}

// An organization whose images don't arrive doesn't keep others from fetching, and its own fetches end in time,
// including the wait for a place.
func TestOrganizationHasItsShareOfFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fetcher(t, Options{})
		f.client.Transport = servers{}
		fetch := func(organization, host string) (time.Duration, error) {
			hold := (*memory.Budget)(nil).Open(organization, 0)
			begun := time.Now()
			_, err := f.Fetch(memory.NewContext(t.Context(), hold), "https://"+host+"/a.png")
			return time.Since(begun), err
		}
		var silent sync.WaitGroup
		for range 64 {
			silent.Go(func() {
				if took, err := fetch("a", "silent.example"); err == nil || took > fetchTime {
					t.Errorf("a silent server's image: %v after %v, want an error within %v", err, took, fetchTime)
				}
			})
		}
		synctest.Wait()
		if took, err := fetch("b", "images.example"); err != nil || took > 0 {
			t.Errorf("another organization's image: %v after %v, want it at once", err, took)
		}
		for _, organization := range []string{"c", "d", "e"} {
			for range f.places.Share() {
				silent.Go(func() { _, _ = fetch(organization, "silent.example") })
			}
		}
		time.Sleep(time.Second)
		if took, err := fetch("f", "images.example"); err != nil || took > fetchTime-time.Second {
			t.Errorf("an image while all places are held: %v after %v, want it once a place is free", err, took)
		}
		silent.Wait()
	})
}
