package token

import (
	"strings"
	"testing"
)

// BenchmarkAdd counts 10 kB.
func BenchmarkAdd(b *testing.B) {
	const size = 10_000
	letters := random("", 26, 'a').Make(size)
	for name, text := range map[string]string{
		"words":   strings.Repeat("The quick brown fox jumps over the lazy dog. ", size/45),
		"code":    strings.Repeat("\tif err != nil {\n\t\treturn nil, err\n\t}\n", size/38),
		"letters": string(letters),
		"quotes":  strings.Repeat("'", size),
		"breaks":  strings.Repeat(" \n", size/2),
	} {
		for _, model := range []string{"gpt-4o", "gpt-4"} {
			b.Run(name+"/"+model, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					c, _ := For(model)
					c.Add(text)
				}
			})
		}
	}
}

// BenchmarkFor is what each stream pays.
func BenchmarkFor(b *testing.B) {
	for _, model := range []string{"gpt-4o-mini", "claude-opus-5"} {
		b.Run(model, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = For(model, model)
			}
		})
	}
}
