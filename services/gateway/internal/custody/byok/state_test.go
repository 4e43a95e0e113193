package byok

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Every status and every event.
func TestTransitions(t *testing.T) {
	want := map[Status]map[event]Status{
		StatusAbsent:      {eventPut: StatusActive},
		StatusActive:      {eventPut: StatusActive, eventRotate: StatusActive, eventTransfer: StatusActive, eventDeactivate: StatusDeactivated, eventPurge: StatusErased},
		StatusDeactivated: {eventPut: StatusActive, eventPurge: StatusErased},
		StatusErased:      {eventPut: StatusActive},
	}
	for _, status := range []Status{StatusAbsent, StatusActive, StatusDeactivated, StatusErased} {
		for _, e := range []event{eventPut, eventRotate, eventTransfer, eventDeactivate, eventPurge} {
			next, err := Config{Status: status}.step(e, begin)
			target, allowed := want[status][e]
			if !allowed {
				if !errors.Is(err, ErrNone) {
					t.Errorf("%q, %s: %v, want %v", status, e, err, ErrNone)
				}
				continue
			}
			if err != nil || next.Status != target {
				t.Errorf("%q, %s: %q, %v, want %q", status, e, next.Status, err, target)
			}
		}
	}
}

// In any order of events, only an active configuration serves, the version counts the credentials, and an erased
// credential is gone.
func TestConfigKeepsItsWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, at := Config{Organization: "acme", Provider: "openai"}, begin
		credentials := 0
		for range rapid.IntRange(1, 20).Draw(t, "events") {
			at = at.Add(time.Duration(rapid.IntRange(1, 1000).Draw(t, "hours")) * time.Hour)
			before := c
			secret := Credential{Custody: CustodySealed, KeyID: "k", Ciphertext: []byte{1}, Hint: "****abcd", Fingerprint: "f"}
			var err error
			var created bool
			e := rapid.SampledFrom([]event{eventPut, eventRotate, eventTransfer, eventDeactivate, eventPurge}).Draw(t, "event")
			switch e {
			case eventPut:
				c, created, err = c.Put(secret, Terms{Owner: "ada"}, at)
				if created {
					credentials = 0
				}
				credentials++
			case eventRotate:
				if c, err = c.Rotate(secret, Terms{}, at); err == nil {
					credentials++
				}
			case eventTransfer:
				c, err = c.Transfer(rapid.SampledFrom([]string{"ada", "bob"}).Draw(t, "owner"), at)
			case eventDeactivate:
				c, err = c.Deactivate(at)
			case eventPurge:
				c, err = c.Purge(at)
			}
			holds := c.Status == StatusActive || c.Status == StatusDeactivated
			switch {
			case err != nil && (c.Status != before.Status || c.Version != before.Version || !c.UpdatedAt.Equal(before.UpdatedAt)):
				t.Fatalf("%s failed and changed %+v to %+v", e, before, c)
			case holds != (c.Ciphertext != nil) || holds != (c.Fingerprint != ""):
				t.Fatalf("%q holds %+v", c.Status, c.Credential)
			case holds && (c.Version != credentials || c.Owner == "" || c.CreatedAt.IsZero()):
				t.Fatalf("%d credentials: %+v", credentials, c)
			case e == eventPut && created != (before.Status == StatusAbsent || before.Status == StatusErased):
				t.Fatalf("created %v from %q", created, before.Status)
			case created && (c.Version != 1 || !c.RotatedAt.IsZero() || !c.CreatedAt.Equal(at) || c.PreviousOwner != ""):
				t.Fatalf("a new configuration has a past: %+v", c)
			}
		}
	})
}

func TestStaleness(t *testing.T) {
	day := 24 * time.Hour
	for name, test := range map[string]struct {
		config Config
		at     time.Time
		want   []Cause
	}{
		"new":                      {Config{CreatedAt: begin}, begin, nil},
		"unused, a moment before":  {Config{CreatedAt: begin}, begin.Add(90*day - 1), nil},
		"unused":                   {Config{CreatedAt: begin}, begin.Add(90 * day), []Cause{CauseUnused}},
		"used":                     {Config{CreatedAt: begin, LastUsedAt: begin.Add(day)}, begin.Add(91*day - 1), nil},
		"not used any more":        {Config{CreatedAt: begin, LastUsedAt: begin.Add(day)}, begin.Add(91 * day), []Cause{CauseUnused}},
		"rotated and not used yet": {Config{CreatedAt: begin, LastUsedAt: begin, RotatedAt: begin.Add(50 * day)}, begin.Add(100 * day), nil},
		"about to expire":          {Config{CreatedAt: begin, ExpiresAt: begin.Add(day)}, begin.Add(day - 1), nil},
		"expired":                  {Config{CreatedAt: begin, ExpiresAt: begin.Add(day)}, begin.Add(day), []Cause{CauseExpired}},
		"before its rotation":      {Config{CreatedAt: begin, RotationDays: 7}, begin.Add(7*day - 1), nil},
		"past its rotation":        {Config{CreatedAt: begin, RotationDays: 7}, begin.Add(7 * day), []Cause{CauseRotation}},
		"rotated in time":          {Config{CreatedAt: begin, RotatedAt: begin.Add(6 * day), RotationDays: 7}, begin.Add(13*day - 1), nil},
		"all at once": {
			Config{CreatedAt: begin, ExpiresAt: begin.Add(day), RotationDays: 7},
			begin.Add(90 * day),
			[]Cause{CauseExpired, CauseRotation, CauseUnused},
		},
	} {
		got := test.config.Staleness(test.at)
		if len(got) != len(test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
			continue
		}
		for i := range got {
			if got[i] != test.want[i] {
				t.Errorf("%s: %v, want %v", name, got, test.want)
			}
		}
	}
}

func TestPutAndRotateTerms(t *testing.T) {
	days := 30
	c, _, err := Config{}.Put(Credential{}, Terms{Owner: "ada", RotationDays: &days, ExpiresAt: begin.Add(time.Hour)}, begin)
	if err != nil || c.RotationDays != 30 || c.ExpiresAt.IsZero() {
		t.Fatalf("%+v, %v", c, err)
	}
	// The rule and the owner stay, the expiry was the old credential's.
	if c, err = c.Rotate(Credential{}, Terms{}, begin); err != nil {
		t.Fatalf("rotate: %v", err)
	}
	if c.RotationDays != 30 || c.Owner != "ada" {
		t.Errorf("rotated: %d days and owner %q, want 30 and ada", c.RotationDays, c.Owner)
	}
	if !c.ExpiresAt.IsZero() {
		t.Errorf("rotated: expires at %v, want never", c.ExpiresAt)
	}
	if c, _, err = c.Put(Credential{}, Terms{Owner: "bob"}, begin); err != nil || c.RotationDays != 0 || c.Owner != "bob" {
		t.Errorf("put: %+v, %v", c, err)
	}
	if _, err := c.Transfer("bob", begin); err == nil || errors.Is(err, ErrNone) {
		t.Errorf("transfer to the owner: %v", err)
	}
}
