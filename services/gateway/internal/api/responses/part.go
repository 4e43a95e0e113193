package responses

import (
	"encoding/json"
	"strings"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// part is a part of a message or of a result.
type part struct {
	Type     string  `json:"type"`
	Text     string  `json:"text"`
	Refusal  string  `json:"refusal"`
	ImageURL *string `json:"image_url"`
	Detail   string  `json:"detail"`
	FileURL  *string `json:"file_url"`
	FileData *string `json:"file_data"`
	Filename string  `json:"filename"`

	Breakpoint *struct {
		TTL string `json:"ttl"`
	} `json:"prompt_cache_breakpoint"`
}

func (r *reader) content(path string, raw json.RawMessage) ([]provider.Part, error) {
	if raw[0] == '"' {
		var text string
		err := dialect.Decode(path, raw, &text)
		return []provider.Part{{Text: text}}, err
	}
	list, err := dialect.Elements(path, raw)
	if err != nil {
		return nil, apierr.Invalid(path, "must be a string or an array of parts")
	}
	parts := make([]provider.Part, 0, len(list))
	for i, one := range list {
		at := dialect.At(path, i)
		var p part
		err := dialect.Unambiguous(at, one, "type", "text", "refusal", "image_url", "file_url", "file_data")
		if err == nil {
			err = dialect.Decode(at, one, &p)
		}
		if err != nil {
			return nil, err
		}
		converted, ok, err := r.part(at, p)
		if err != nil {
			return nil, err
		}
		if ok {
			parts = append(parts, converted)
		}
		if p.Breakpoint != nil && len(parts) > 0 {
			parts[len(parts)-1].Cache = provider.CacheLifeOf(p.Breakpoint.TTL)
			r.chat.Hint(provider.HintCachePoint, "prompt_cache_breakpoint")
		}
	}
	return parts, nil
}

// part returns false for a part that only this dialect can carry.
func (r *reader) part(path string, p part) (provider.Part, bool, error) {
	switch p.Type {
	case "input_text", "output_text", "text", "summary_text", "reasoning_text":
		return provider.Part{Text: p.Text}, true, nil
	case "refusal":
		return provider.Part{Text: p.Refusal}, true, nil
	case "input_image":
		if p.ImageURL == nil {
			r.chat.Open(path + ".file_id")
			return provider.Part{}, false, nil
		}
		if !strings.HasPrefix(*p.ImageURL, "https://") && !strings.HasPrefix(*p.ImageURL, "data:") {
			return provider.Part{}, false, apierr.Invalid(path+".image_url", "must be an https URL or a data: URI of an image")
		}
		if p.Detail == "original" { // The finest that other dialects have.
			p.Detail = "high"
		}
		return provider.Part{ImageURL: *p.ImageURL, Detail: p.Detail, Field: path + ".image_url"}, true, nil
	}
	if p.Type == "input_file" {
		return r.file(path, p)
	}
	r.chat.Open(path + ".type") // input_audio, …
	return provider.Part{}, false, nil
}

// file reads a document by its bytes or its URL; one by its id is known to its vendor alone.
func (r *reader) file(path string, p part) (provider.Part, bool, error) {
	f, field := &provider.File{Name: p.Filename}, path+".file_url"
	switch {
	case p.FileData != nil:
		field = path + ".file_data"
		f.URL = *p.FileData
		if _, _, ok := f.Data(); !ok {
			return provider.Part{}, false, apierr.Invalid(field, "must be a data: URI in base64")
		}
	case p.FileURL != nil:
		f.URL = *p.FileURL
		if !strings.HasPrefix(f.URL, "https://") {
			return provider.Part{}, false, apierr.Invalid(field, "must be an https URL")
		}
		r.chat.Bounds.OpenInput = true
	default:
		r.chat.Open(path + ".file_id")
		return provider.Part{}, false, nil
	}
	return provider.Part{File: f, Field: field}, true, nil
}
