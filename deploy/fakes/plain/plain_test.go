package plain

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func ask(t *testing.T, url, body string) string {
	t.Helper()
	answer, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestProviderAnswers(t *testing.T) {
	server := httptest.NewServer(New(Config{Pieces: 3}))
	defer server.Close()
	var whole struct {
		Choices []struct{ Message struct{ Content string } }
		Usage   struct {
			Prompt int `json:"prompt_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(ask(t, server.URL, `{}`)), &whole); err != nil || whole.Usage.Prompt != PromptTokens ||
		whole.Choices[0].Message.Content != strings.TrimSpace(Text(100)) {
		t.Errorf("answer %+v, error %v", whole, err)
	}
	stream := ask(t, server.URL, `{"stream":true}`)
	if strings.Count(stream, `"carriage "`) != 3 || !strings.HasSuffix(stream, "data: [DONE]\n\n") {
		t.Errorf("stream %s", stream)
	}
}

func TestReceiverReportsCountAndAges(t *testing.T) {
	server := httptest.NewServer(&Receiver{})
	defer server.Close()
	ask(t, server.URL, fmt.Sprintf(`{"at":%d,"x":1}`, time.Now().Add(-time.Second).UnixNano()))
	ask(t, server.URL, `{"x":1}`)
	for _, want := range []int{1, 0} { // ages are reported once
		answer, err := http.Get(server.URL + "/tally")
		if err != nil {
			t.Fatal(err)
		}
		var tally Tally
		err = json.NewDecoder(answer.Body).Decode(&tally)
		_ = answer.Body.Close()
		if err != nil || tally.Got != 2 || len(tally.Ages) != want {
			t.Errorf("tally %+v, error %v", tally, err)
		}
		if want == 1 && tally.Ages[0] < time.Second.Microseconds() {
			t.Errorf("age %d µs", tally.Ages[0])
		}
	}
}
