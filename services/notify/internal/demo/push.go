package demo

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

const (
	pushServicePath   = "/push-service"
	subscriptionsPath = pushServicePath + "/subscriptions"
	messagesPath      = pushServicePath + "/messages"
)

const (
	maxSubscription = 4096 // bytes of a request for a subscription
	pushTimeout     = 5 * time.Second
)

// servePush serves what the page needs of the fake push service at address, which may be empty: whether there is one, a
// subscription, and what was pushed to it. The page can't call the service itself, which is another origin.
func servePush(mux *http.ServeMux, address string) {
	mux.HandleFunc("GET "+pushServicePath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]bool{"available": address != ""}) // The page may have gone.
	})
	if address == "" {
		return
	}
	mux.Handle("POST "+subscriptionsPath, http.MaxBytesHandler(pass(address, "/_subscriptions"), maxSubscription))
	mux.Handle("GET "+messagesPath, pass(address, "/_messages"))
}

// pass returns a handler that passes requests on to a path of the fake push service, with their query and body and
// without other headers than that of their type.
func pass(address, path string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			kind := r.In.Header.Get("Content-Type")
			r.Out.Header = http.Header{"Content-Type": {kind}}
			r.Out.Host = ""
			r.Out.URL = &url.URL{Scheme: "http", Host: address, Path: path, RawQuery: r.In.URL.RawQuery}
		},
		Transport: &http.Transport{
			DialContext:           (&net.Dialer{Timeout: pushTimeout}).DialContext,
			ResponseHeaderTimeout: pushTimeout,
			DisableKeepAlives:     true, // A page polls once a second, and no connection outlives the demo.
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = w.Write([]byte(`{"error":"the fake push service does not answer"}`))
		},
	}
}
