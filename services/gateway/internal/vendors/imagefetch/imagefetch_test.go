package imagefetch

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// First bytes of images, with a rest that no decoder would accept: the package doesn't read further.
var (
	jpeg = []byte("\xff\xd8\xff\xe0 and so on")
	png  = []byte("\x89PNG\r\n\x1a\n and so on")
	gif  = []byte("GIF89a and so on")
	webp = []byte("RIFF\x10\x00\x00\x00WEBPVP8 and so on")
)

// deaf is a resolver that finds nothing and sends no query.
var deaf = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("no lookups in tests")
}}

// serve starts an https server whose images may be fetched.
func serve(t *testing.T, handle http.HandlerFunc) (string, *Fetcher) {
	t.Helper()
	server := httptest.NewTLSServer(handle)
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	f := fetcher(t, Options{
		AllowTargets: []string{server.Listener.Addr().String()}, Time: time.Minute,
		Transport: netguard.TransportOptions{RootCAs: roots},
	})
	return server.URL, f
}

func fetcher(t *testing.T, o Options) *Fetcher {
	t.Helper()
	o.Resolver = deaf
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func refusedWith(t *testing.T, err error, reason apierr.Reason, text string) {
	t.Helper()
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok {
		t.Fatalf("error %v, want 400 %s", err, reason)
	}
	if e.Kind != apierr.KindInvalid || e.Reason != reason || e.ErrorClass() != apierr.ClassPolicy {
		t.Errorf("error %v of class %s, want 400 %s of class %s", err, e.ErrorClass(), reason, apierr.ClassPolicy)
	}
	if !strings.Contains(e.Text, text) {
		t.Errorf("text %q, want %q in it", e.Text, text)
	}
}

func TestFetch(t *testing.T) {
	for want, data := range map[string][]byte{"image/jpeg": jpeg, "image/png": png, "image/gif": gif, "image/webp": webp} {
		var asked *http.Request
		url, f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			asked = r
			w.Header().Set("Content-Type", "text/html") // Wrong: the bytes decide.
			_, _ = w.Write(data)
		})
		image, err := f.Fetch(t.Context(), url+"/a.png?token=1")
		if err != nil || image.Type != want || !bytes.Equal(image.Data, data) {
			t.Errorf("%+v, %v, want %s", image, err, want)
		}
		if asked.Header.Get("Cookie")+asked.Header.Get("Authorization")+asked.Header.Get("Referer") != "" || asked.Method != http.MethodGet {
			t.Errorf("asked with %v", asked.Header)
		}
		if _, size, err := CheckDataURI(image.DataURI()); err != nil || size != len(data) {
			t.Errorf("its data: URI: %d bytes, %v", size, err)
		}
	}
}

func TestFetchRefuses(t *testing.T) {
	const secretToken = "X-Amz-Signature-1a2b3c"
	cases := []struct {
		name   string
		handle http.HandlerFunc
		text   string
	}{
		{"no image", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<svg onload=x>")) }, "not a JPEG, PNG, GIF or WebP"},
		{"nothing", func(http.ResponseWriter, *http.Request) {}, "not a JPEG, PNG, GIF or WebP"},
		{"half a name", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(webp[:10]) }, "not a JPEG, PNG, GIF or WebP"},
		{"not there", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, "status 404"},
		{"partial", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(png)
		}, "status 206"},
		{"too large by its head", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(MaxBytes+1))
			_, _ = w.Write(png)
		}, "larger than 20971520 bytes"},
		{"too large without a head", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Transfer-Encoding", "chunked")
			_, _ = w.Write(png)
			for chunk := make([]byte, 1<<20); ; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, "larger than 20971520 bytes"},
		{"packed", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte("\x1f\x8b\x08 a bomb"))
		}, "not a JPEG, PNG, GIF or WebP"},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write(png)
		}, "could not be reached"},
		{"round and round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) }, "redirects too often"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, f := serve(t, c.handle)
			_, err := f.Fetch(t.Context(), url+"/?"+secretToken)
			refusedWith(t, err, ReasonImageInvalid, c.text)
			testkit.NoLeak(t, secretToken, err.Error())
		})
	}
}

func TestFetchIsBoundedInTime(t *testing.T) {
	url, f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(png)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	f.time = 200 * time.Millisecond
	_, err := f.Fetch(t.Context(), url)
	refusedWith(t, err, ReasonImageInvalid, "did not arrive in time")
}

// A forbidden address can't be reached, however it is named.
func TestFetchIsGuarded(t *testing.T) {
	var reached atomic.Int32
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		_, _ = w.Write(png)
	}))
	t.Cleanup(inner.Close)
	_, port, _ := net.SplitHostPort(inner.Listener.Addr().String())
	f := fetcher(t, Options{})
	for url, rule := range map[string]string{
		"https://127.0.0.1:" + port + "/a.png":                "address",
		"http://127.0.0.1:" + port + "/a.png":                 "address",
		"https://[::1]:" + port + "/":                         "address",
		"https://[::ffff:127.0.0.1]:" + port + "/":            "address",
		"https://127.1/":                                      "numeric_host",
		"https://2130706433/":                                 "numeric_host",
		"https://0x7f.0.0.1/":                                 "numeric_host",
		"https://10.0.0.1/":                                   "address",
		"https://172.16.0.1/":                                 "address",
		"https://192.168.1.1/":                                "address",
		"https://169.254.169.254/latest/meta-data/":           "address",
		"https://[fd00:ec2::254]/":                            "address",
		"https://100.64.0.1/":                                 "address",
		"https://0.0.0.0/":                                    "address",
		"https://168.63.129.16/":                              "address",
		"https://localhost/":                                  "local_name",
		"https://metadata.google.internal/":                   "local_name",
		"https://gateway/":                                    "local_name",
		"https://user:pass@images.example/":                   "userinfo",
		"https://images.example/#a":                           "fragment",
		"https://images.example:22/":                          "port",
		"http://images.example/a.png":                         "scheme",
		"ftp://images.example/a.png":                          "scheme",
		"file:///etc/passwd":                                  "scheme",
		"gopher://images.example/":                            "scheme",
		"//images.example/a.png":                              "scheme",
		"https://images.example/" + strings.Repeat("a", 2048): "length",
		"https://images.example/a b":                          "character",
	} {
		_, err := f.Fetch(t.Context(), url)
		refusedWith(t, err, ReasonTargetNotAllowed, "is not allowed ("+rule+")")
		refusedWith(t, f.CheckURL(url), ReasonTargetNotAllowed, "("+rule+")")
		refusedWith(t, f.CheckHost(t.Context(), url), ReasonTargetNotAllowed, "("+rule+")")
	}
	if reached.Load() != 0 {
		t.Errorf("an inner server was reached %d times", reached.Load())
	}
	if err := f.CheckURL("https://images.example/a.png?b=c"); err != nil {
		t.Errorf("a public name: %v", err)
	}
	// A name that can't be resolved is not refused, but can't be fetched either.
	if err := f.CheckHost(t.Context(), "https://images.example/a.png"); err != nil {
		t.Errorf("a name that is not found: %v", err)
	}
	_, err := f.Fetch(t.Context(), "https://images.example/a.png")
	refusedWith(t, err, ReasonImageInvalid, "could not be reached")
}

// A redirect is checked like any other URL.
func TestRedirectsAreChecked(t *testing.T) {
	var reached atomic.Int32
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(inner.Close)
	to := ""
	url, f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Referer") != "":
			t.Errorf("the URL was passed on: %s", r.Header.Get("Referer"))
		case r.URL.Path == "/there":
			_, _ = w.Write(png)
			return
		}
		http.Redirect(w, r, to, http.StatusFound)
	})
	for target, rule := range map[string]string{
		inner.URL:                          "address",
		"http://images.example/a.png":      "scheme",
		"https://169.254.169.254/":         "address",
		"https://localhost/":               "local_name",
		"https://admin:pw@images.example/": "userinfo",
	} {
		to = target
		_, err := f.Fetch(t.Context(), url)
		refusedWith(t, err, ReasonTargetNotAllowed, "("+rule+")")
	}
	if reached.Load() != 0 {
		t.Error("an inner server was reached")
	}
	to = "/there"
	if image, err := f.Fetch(t.Context(), url); err != nil || image.Type != "image/png" {
		t.Errorf("an honest redirect: %+v, %v", image, err)
	}
}

// Only the targets that an operator allows may use http.
func TestAllowedTargetsMayBePlain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(gif) }))
	t.Cleanup(server.Close)
	f := fetcher(t, Options{AllowTargets: []string{server.Listener.Addr().String()}})
	if image, err := f.Fetch(t.Context(), server.URL); err != nil || image.Type != "image/gif" {
		t.Errorf("%+v, %v", image, err)
	}
	if _, err := New(Options{AllowTargets: []string{"nonsense"}}); err == nil {
		t.Error("a target without a port was taken")
	}
}

func TestFetchEndsWithItsContext(t *testing.T) {
	url, f := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	cause := errors.New("the caller left")
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
	defer stop.Stop()
	if _, err := f.Fetch(ctx, url); !errors.Is(err, cause) {
		t.Errorf("%v, want the cause", err)
	}
}

// A network that the operator denies is refused as a URL, and when it is fetched.
func TestDenyPrefixes(t *testing.T) {
	f, err := New(Options{DenyPrefixes: []netip.Prefix{netip.MustParsePrefix("203.0.114.0/24")}, Resolver: deaf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	const link = "https://203.0.114.7/a.png"
	if err := f.CheckURL(link); apierr.From(err).Kind != apierr.KindInvalid {
		t.Errorf("the URL: %v, want it refused", err)
	}
	if _, err := f.Fetch(t.Context(), link); apierr.From(err).Kind != apierr.KindInvalid {
		t.Errorf("the fetch: %v, want it refused", err)
	}
	if err := f.CheckURL("https://203.0.115.7/a.png"); err != nil {
		t.Errorf("an address beside it: %v", err)
	}
}
