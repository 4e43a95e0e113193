package console

import (
	"testing"
	"time"
)

// A session is extended by an hour from its last use, within its eight hours, and written at most once a minute.
func TestExtension(t *testing.T) {
	begin := time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	at := begin.Add
	for name, tt := range map[string]struct {
		idleAt, now, want time.Duration
		extend            bool
	}{
		"at once":           {time.Hour, time.Second, time.Hour + time.Second, false},
		"after a minute":    {time.Hour, time.Minute, time.Hour + time.Minute, true},
		"shortly before":    {time.Hour, 59 * time.Minute, time.Hour + 59*time.Minute, true},
		"near its end":      {7*time.Hour + 59*time.Minute + 59*time.Second, 7*time.Hour + 30*time.Minute, 8 * time.Hour, true},
		"in its last hour":  {8 * time.Hour, 7*time.Hour + 30*time.Minute, 8 * time.Hour, false},
		"at its last hours": {7*time.Hour + 10*time.Minute, 6*time.Hour + 30*time.Minute, 7*time.Hour + 30*time.Minute, true},
	} {
		got, extend := extension(&Session{IdleAt: at(tt.idleAt), EndsAt: at(8 * time.Hour)}, at(tt.now))
		if !got.Equal(at(tt.want)) || extend != tt.extend {
			t.Errorf("%s: %v, %v, want %v, %v", name, got.Sub(begin), extend, tt.want, tt.extend)
		}
	}
}
