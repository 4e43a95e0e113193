// Package bounded reads files that settings and flags name, without taking more memory than a file of its kind needs: a
// path may name a device without an end, or the wrong file.
package bounded

import (
	"fmt"
	"io"
	"os"
)

// MaxFile bounds a file of settings, such as a policy, tokens or certificates, in bytes. Documents of YAML take some 15
// times their size in memory while they are read.
const MaxFile = 8 << 20

// ReadFile returns the content of a file of at most so many bytes. Pipes and devices are read until they end or exceed
// the bound. The error names the path, and the bound if the file is larger.
func ReadFile(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > most {
		return nil, fmt.Errorf("%s: larger than %d bytes", path, most)
	}
	return text, nil
}
