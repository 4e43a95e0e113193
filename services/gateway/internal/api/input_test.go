package api

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

func TestToInput(t *testing.T) {
	for raw, want := range map[string]provider.Embedding{
		`"a"`:                      {Input: []string{"a"}},
		` ["a","b\u00e4"] `:        {Input: []string{"a", "bä"}},
		`["[1,2]"]`:                {Input: []string{"[1,2]"}},
		`[0]`:                      {Tokens: [][]int32{{0}}},
		"[ 1,\n2 , 2147483647 ]":   {Tokens: [][]int32{{1, 2, 2147483647}}},
		`[[1,2],[3]]`:              {Tokens: [][]int32{{1, 2}, {3}}},
		`[ [ 100257 ] , [ 0,0 ] ]`: {Tokens: [][]int32{{100257}, {0, 0}}},
	} {
		got, err := toInput([]byte(raw))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", raw, err, diff)
		}
	}
}

// Each rule of the input has its error, with the path of the value that violates it.
func TestToInputErrors(t *testing.T) {
	numbers := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("7,", n), ",") + "]" }
	lists := func(n int, item string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
	}
	for raw, want := range map[string]string{
		``:     "input: is required",
		`null`: "input: is required",
		`7`:    "input: " + inputRule,
		`{}`:   "input: " + inputRule,
		`true`: "input: " + inputRule,
		`[]`:   "input: " + countRule,
		`[[]]`: "input[0]: must not be empty",
		`[1,2`: "input: invalid JSON",
		`[1]]`: "input: invalid JSON",

		`[-1]`:             "input[0]: " + tokenRule,
		`[1,1.5]`:          "input[1]: " + tokenRule,
		`[1,1e3]`:          "input[1]: " + tokenRule,
		`[1,-0]`:           "input[1]: " + tokenRule,
		`[2147483648]`:     "input[0]: " + tokenRule,
		`[99999999999999]`: "input[0]: " + tokenRule,
		`[[1],[2,-3]]`:     "input[1][1]: " + tokenRule,

		`[1,"a"]`:     "input[1]: " + tokenRule,
		`[1,null]`:    "input[1]: " + tokenRule,
		`[1,[2]]`:     "input[1]: " + tokenRule,
		`[1,{"0":1}]`: "input[1]: " + tokenRule,
		`[[1],2]`:     "input[1]: must be an array of tokens",
		`[[1],"a"]`:   "input[1]: must be an array of tokens",
		`[[1],null]`:  "input[1]: must be an array of tokens",
		`[[1,["a"]]]`: "input[0][1]: " + tokenRule,
		`[["a"]]`:     "input[0][0]: " + tokenRule,
		`["a",1]`:     "input[1]: must be a string",
		`["a",[1]]`:   "input[1]: must be a string",
		`[null]`:      "input[0]: must be a string",
		`[{"a":1}]`:   "input[0]: must be a string",
		`[true]`:      "input[0]: must be a string",

		numbers(maxSequence + 1):               "input: must hold at most 131072 tokens",
		"[[1]," + numbers(maxSequence+1) + "]": "input[1]: must hold at most 131072 tokens",
		lists(maxInputs+1, "[1]"):              "input: " + countRule,
		lists(maxInputs+1, `"a"`):              "input: " + countRule,
		lists(9, numbers(maxSequence)):         "input: must hold at most 1048576 tokens in all",
	} {
		_, err := toInput([]byte(raw))
		if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Kind != apierr.KindInvalid || !strings.HasPrefix(e.Text, want) {
			t.Errorf("%.40s: %v, want %q", raw, err, want)
		}
	}
	for _, raw := range []string{numbers(maxSequence), lists(maxInputs, "[1]"), lists(8, numbers(maxSequence))} {
		if _, err := toInput([]byte(raw)); err != nil {
			t.Errorf("%.40s, which is just within the bounds: %v", raw, err)
		}
	}
}

// FuzzToInput checks that the result is texts or tokens, none of them empty, and that tokens equal the written numbers.
func FuzzToInput(f *testing.F) {
	for _, raw := range []string{`"a"`, `["a","b"]`, `[1,2]`, `[[1],[2,3]]`, `[1,-2]`, `[[1],2]`, `[`, `[[`, `["\ud800"]`, `[01]`} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := toInput(raw)
		if err != nil {
			if _, ok := errors.AsType[*apierr.Error](err); !ok {
				t.Errorf("%q: %v is not of the contract", raw, err)
			}
			return
		}
		if got.Len() == 0 || len(got.Input) > 0 && len(got.Tokens) > 0 {
			t.Fatalf("%q: %+v", raw, got)
		}
		for _, text := range got.Input {
			if text == "" {
				t.Errorf("%q: an empty text", raw)
			}
		}
		for _, sequence := range got.Tokens {
			if len(sequence) == 0 {
				t.Errorf("%q: no tokens", raw)
			}
			for _, token := range sequence {
				if token < 0 || !strings.Contains(string(raw), strconv.Itoa(int(token))) {
					t.Errorf("%q: token %d", raw, token)
				}
			}
		}
	})
}

// The cost of decoding the largest input.
func BenchmarkToInput(b *testing.B) {
	raw := []byte("[" + strings.TrimSuffix(strings.Repeat("[100257,11,42,7000],", 2048), ",") + "]")
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := toInput(raw); err != nil {
			b.Fatal(err)
		}
	}
}
