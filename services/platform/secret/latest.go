package secret

import (
	"context"
	"log/slog"
	"sync"
)

// Latest is what a secret file was last parsed to without an error, so that a file that is missing or wrong for a moment
// changes nothing. Safe for concurrent use.
type Latest[T any] struct {
	file  File
	log   *slog.Logger
	parse func(Value) (T, error)

	mu      sync.Mutex
	text    Value // that value was parsed from; zero before
	value   T
	problem string // the last error; "" if there was none
}

// NewLatest returns a Latest that reads a file at each Read. Its log says when another text is used, and what is wrong
// with one that isn't; errors of parse must not contain the secret.
func NewLatest[T any](file File, log *slog.Logger, parse func(Value) (T, error)) *Latest[T] {
	return &Latest[T]{file: file, log: log, parse: parse}
}

// Read reads and parses the file. Where that fails the value is the one before, and only without one an error.
func (l *Latest[T]) Read(ctx context.Context) (T, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text, value, err := l.read()
	first := l.text.IsZero()
	switch {
	case err != nil && first:
		return value, err
	case err != nil:
		if err.Error() != l.problem {
			l.log.WarnContext(ctx, "secret file can't be used, the text before stays in use", "file", string(l.file), "error", err)
		}
		l.problem = err.Error()
		return l.value, nil
	case !first && !text.Equal(l.text):
		l.log.InfoContext(ctx, "secret file changed", "file", string(l.file))
	}
	l.text, l.value, l.problem = text, value, ""
	return value, nil
}

func (l *Latest[T]) read() (text Value, value T, err error) {
	if text, err = l.file.Read(); err == nil {
		value, err = l.parse(text)
	}
	return text, value, err
}
