package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"switchyard.dev/services/platform/apierr"
)

// A database that is away is for the caller to retry; whatever it said, the
// caller does not read it.
func TestFailure(t *testing.T) {
	tests := map[string]struct {
		err    error
		kind   apierr.Kind
		reason apierr.Reason
	}{
		"shut down":     {&pgconn.PgError{Code: "57P01", Message: "canary"}, apierr.KindUnavailable, apierr.ReasonUnavailable},
		"full":          {&pgconn.PgError{Code: "53300", Message: "canary"}, apierr.KindUnavailable, apierr.ReasonUnavailable},
		"bad statement": {&pgconn.PgError{Code: "42601", Message: "canary"}, apierr.KindInternal, apierr.ReasonInternal},
		"the domain's":  {apierr.NotFound("notification"), apierr.KindNotFound, apierr.ReasonNotFound},
		"anything else": {errors.New("canary"), apierr.KindInternal, apierr.ReasonInternal},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := failure("list inbox", tt.err)
			shown := apierr.From(err)
			if shown.Kind != tt.kind || shown.Reason != tt.reason || strings.Contains(shown.Text, "canary") {
				t.Errorf("shown = %v %q %q", shown.Kind, shown.Reason, shown.Text)
			}
			if !errors.Is(err, tt.err) || !strings.HasPrefix(err.Error(), "list inbox: ") {
				t.Errorf("error = %v, want the operation and its cause", err)
			}
		})
	}
	if err := failure("list inbox", nil); err != nil {
		t.Errorf("failure of nothing = %v", err)
	}
}
