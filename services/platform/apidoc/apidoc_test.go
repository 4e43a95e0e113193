package apidoc_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/apidoc"
)

const source = `{"swagger":"2.0","paths":{"/v1/things/{id}":{"post":{
  "operationId":"Things_Make","summary":"Make makes a thing. It <b>lasts</b>\na while.","tags":["Things"],
  "parameters":[
    {"name":"id","in":"path","required":true,"type":"string"},
    {"name":"kinds","in":"query","type":"array","items":{"type":"string"},"collectionFormat":"multi"},
    {"name":"body","in":"body","required":true,"schema":{"$ref":"#/definitions/v1Thing"}}],
  "responses":{"200":{"description":"Made.","schema":{"$ref":"#/definitions/v1Thing"}},"default":{"description":"Not."}}}}},
 "definitions":{
  "v1Thing":{"type":"object","description":"Thing is one.","properties":{"name":{"type":"string"},"parts":{"type":"array","items":{"$ref":"#/definitions/v1Thing"}},"any":{}}},
  "v1Unused":{"type":"object"}}}`

func document(t *testing.T) []byte {
	t.Helper()
	d := apidoc.New("Things", "v1", "All about <things>.")
	for _, name := range []string{"first", "second"} { // Each has its own Thing.
		s, err := apidoc.Read(name, []byte(source))
		if err != nil {
			t.Fatal(err)
		}
		operation, ok := d.Import(s, http.MethodPost, "/v1/things/{id}")
		if !ok {
			t.Fatal("not there")
		}
		d.Add(http.MethodPost, "/"+name+"/things/{id}", operation)
		if _, ok := d.Import(s, http.MethodGet, "/v1/things/{id}"); ok {
			t.Error("an operation that isn't there")
		}
	}
	text, err := d.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestImport(t *testing.T) {
	var got struct {
		OpenAPI string `json:"openapi"`
		Paths   map[string]map[string]any
		// Components hold schemas by name.
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(document(t), &got); err != nil || got.OpenAPI != "3.1.0" {
		t.Fatalf("%q, %v", got.OpenAPI, err)
	}
	ref := map[string]any{"$ref": "#/components/schemas/Thing"}
	content := map[string]any{"application/json": map[string]any{"schema": ref}}
	want := map[string]any{
		"operationId": "Things_Make", "tags": []any{"Things"}, "summary": "Make makes a thing", "description": "It <b>lasts</b> a while.",
		"parameters": []any{
			map[string]any{"name": "id", "in": "path", "required": true, "schema": map[string]any{"type": "string"}},
			map[string]any{"name": "kinds", "in": "query", "schema": map[string]any{"type": "array", "items": map[string]any{"type": "string"}}},
		},
		"requestBody": map[string]any{"required": true, "content": content},
		"responses": map[string]any{
			"200":     map[string]any{"description": "Made.", "content": content},
			"default": map[string]any{"description": "Not."},
		},
	}
	if diff := cmp.Diff(want, got.Paths["/first/things/{id}"]["post"]); diff != "" {
		t.Errorf("operation (-want +got):\n%s", diff)
	}
	thing := func(name string) map[string]any {
		return map[string]any{"type": "object", "description": "Thing is one.", "properties": map[string]any{
			"name": map[string]any{"type": "string"}, "any": map[string]any{},
			"parts": map[string]any{"type": "array", "items": map[string]any{"$ref": "#/components/schemas/" + name}},
		}}
	}
	if diff := cmp.Diff(map[string]any{"Thing": thing("Thing"), "SecondThing": thing("SecondThing")}, got.Components.Schemas); diff != "" {
		t.Errorf("schemas (-want +got):\n%s", diff)
	}
}

// Texts of a document are text on the page, never markup, and the page's policy permits it to run and load nothing.
func TestPage(t *testing.T) {
	page, err := apidoc.Page(document(t))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/docs", nil))
	body := w.Body.String()
	for _, want := range []string{"<h1>Things v1</h1>", "/first/things/{id}", "&lt;b&gt;lasts", "All about &lt;things&gt;", `href="#schema-SecondThing"`, `id="schema-Thing"`, "array of Thing", "any JSON"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for _, bad := range []string{"<script", "<b>", "http://", "https://", "ZgotmplZ", "&lt;nil"} {
		if strings.Contains(body, bad) {
			t.Errorf("the page has %s", bad)
		}
	}
	policy := w.Header().Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("policy %q", policy)
	}
	if _, err := apidoc.Page([]byte("{")); err == nil {
		t.Error("half a document has a page")
	}
}

func TestFixed(t *testing.T) {
	h := apidoc.Fixed("text/plain", []byte("hello"))
	get := func(tag string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	etag := get("").Header().Get("ETag")
	for tag, want := range map[string]int{"": 200, etag: 304, "W/" + etag + `, "x"`: 304, "*": 304, `"x"`: 200} {
		if w := get(tag); w.Code != want || w.Header().Get("ETag") != etag || (w.Body.String() == "hello") != (want == 200) {
			t.Errorf("If-None-Match %q: %d %q, want %d", tag, w.Code, w.Body, want)
		}
	}
}

// A face has every operation of its contract, and its page.
func TestFace(t *testing.T) {
	files := fstest.MapFS{"openapi/things.swagger.json": {Data: []byte(source)}}
	handlers, err := apidoc.Face(files, "things", "Things", "All.")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{apidoc.DocumentPath: `"/v1/things/{id}":{"post":{`, apidoc.PagePath: "/v1/things/{id}"} {
		w := httptest.NewRecorder()
		handlers[path].ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s lacks %s", path, want)
		}
	}
	if _, err := apidoc.Face(files, "nothing", "", ""); err == nil {
		t.Error("a contract that isn't there has a face")
	}
}

func TestRewrite(t *testing.T) {
	s, err := apidoc.Read("test", []byte(`{
		"paths": {"/v1/a": {"get": {"summary": "a", "parameters": [{"name": "a", "description": "a"}]}}},
		"definitions": {"a": {"properties": {"description": {"type": "string", "description": "a"}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	s.Rewrite(strings.ToUpper)
	got, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"paths":{"/v1/a":{"get":{"parameters":[{"description":"A","name":"a"}],"summary":"A"}}},` +
		`"definitions":{"a":{"properties":{"description":{"description":"A","type":"string"}}}}}`
	if string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A text is compressed for clients that accept it, under an ETag of its own; short texts and images are not.
func TestFixedCompresses(t *testing.T) {
	long := bytes.Repeat([]byte("switchyard "), 1000)
	for _, test := range []struct {
		name, media, accept string
		body                []byte
		packed, varies      bool
	}{
		{"accepted", "text/html", "gzip, br", long, true, true},
		{"with a weight", "text/html", "br;q=1, GZIP; q=0.5", long, true, true},
		{"not named", "text/html", "br", long, false, true},
		{"no header", "text/html", "", long, false, true},
		{"refused", "text/html", "gzip;q=0", long, false, true},
		{"refused with decimals", "text/html", "gzip; q=0.000", long, false, true},
		{"a weight that is no number", "text/html", "gzip;q=x", long, false, true},
		{"a short text", "text/html", "gzip", long[:1000], false, false},
		{"an image", "image/png", "gzip", long, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := apidoc.Fixed(test.media, test.body)
			get := func(etag string) *httptest.ResponseRecorder {
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.Header.Set("Accept-Encoding", test.accept)
				r.Header.Set("If-None-Match", etag)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w
			}
			w := get("")
			body := w.Body.Bytes()
			if length := w.Header().Get("Content-Length"); length != strconv.Itoa(len(body)) {
				t.Errorf("Content-Length %s of %d bytes", length, len(body))
			}
			if packed := w.Header().Get("Content-Encoding") == "gzip"; packed != test.packed {
				t.Fatalf("compressed: %v, want %v", packed, test.packed)
			}
			if varies := w.Header().Get("Vary") == "Accept-Encoding"; varies != test.varies {
				t.Errorf("Vary: %v, want %v", varies, test.varies)
			}
			if test.packed {
				z, err := gzip.NewReader(bytes.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				if body, err = io.ReadAll(z); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(body, test.body) {
				t.Errorf("got %d bytes, want %d", len(body), len(test.body))
			}
			if w := get(w.Header().Get("ETag")); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
				t.Errorf("the same ETag: %d, %d bytes", w.Code, w.Body.Len())
			}
			other := httptest.NewRecorder()
			h.ServeHTTP(other, httptest.NewRequest(http.MethodGet, "/", nil))
			if same := other.Header().Get("ETag") == w.Header().Get("ETag"); same == test.packed {
				t.Errorf("the ETag of the plain text is the same: %v", same)
			}
		})
	}
}
