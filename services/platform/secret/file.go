package secret

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"switchyard.dev/services/platform/bounded"
)

// maxFileBytes is the maximum size of a secret file.
const maxFileBytes = 1 << 20

// File is the path of a file that contains a secret. The path itself may be printed.
type File string

// UnmarshalText sets the path. It refuses a text that looks like the secret itself (a URL, or text with control
// characters), because paths are printed. The error does not repeat the text.
func (f *File) UnmarshalText(text []byte) error {
	path := string(text)
	if strings.Contains(path, "://") || strings.ContainsFunc(path, unicode.IsControl) {
		return errors.New("want the path of a file that holds the secret, not the secret")
	}
	*f = File(path)
	return nil
}

// Read returns the file's content without its trailing newlines. A file that is missing, blank or larger than 1 MiB is
// an error that names the path.
func (f File) Read() (Value, error) {
	text, err := f.read()
	if err != nil {
		return Value{}, err
	}
	return New(strings.TrimRight(text, "\r\n")), nil
}

// Lines returns each non-blank line as a secret, in order. A file has several lines while a secret is being rotated.
// The errors are those of Read.
func (f File) Lines() ([]Value, error) {
	text, err := f.read()
	if err != nil {
		return nil, err
	}
	var values []Value
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			values = append(values, New(strings.TrimRight(line, "\r\n")))
		}
	}
	return values, nil
}

func (f File) read() (string, error) {
	if f == "" {
		return "", errors.New("secret: no file is set")
	}
	content, err := bounded.ReadFile(string(f), maxFileBytes)
	switch {
	case err != nil:
		return "", fmt.Errorf("secret: %w", err)
	case strings.TrimSpace(string(content)) == "":
		return "", fmt.Errorf("secret: file %s is empty", f)
	}
	return string(content), nil
}
