package token

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"switchyard.dev/services/platform/testkit/growth"
)

// count returns the tokens of a text for a model, which must be known.
func count(t *testing.T, model, text string) int64 {
	t.Helper()
	c, ok := For(model)
	if !ok {
		t.Fatalf("%s is unknown", model)
	}
	c.Add(text)
	return c.Tokens()
}

// Counts as OpenAI's cookbook and the tests of its own tokenizer have them.
func TestPublishedCounts(t *testing.T) {
	for text, want := range map[string]struct{ o200k, cl100k int64 }{
		"":                             {0, 0},
		"hello world":                  {2, 2},
		"tiktoken is great!":           {6, 6},
		"antidisestablishmentarianism": {6, 6},
		"2 + 2 = 4":                    {7, 7},
		"お誕生日おめでとう":                    {8, 9},
		"The quick brown fox jumps over the lazy dog.": {10, 10},
		"你好，世界": {3, 6},
	} {
		if got := count(t, "gpt-4o", text); got != want.o200k {
			t.Errorf("o200k_base: %q has %d tokens, want %d", text, got, want.o200k)
		}
		if got := count(t, "gpt-4", text); got != want.cl100k {
			t.Errorf("cl100k_base: %q has %d tokens, want %d", text, got, want.cl100k)
		}
	}
}

func TestFor(t *testing.T) {
	const probe = "お誕生日おめでとう" // 8 tokens in o200k_base, 9 in cl100k_base.
	for want, names := range map[int64][]string{
		8: {
			"gpt-4o", "gpt-4o-mini-2024-07-18", "gpt-4.1", "gpt-4.1-nano", "gpt-4.5-preview", "gpt-5", "gpt-5-mini", "gpt-5.6-luna", "o1", "o1-pro",
			"o3-mini", "o4-mini-high", "gpt-oss", "gpt-oss:20b", "chatgpt-4o-latest", "GPT-4o", "openai/gpt-4o", "openrouter/openai/gpt-5.1:online",
			"ft:gpt-4o-2024-08-06:acme::id", "openai.gpt-oss-120b-1:0",
		},
		9: {
			"gpt-4", "gpt-4-turbo", "gpt-4-0613", "gpt-4-32k", "gpt-3.5-turbo", "gpt-35-turbo-16k", "ft:gpt-3.5-turbo:acme", "azure/gpt-4",
			"text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002",
		},
		0: {
			"", "/", "gpt", "gpt-6", "gpt-6.1-terra", "gpt-4all", "gpt-45", "gpt-image-1", "o", "o2", "o1x", "o11", "marco-o1", "claude-opus-5", "gemini-3",
			"llama-3", "text-embedding-004", "gpt-4o/other", "sandbox", strings.Repeat("gpt-4o-", 100),
		},
	} {
		for _, name := range names {
			c, known := For(name)
			if known != (want > 0) {
				t.Errorf("%q: known %t", name, known)
			}
			if !known {
				continue
			}
			if c.Add(probe); c.Tokens() != want {
				t.Errorf("%q: %d tokens, want %d", name, c.Tokens(), want)
			}
		}
	}
}

func TestForTakesTheFirstKnownName(t *testing.T) {
	c, ok := For("our-deployment", "gpt-4", "gpt-4o")
	if c.Add("お誕生日おめでとう"); !ok || c.Tokens() != 9 {
		t.Errorf("%d tokens, known %t; want 9 of gpt-4", c.Tokens(), ok)
	}
}

// Beyond MostBytes the ratio of what was counted applies, and a quarter where nothing was.
func TestRest(t *testing.T) {
	c, _ := For("gpt-4o")
	for range 10 {
		c.Add(strings.Repeat("hello world ", MostBytes/12)) // 2 tokens of 12 bytes, but for the last space.
	}
	if want := int64(10 * 2 * (MostBytes / 12)); c.Tokens() < want || c.Tokens() > want*1001/1000 {
		t.Errorf("%d tokens, want %d or a few more", c.Tokens(), want)
	}
	if c.bytes > MostBytes || c.bytes+c.rest != 10*12*(MostBytes/12) {
		t.Errorf("%d bytes were counted and %d not", c.bytes, c.rest)
	}
	skipped, _ := For("gpt-4o")
	if skipped.Skip(9); skipped.Tokens() != 3 {
		t.Errorf("%d tokens of 9 bytes that were skipped, want 3", skipped.Tokens())
	}
	wide, _ := For("gpt-4o")
	if wide.Add("a" + strings.Repeat("é", MostBytes)); wide.rest != MostBytes+2 || wide.bytes != MostBytes-1 {
		t.Errorf("%d bytes were counted and %d not: a character was cut", wide.bytes, wide.rest)
	}
}

// A text that is cut at spaces has as many tokens as the whole.
func TestPiecesOfWords(t *testing.T) {
	lines := "func main() {\n\tfmt.Println(\"hello\", 42) // It's said that 2 + 2 = 4…\n\n\n    return\n}\r\n\r\n  \r\n"
	for _, model := range []string{"gpt-4o", "gpt-4"} {
		pieces, _ := For(model)
		whole := pieces
		text := strings.Repeat(lines, 40)
		pieces.add(text, 24)
		whole.add(text, len(text))
		if pieces.Tokens() != whole.Tokens() {
			t.Errorf("%s: %d tokens in pieces of 24 bytes, %d in one", model, pieces.Tokens(), whole.Tokens())
		}
	}
}

// A text in pieces has as many tokens as the whole, but for those that a cut within a word adds.
func FuzzAdd(f *testing.F) {
	for _, text := range hostile {
		f.Add(text, byte(16))
		f.Add(strings.Repeat(text, 100), byte(100))
	}
	f.Fuzz(func(t *testing.T, text string, size byte) {
		if len(text) > MostBytes/8 {
			return
		}
		for _, model := range []string{"gpt-4o", "gpt-4"} {
			pieces, _ := For(model)
			whole, naive := pieces, pieces
			forced := cuts(text, int(size)+8)
			pieces.add(text, int(size)+8)
			whole.add(text, max(len(text), 1))
			if slow := strings.Count(text, "\n") + strings.Count(text, "\r"); slow < 100 {
				n, err := naive.vocabulary().Count(text)
				if err != nil || int64(n) != whole.Tokens() {
					t.Errorf("%s: %q has %d tokens where it is not cut, %v; want %d", model, text, n, err, whole.Tokens())
				}
			}
			if off := pieces.Tokens() - whole.Tokens(); max(off, -off) > 4*forced {
				t.Errorf("%s: %q has %d tokens in pieces, with %d cuts within words, want about %d", model, text, pieces.Tokens(), forced, whole.Tokens())
			}
			if utf8.ValidString(text) && whole.Tokens() > int64(len(text)) {
				t.Errorf("%s: %q has %d tokens, more than bytes", model, text, whole.Tokens())
			}
		}
	})
}

// cuts returns how many pieces of a text don't end where a token ends in any case.
func cuts(text string, size int) (forced int64) {
	for text != "" {
		at := cut(text, size)
		atWord := at < len(text) && text[at] == ' ' && text[at-1] > ' '
		atLine := at < len(text) && isBreak(text[at-1]) && !isBreak(text[at]) && beginsWithSpace(text[at:])
		if at < len(text) && !atWord && !atLine {
			forced++
		}
		text = text[at:]
	}
	return forced
}

// hostile are texts for which a tokenizer may take long.
var hostile = []string{
	"a", "ab", "A", "aA", "Ab", "é", "É", "0", " ", "\t", "\n", " \n", "\t\r", " \r\n", "\n\u00a0", "\u2028\n", "  \n\n x", "'", "'s", "'S", "'ſ", "//", "/\n", ".\n ",
	"漢", "👍", "👩‍👩‍👧‍👦", "\u0301", "a\u0301", "ǅ", "ʰ", "٣", "\xff", "\xe6\x97", "\xf0\x9f", "\x00", "<|endoftext|>", "\ufffd", "x y", "1a", "_", "=", "-",
}

func TestAddGrowsLinearly(t *testing.T) {
	inputs := []growth.Input{random("random bytes", 256, 0), random("random letters", 26, 'a'), random("random capitals", 26, 'A')}
	for _, unit := range hostile {
		inputs = append(inputs, growth.Repeat(unit, "", unit, ""), growth.Repeat(unit+" and a word", "", unit, "x"))
	}
	growth.Linear(t, growth.EachText(inputs, func(text string) {
		for _, model := range []string{"gpt-4o", "gpt-4"} {
			c, _ := For(model)
			c.Add(text)
		}
	})...)
}

// random returns an input of random bytes, of so many kinds from the first one on.
func random(name string, kinds int, first byte) growth.Input {
	return growth.Input{Name: name, Make: func(n int) []byte {
		r := rand.New(rand.NewPCG(1, 2))
		text := make([]byte, n)
		for i := range text {
			text[i] = first + byte(r.IntN(kinds))
		}
		return text
	}}
}

func TestForGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(append(growth.Around("gpt-4o", growth.Text, ""), growth.Text...), func(text string) { _, _ = For(text) })...)
}
