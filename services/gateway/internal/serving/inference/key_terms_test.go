package inference

import (
	"context"
	"errors"
	"testing"

	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/platform/apierr"
)

// keyModels returns a request of a key that may use models; none is any.
func keyModels(models ...string) *Request {
	r := request()
	r.KeyTerms = keyterm.Terms{Key: "k", Models: models}
	return r
}

// The models of a key and those of a run both hold, whether or not there is an Admission.
func TestModelsOfAKey(t *testing.T) {
	for name, tt := range map[string]struct {
		key, run []string
		refusal  error
	}{
		"any":                      {nil, nil, nil},
		"by name":                  {[]string{"x", "a-1"}, nil, nil},
		"by provider and name":     {[]string{"a/a-1"}, nil, nil},
		"by the vendor's name":     {[]string{"a-up"}, nil, nil},
		"only a substitute":        {[]string{"b-1"}, nil, errKeyModelNotAllowed},
		"none":                     {[]string{"x"}, nil, errKeyModelNotAllowed},
		"of both":                  {[]string{"a-1"}, []string{"a-1"}, nil},
		"of the key, not the run":  {[]string{"a-1"}, []string{"b-1"}, errModelNotAllowed},
		"of the run, not the key":  {[]string{"x"}, []string{"a-1"}, errKeyModelNotAllowed},
		"no limit of the run's":    {[]string{"x"}, []string{}, errKeyModelNotAllowed},
		"no limit of the key's":    {nil, []string{"a-1"}, nil},
		"of neither: the run says": {[]string{"x"}, []string{"x"}, errModelNotAllowed},
	} {
		for _, admits := range []bool{true, false} {
			if !admits && tt.run != nil {
				continue
			}
			b := setup(t, nil, &script{name: "a", answer: good}, &script{name: "b", answer: good})
			if admits {
				d := &fakeAdmission{}
				if tt.run != nil {
					d.terms.Run = authority(tt.run...)
				}
				b.Admission = d
			}
			_, err := b.Chat(t.Context(), keyModels(tt.key...))
			if !errors.Is(err, tt.refusal) || tt.refusal == nil && err != nil {
				t.Errorf("%s, with an admission %v: %v, want %v", name, admits, err, tt.refusal)
			}
			if calls, _ := b.scripts["a"].count(); (calls == 0) != (tt.refusal != nil) {
				t.Errorf("%s, with an admission %v: %d calls", name, admits, calls)
			}
		}
	}
}

// Failover never uses a model that the key may not use, in any operation.
func TestFailoverKeepsToTheKeysModels(t *testing.T) {
	for name, call := range every {
		b := setup(t, nil, &script{name: "a", steps: failing(apierr.ClassServerError, 500)}, &script{name: "b", answer: good})
		if err := call(t.Context(), b, keyModels("a-1")); err == nil {
			t.Errorf("%s: served by a model that the key may not use", name)
		}
		if calls, _ := b.scripts["b"].count(); calls != 0 {
			t.Errorf("%s: %d calls", name, calls)
		}
	}
}

// What is checked before it is made, counted or planned as a batch is checked by the key's models too.
func TestKeysModelsBeforeACall(t *testing.T) {
	b := setup(t, nil, &script{name: "a", answer: good})
	if err := b.Check(t.Context(), keyModels("x")); !errors.Is(err, errKeyModelNotAllowed) {
		t.Errorf("check: %v", err)
	}
	if err := b.Check(t.Context(), keyModels("a-1")); err != nil {
		t.Errorf("check of a model that it may use: %v", err)
	}
	if _, counted, err := b.CountTokens(t.Context(), keyModels("x")); counted || err != nil {
		t.Errorf("counted %v, %v", counted, err)
	}
}

// keySeen is an Admission that keeps the terms of the last request.
type keySeen struct {
	*fakeAdmission

	seen keyterm.Terms
}

func (k *keySeen) Admit(ctx context.Context, organization, id string, key keyterm.Terms) (admission.Grant, error) {
	k.seen = key
	return k.fakeAdmission.Admit(ctx, organization, id, key)
}

// The terms reach the admission of every operation, and the ledger row names the key under which they count.
func TestKeyTermsReachAdmissionAndLedger(t *testing.T) {
	for name, call := range every {
		b := setup(t, nil, fine())
		d := &keySeen{fakeAdmission: &fakeAdmission{}}
		b.Admission = d
		r := request()
		r.KeyTerms = keyterm.Terms{Key: "origin", Budget: keyterm.Budget{CeilingCents: 5, Period: organization.PeriodDay}}
		if err := call(t.Context(), b, r); err == nil && len(b.ledger.entries) != 1 {
			t.Errorf("%s: %d rows", name, len(b.ledger.entries))
		}
		if d.seen.Budget != r.KeyTerms.Budget || d.seen.Key != "origin" {
			t.Errorf("%s: admitted under %+v", name, d.seen)
		}
		for _, entry := range b.ledger.entries {
			if entry.KeyOrigin != "origin" {
				t.Errorf("%s: the row counts under %q", name, entry.KeyOrigin)
			}
		}
	}
}
