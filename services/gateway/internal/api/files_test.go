package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/platform/testkit"
)

// Files are stored, shown, listed, downloaded and deleted, on OpenAI's paths and on Azure's.
func TestFiles(t *testing.T) {
	b := setup(t)
	for _, root := range []string{"/v1/files", "/openai/files"} {
		kind, body := fileForm(t, "in.jsonl", "{\"a\":1}\n", "purpose", "batch", "expires_after[anchor]", "created_at", "expires_after[seconds]", "3600")
		made := b.say(t, "POST", root, body, "Content-Type", kind)
		const object = `{"id":"file-ID","object":"file","bytes":8,"created_at":"TIME","expires_at":"TIME","filename":"in.jsonl","purpose":"batch","status":"processed"}`
		if made.status != 200 || shape(made.body) != object || gjson.Get(made.body, "expires_at").Int() != gjson.Get(made.body, "created_at").Int()+3600 {
			t.Fatalf("%s: %d %s, want %s", root, made.status, shape(made.body), object)
		}
		id := gjson.Get(made.body, "id").Str
		if got := b.say(t, "GET", root+"/"+id, ""); got.status != 200 || got.body != made.body {
			t.Errorf("%s: read as %d %s, want %s", root, got.status, got.body, made.body)
		}
		got := b.say(t, "GET", root+"/"+id+"/content", "")
		if got.status != 200 || got.body != "{\"a\":1}\n" || got.header.Get("Content-Length") != "8" || got.header.Get("Content-Type") != "application/octet-stream" {
			t.Errorf("%s: downloaded as %d %q with %v", root, got.status, got.body, got.header)
		}
		const list = `{"object":"list","data":[` + object + `],"first_id":"file-ID","last_id":"file-ID","has_more":false}`
		if got := b.say(t, "GET", root, ""); got.status != 200 || shape(got.body) != list {
			t.Errorf("%s: listed as %d %s, want %s", root, got.status, shape(got.body), list)
		}
		if got := b.say(t, "DELETE", root+"/"+id, ""); got.status != 200 || shape(got.body) != `{"id":"file-ID","object":"file","deleted":true}` {
			t.Errorf("%s: deleted with %d %s", root, got.status, got.body)
		}
		for _, call := range []string{"GET " + root + "/" + id, "GET " + root + "/" + id + "/content", "DELETE " + root + "/" + id} {
			verb, path, _ := strings.Cut(call, " ")
			got := b.say(t, verb, path, "")
			if got.status != 404 || gjson.Get(got.body, "error.message").Str == "" || !strings.Contains(got.body, "file_id: no such file is stored") {
				t.Errorf("%s of a deleted file: %d %s", call, got.status, got.body)
			}
		}
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM file_piece"); n != 0 {
		t.Errorf("%d pieces are left", n)
	}
	const none = `{"object":"list","data":[],"first_id":null,"last_id":null,"has_more":false}`
	if got := b.say(t, "GET", "/v1/files", ""); strings.TrimSpace(got.body) != none {
		t.Errorf("an empty list: %s, want %s", got.body, none)
	}
}

// A file that is larger than a piece is downloaded whole.
func TestLargeFile(t *testing.T) {
	b := setup(t)
	content := strings.Repeat("0123456789abcde\n", 50_000)
	id := b.upload(t, content)
	if got := b.say(t, "GET", "/v1/files/"+id+"/content", ""); got.body != content || got.header.Get("Content-Length") != "800000" {
		t.Errorf("%d bytes of %s, want 800000", len(got.body), got.header.Get("Content-Length"))
	}
	testkit.Exec(t, b.pool, "UPDATE file_piece SET sealed = 'x'")
	if got := b.say(t, "GET", "/v1/files/"+id+"/content", ""); got.status != 503 || gjson.Get(got.body, "error.type").Str == "" {
		t.Errorf("a file that can't be opened: %d %s, want 503 in OpenAI's form", got.status, got.body)
	}
}

// Pages follow one another in either order.
func TestFilePages(t *testing.T) {
	b := setup(t)
	var ids []string
	for range 3 {
		ids = append(ids, b.upload(t, "a"))
	}
	for query, want := range map[string]string{
		"":                                      "2 1 0 false",
		"?limit=2":                              "2 1 true",
		"?limit=2&after=" + ids[1]:              "0 false",
		"?limit=2&order=asc":                    "0 1 true",
		"?order=asc&after=" + ids[1]:            "2 false",
		"?after=" + ids[0]:                      "false",
		"?after=file-unknown":                   "false",
		"?purpose=batch&limit=10000&order=desc": "2 1 0 false",
		"?purpose=user_data":                    "false",
		"?purpose=batch_output&after=" + ids[0]: "false",
	} {
		got := b.say(t, "GET", "/v1/files"+query, "")
		var seen []string
		for _, f := range gjson.Get(got.body, "data").Array() {
			for i, id := range ids {
				if f.Get("id").Str == id {
					seen = append(seen, fmt.Sprint(i))
				}
			}
		}
		seen = append(seen, gjson.Get(got.body, "has_more").Raw)
		if text := strings.Join(seen, " "); got.status != 200 || text != want {
			t.Errorf("%s: %d %s, want %s", query, got.status, text, want)
		}
	}
	for query, field := range map[string]string{
		"?limit=0": "limit", "?limit=10001": "limit", "?limit=x": "limit", "?order=up": "order", "?purpose=message_batch": "purpose", "?purpose=x": "purpose",
	} {
		if got := b.say(t, "GET", "/v1/files"+query, ""); got.status != 400 || !strings.Contains(gjson.Get(got.body, "error.message").Str, field+": must be") {
			t.Errorf("%s: %d %s, want 400 that names %s", query, got.status, got.body, field)
		}
	}
}

// What is wrong with an upload is said by its field, in OpenAI's form.
func TestUploadErrors(t *testing.T) {
	b := setup(t)
	const expiry = "must be a whole number from 3600 to 2592000"
	for name, c := range map[string]struct {
		file, content string
		fields        []string
		want          string
	}{
		"no purpose":        {"a", "x", nil, "purpose: must be batch, user_data or vision"},
		"another purpose":   {"a", "x", []string{"purpose", "fine-tune"}, "purpose: must be"},
		"an output":         {"a", "x", []string{"purpose", "batch_output"}, "purpose: must be"},
		"a hidden purpose":  {"a", "x", []string{"purpose", "message_batch"}, "purpose: must be"},
		"two purposes":      {"a", "x", []string{"purpose", "batch", "purpose", "vision"}, "purpose: must be given once"},
		"an empty file":     {"a", "", []string{"purpose", "batch"}, "file: must not be empty"},
		"a long name":       {strings.Repeat("a", 513), "x", []string{"purpose", "batch"}, "file: must have a name of at most 512 bytes"},
		"a name in Latin 1": {"\xe4", "x", []string{"purpose", "batch"}, "file: must have a name of at most 512 bytes"},
		"no anchor":         {"a", "x", []string{"purpose", "batch", "expires_after[seconds]", "3600"}, "expires_after[anchor]: must be created_at"},
		"another anchor":    {"a", "x", []string{"purpose", "batch", "expires_after[seconds]", "3600", "expires_after[anchor]", "now"}, "expires_after[anchor]: must be created_at"},
		"only an anchor":    {"a", "x", []string{"purpose", "batch", "expires_after[anchor]", "created_at"}, "expires_after[seconds]: " + expiry},
		"too short a life":  {"a", "x", []string{"purpose", "batch", "expires_after[seconds]", "3599", "expires_after[anchor]", "created_at"}, "expires_after[seconds]: " + expiry},
		"too long a life":   {"a", "x", []string{"purpose", "batch", "expires_after[seconds]", "2592001", "expires_after[anchor]", "created_at"}, "expires_after[seconds]: must be a whole number from 1 to 2592000"},
		"no number":         {"a", "x", []string{"purpose", "batch", "expires_after[seconds]", "1e4", "expires_after[anchor]", "created_at"}, "expires_after[seconds]: must be"},
		"no extension":      {"a", "x", []string{"purpose", "batch", "switchyard", "{"}, "switchyard: "},
		"an unknown field":  {"a", "x", []string{"purpose", "batch", "switchyard", `{"x":1}`}, "switchyard"},
	} {
		kind, body := fileForm(t, c.file, c.content, c.fields...)
		got := b.say(t, "POST", "/v1/files", body, "Content-Type", kind)
		if got.status != 400 || !strings.Contains(gjson.Get(got.body, "error.message").Str, c.want) || gjson.Get(got.body, "error.type").Str != "invalid_request_error" {
			t.Errorf("%s: %d %s, want %s", name, got.status, got.body, c.want)
		}
	}
	for name, c := range map[string]struct{ kind, body, want string }{
		"no form":                {"application/json", `{"purpose":"batch"}`, "Content-Type: must be multipart/form-data"},
		"a form without a file":  {"multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x--\r\n", "file: exactly one is required"},
		"a file as a field":      {"multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\na\r\n--x--\r\n", "file: must be a file"},
		"a form that breaks off": {"multipart/form-data; boundary=x", "--x\r\nContent-Dis", "body: is not a form"},
		"no boundary":            {"multipart/form-data", "--x--", ""},
	} {
		got := b.say(t, "POST", "/v1/files", c.body, "Content-Type", c.kind)
		if got.status != 400 || !strings.Contains(got.body, c.want) {
			t.Errorf("%s: %d %s, want %s", name, got.status, got.body, c.want)
		}
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM file"); n != 0 {
		t.Errorf("%d files are stored", n)
	}
}

// Files belong to an organization and an owner; for all others they don't exist.
func TestFileScope(t *testing.T) {
	b := setup(t)
	id := b.upload(t, "x", "X-Owner-Id", "ada")
	for name, headers := range map[string][]string{
		"no owner":             {},
		"another owner":        {"X-Owner-Id", "bob"},
		"another organization": {"X-Owner-Id", "ada", "X-Organization-Id", "globex"},
	} {
		for _, call := range []string{"GET /v1/files/" + id, "GET /v1/files/" + id + "/content", "DELETE /v1/files/" + id} {
			verb, path, _ := strings.Cut(call, " ")
			if got := b.say(t, verb, path, "", headers...); got.status != 404 {
				t.Errorf("%s: %s is %d %s, want 404", name, call, got.status, got.body)
			}
		}
		if got := b.say(t, "GET", "/v1/files", "", headers...); gjson.Get(got.body, "data.#").Int() != 0 {
			t.Errorf("%s: lists %s", name, got.body)
		}
		if got := b.say(t, "POST", "/v1/batches", batchOf(id, ""), headers...); got.status != 404 || !strings.Contains(got.body, "input_file_id: no such file is stored") {
			t.Errorf("%s: a batch of it is %d %s, want 404", name, got.status, got.body)
		}
	}
	kind, body := fileForm(t, "a", "x", "purpose", "batch", "switchyard", `{"organization_id":"globex"}`)
	if got := b.say(t, "POST", "/v1/files", body, "Content-Type", kind); got.status != http.StatusForbidden {
		t.Errorf("a file for another organization: %d %s, want 403", got.status, got.body)
	}
	if got := b.say(t, "GET", "/v1/files/"+id, "", "X-Owner-Id", "ada"); got.status != 200 {
		t.Errorf("its owner reads %d %s", got.status, got.body)
	}
}

// Where there are no keys, files and batches are refused with the setting that is missing.
func TestNoFilesWithoutKeys(t *testing.T) {
	b := setupBench(t, policyText, false)
	kind, form := fileForm(t, "a", "x", "purpose", "batch")
	for call, body := range map[string]string{
		"GET /v1/files": "", "GET /v1/files/a": "", "GET /v1/files/a/content": "", "DELETE /v1/files/a": "", "POST /v1/files": form,
		"GET /v1/batches": "", "GET /v1/batches/a": "", "POST /v1/batches/a/cancel": "", "POST /v1/batches": batchOf("file-a", ""),
		"GET /v1/messages/batches": "", "GET /v1/messages/batches/a": "", "GET /v1/messages/batches/a/results": "",
		"DELETE /v1/messages/batches/a": "", "POST /v1/messages/batches/a/cancel": "", "POST /v1/messages/batches": `{"requests":[{}]}`,
	} {
		verb, path, _ := strings.Cut(call, " ")
		var headers []string
		if body == form {
			headers = []string{"Content-Type", kind}
		}
		got := b.say(t, verb, path, body, headers...)
		if got.status != 400 || !strings.Contains(gjson.Get(got.body, "error.message").Str, "GATEWAY_TRACE_KEYS_FILE") {
			t.Errorf("%s: %d %s, want 400 that names the setting", call, got.status, got.body)
		}
	}
}
