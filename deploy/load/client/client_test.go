package client

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestDo(t *testing.T) {
	long := strings.Repeat("long answer ", 10_000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/plain":
			_, _ = w.Write([]byte("whole " + r.Header.Get("X-Test")))
		case "/chunks":
			for _, piece := range []string{"one ", "two ", "three"} {
				_, _ = w.Write([]byte(piece))
				w.(http.Flusher).Flush()
			}
		case "/long":
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write([]byte(long))
		}
	}))
	defer server.Close()
	for _, test := range []struct {
		path   string
		status int
		body   string
	}{
		{"/plain", 200, "whole yes"},
		{"/chunks", 200, "one two three"},
		{"/long", 418, long},
	} {
		r, err := NewRequest(server.URL+test.path, http.Header{"X-Test": {"yes"}}, []byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		conn, err := Dial(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // the connection is kept
			answer, err := conn.Do(r)
			if err != nil || answer.Status != test.status || string(answer.Body) != test.body {
				t.Errorf("%s: status %d, %d bytes, %v", test.path, answer.Status, len(answer.Body), err)
			}
			if answer.First.IsZero() {
				t.Errorf("%s: no time of the first byte", test.path)
			}
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestStamp(t *testing.T) {
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
	}))
	defer server.Close()
	r, err := NewRequest(server.URL+"/", nil, []byte(`{"at":`+Stamp+`}`))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := Dial(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now().UnixNano()
	for range 2 {
		if _, err := conn.Do(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	var last int64
	for _, body := range bodies {
		var at struct{ At int64 }
		if err := json.Unmarshal([]byte(body), &at); err != nil || at.At < before || at.At <= last {
			t.Errorf("body %s: %v", body, err)
		}
		last = at.At
	}
}

func TestNewRequestRefuses(t *testing.T) {
	for _, target := range []string{"https://127.0.0.1:1/x", "http://127.0.0.1/x", "://"} {
		if _, err := NewRequest(target, nil, nil); err == nil {
			t.Errorf("%s was accepted", target)
		}
	}
}
