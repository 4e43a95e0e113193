package api_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

const pngHead = "\x89PNG\r\n\x1a\n"

var pngText = base64.StdEncoding.EncodeToString([]byte(pngHead))

// media serves everything but chat and reports whether it did; the model selects the behavior.
func media(w http.ResponseWriter, r *http.Request, body []byte) bool {
	var request struct {
		Model          string
		Input          []json.RawMessage
		Dimensions     int
		Prompt         string
		N              int
		ResponseFormat string `json:"response_format"`
	}
	_ = json.Unmarshal(body, &request)
	fault := func() bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(`{"error":{"message":"down; you sent ` + r.Header.Get("Authorization") + `","type":"server_error"}}`))
		return true
	}
	down := strings.HasSuffix(request.Model, "down")
	switch {
	case r.URL.Path == "/picture.png":
		_, _ = w.Write([]byte(pngHead))
	case strings.HasSuffix(r.URL.Path, "/embeddings") && down, strings.HasSuffix(r.URL.Path, "/images/generations") && down:
		return fault()
	case strings.HasSuffix(r.URL.Path, "/embeddings"):
		var items []string
		for i := range request.Input {
			items = append(items, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":[%d.5,-1e-7]}`, i, i))
		}
		usage := `,"usage":{"prompt_tokens":8,"total_tokens":8}`
		if request.Model == "silent" {
			usage = ""
		}
		_, _ = w.Write([]byte(`{"object":"list","model":"x","data":[` + strings.Join(items, ",") + `]` + usage + `}`))
	case strings.HasSuffix(r.URL.Path, "/images/generations"):
		item := `{"b64_json":"` + pngText + `","revised_prompt":"better"}`
		if request.Model == "painter-by-url" {
			item = `{"url":"http://` + r.Host + `/picture.png"}`
		}
		items := strings.Repeat(item+",", request.N)
		_, _ = w.Write([]byte(`{"created":1,"data":[` + strings.TrimSuffix(items, ",") + `],"usage":{"input_tokens":3,"output_tokens":100,"total_tokens":103}}`))
	default:
		return false
	}
	return true
}
