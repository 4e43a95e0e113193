package anthropic

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit/growth"
)

// fewRequests is the most of the tests' batches.
const fewRequests = 1000

// readAll reads a batch with its requests.
func readAll(body []byte) error {
	b, err := ReadBatch(body, fewRequests)
	if err != nil {
		return err
	}
	for _, raw := range b.Requests {
		if _, _, err := ReadBatchRequest(raw); err != nil {
			return err
		}
	}
	return nil
}

// A batch that is read has some requests, but no more than it may.
func TestReadBatchBounds(t *testing.T) {
	for n, ok := range map[int]bool{0: false, 1: true, fewRequests: true, fewRequests + 1: false, 1 << 20: false} {
		body := `{"requests":[` + strings.TrimSuffix(strings.Repeat("1,", n), ",") + `]}`
		b, err := ReadBatch([]byte(body), fewRequests)
		if (err == nil) != ok || ok && len(b.Requests) != n {
			t.Errorf("%d requests are read with %v, want them %v", n, err, ok)
		}
	}
}

func FuzzReadBatch(f *testing.F) {
	for _, seed := range []string{
		`{"requests":[{"custom_id":"a","params":{"model":"m"}}]}`, `{"requests":[1,{}]}`, `{"requests":null}`, `{"requests":{"a":1}}`, `{"requests":[{"custom_id":"a","custom_id":"b"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		b, err := ReadBatch(body, fewRequests)
		if err != nil {
			if kind := apierr.From(err).Kind; kind != apierr.KindInvalid && kind != apierr.KindTooLarge {
				t.Errorf("%v is not an error of the caller", err)
			}
			return
		}
		for _, raw := range b.Requests {
			id, params, err := ReadBatchRequest(raw)
			if err == nil && (!customIDs.MatchString(id) || !gjson.ValidBytes(params) || params[0] != '{') {
				t.Errorf("%q is read as %q with %q", raw, id, params)
			}
		}
	})
}

func TestReadBatchGrowsLinearly(t *testing.T) {
	const start = `{"requests":[{"custom_id":"a","params":{"model":"m"`
	inputs := append([]growth.Input{
		growth.Number("requests", start+"}}", `,{"custom_id":"a#","params":{}}`, "]}"), growth.Repeat("numbers", `{"requests":[1`, ",1", "]}"),
		growth.Repeat("empty requests", `{"requests":[{}`, ",{}", "]}"), growth.Repeat("a long id", `{"requests":[{"custom_id":"`, "a", `"}]}`),
		growth.Number("members", start, `,"a#":1`, "}}]}"), growth.Repeat("a member many times", start+"}", `,"a":1`, "}]}"),
		growth.Repeat("extensions", `{"requests":[]`, `,"switchyard":{}`, "}"),
	}, growth.JSON...)
	inputs = append(inputs, growth.Around(start+`,"x":`, growth.JSON, "}}]}")...)
	growth.Linear(t, growth.Each(inputs, func(body []byte) { _ = readAll(body) })...)
}
