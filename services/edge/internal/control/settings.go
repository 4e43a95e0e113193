package control

import (
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/limit"
)

// Terms are the terms of a key as operators see them; null is none.
type Terms struct {
	TokensPerMinute *int64         `json:"tpm"`
	Models          []string       `json:"models"`
	Budget          *apikey.Budget `json:"budget"`
	Class           *apikey.Class  `json:"class"`
}

func newTerms(t apikey.Terms) Terms {
	return Terms{TokensPerMinute: orNil(t.TokensPerMinute), Models: t.Models, Budget: orNil(t.Budget), Class: orNil(t.Class)}
}

// orNil returns nil for a zero value.
func orNil[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// orZero is the inverse of orNil.
func orZero[T any](value *T) (v T) {
	if value != nil {
		v = *value
	}
	return v
}

// terms returns the terms of a request. It refuses a limit of 0, which could be meant as none or as nothing at all, and
// models that look like keys.
func (t Terms) terms() (apikey.Terms, error) {
	switch {
	case t.TokensPerMinute != nil && *t.TokensPerMinute == 0:
		return apikey.Terms{}, apikey.ErrTokensPerMinute
	case t.Budget != nil && *t.Budget == apikey.Budget{}:
		return apikey.Terms{}, apikey.ErrCeiling
	}
	for _, name := range t.Models {
		if err := identifiers("models", name); err != nil {
			return apikey.Terms{}, err
		}
	}
	return apikey.Terms{
		TokensPerMinute: orZero(t.TokensPerMinute), Models: t.Models, Budget: orZero(t.Budget), Class: orZero(t.Class),
	}, nil
}

// settings are what can be changed of a key; null and absent are none. Requests don't embed it, since errors would name
// it in the path of a field.
type settings struct {
	Name            string         `json:"name"`
	ExpiresAt       *time.Time     `json:"expires_at"`
	RateLimit       *RateLimit     `json:"rate_limit"`
	TokensPerMinute *int64         `json:"tpm"`
	Models          []string       `json:"models"`
	Budget          *apikey.Budget `json:"budget"`
	Class           *apikey.Class  `json:"class"`
}

// read returns the rate limit and the terms in the form of the domain.
func (s settings) read() (limit.Limit, apikey.Terms, error) {
	if err := identifiers("name", s.Name); err != nil {
		return limit.Limit{}, apikey.Terms{}, err
	}
	bound, err := s.RateLimit.limit()
	if err != nil {
		return limit.Limit{}, apikey.Terms{}, err
	}
	terms, err := Terms{s.TokensPerMinute, s.Models, s.Budget, s.Class}.terms()
	return bound, terms, err
}

// replacement returns the update that makes these the settings of a key.
func (s settings) replacement() (apikey.Update, error) {
	bound, terms, err := s.read()
	return apikey.Update{
		Name: &s.Name, ExpiresAt: &s.ExpiresAt, Limit: &bound,
		TokensPerMinute: &terms.TokensPerMinute, Models: &terms.Models, Budget: &terms.Budget, Class: &terms.Class,
	}, err
}

// change is a change of some settings of a key: absent leaves one as it is, null removes it.
type change struct {
	Name            *string              `json:"name"`
	ExpiresAt       maybe[time.Time]     `json:"expires_at"`
	RateLimit       maybe[RateLimit]     `json:"rate_limit"`
	TokensPerMinute maybe[int64]         `json:"tpm"`
	Models          maybe[[]string]      `json:"models"`
	Budget          maybe[apikey.Budget] `json:"budget"`
	Class           maybe[apikey.Class]  `json:"class"`
}

// update returns the update of a key.
func (c change) update() (apikey.Update, error) {
	all, err := settings{
		orZero(c.Name), c.ExpiresAt.value, c.RateLimit.value,
		c.TokensPerMinute.value, orZero(c.Models.value), c.Budget.value, c.Class.value,
	}.replacement()
	return apikey.Update{
		Name: c.Name, ExpiresAt: given(c.ExpiresAt, all.ExpiresAt), Limit: given(c.RateLimit, all.Limit),
		TokensPerMinute: given(c.TokensPerMinute, all.TokensPerMinute), Models: given(c.Models, all.Models),
		Budget: given(c.Budget, all.Budget), Class: given(c.Class, all.Class),
	}, err
}

// given returns the value of a field that is given, nil for one that is absent.
func given[F, V any](field maybe[F], value *V) *V {
	if !field.given {
		return nil
	}
	return value
}
