package event

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"switchyard.dev/services/platform/lifecycle"
)

const (
	// credentialsEvery is the interval at which refused credentials are recorded, rotationsEvery that at which the ages of
	// credentials are compared.
	credentialsEvery, rotationsEvery = 2 * time.Second, 10 * time.Minute
	// maxFailing bounds the failing credentials that a replica watches, rotationPage the configurations of a statement.
	maxFailing, rotationPage = 4096, 500
)

// Credential names a credential for a provider.
type Credential struct {
	// Organization is empty for a credential of the operator.
	Organization string
	Provider     string
	// Name in the provider's pool; empty for the only one, and for an organization's.
	Name string
}

// Refused is a credential that its provider refuses with an HTTP status.
type Refused struct {
	Credential

	Status int
}

// Taken is a failing credential that its provider has taken for a call that began at a time.
type Taken struct {
	Credential

	Begun time.Time
}

// Key is a key of the operator, and since when it is known to be in use.
type Key struct {
	Provider, Name, Fingerprint string
	SetAt                       time.Time
}

// CredentialStore records what happens to credentials, with an event for what is new.
type CredentialStore interface {
	// Refuse records credentials that are refused.
	Refuse(ctx context.Context, refused []Refused) error
	// Recover records failing credentials that were taken.
	Recover(ctx context.Context, taken []Taken) error
	// Failing returns at most limit credentials that fail, the latest first.
	Failing(ctx context.Context, limit int) ([]Credential, error)
	// Age records keys, and reports those that are older than so many days; none if it is 0.
	Age(ctx context.Context, keys []Key, days int) error
	// ReportRotations reports the organizations' credentials that are due by their own rule: at most limit of them behind
	// another one. It returns the last one, and how many there were.
	ReportRotations(ctx context.Context, after Credential, limit int) (last Credential, reported int, err error)
	// Forget forgets the credentials that no replica has met for 30 days.
	Forget(ctx context.Context) error
}

// Calls is what calls show of credentials on this replica.
type Calls interface {
	// Take returns the credentials that were found to fail since it was called last, and those watched that were taken.
	Take() ([]Refused, []Taken)
	// Watch sets the credentials that are known to fail.
	Watch(failing []Credential)
}

// Credentials reports credentials that providers refuse, and those that are due for rotation. Every replica runs one; what
// they find at the same time is one event.
type Credentials struct {
	store CredentialStore
	calls Calls
	keys  func() []Key
	// rotationDays is the age at which the operator's keys are due; 0 for never.
	rotationDays int
	log          *slog.Logger
}

// NewCredentials returns a Credentials that does nothing until it runs. keys returns the operator's keys; they are due
// after rotationDays, or never if it is 0.
func NewCredentials(store CredentialStore, calls Calls, keys func() []Key, rotationDays int, log *slog.Logger) *Credentials {
	return &Credentials{store, calls, keys, rotationDays, log}
}

// RunFailing records refused credentials until ctx ends. It is a part of the service's lifecycle.
func (c *Credentials) RunFailing(ctx context.Context) error {
	return lifecycle.Repeat{Every: credentialsEvery, Log: c.log, Name: "events of credentials", Do: c.fail}.Run(ctx)
}

func (c *Credentials) fail(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	refused, taken := c.calls.Take()
	if len(refused) > 0 {
		if err := c.store.Refuse(ctx, refused); err != nil {
			return err
		}
	}
	if len(taken) > 0 {
		if err := c.store.Recover(ctx, taken); err != nil {
			return err
		}
	}
	failing, err := c.store.Failing(ctx, maxFailing)
	if err != nil {
		return err
	}
	c.calls.Watch(failing)
	return nil
}

// RunRotations reports credentials that are due for rotation, at once and then every ten minutes until ctx ends. It is a
// part of the service's lifecycle.
func (c *Credentials) RunRotations(ctx context.Context) error {
	first := make(chan struct{}, 1)
	first <- struct{}{}
	return lifecycle.Repeat{Every: rotationsEvery, Wake: first, Log: c.log, Name: "events of rotations", Do: c.rotate}.Run(ctx)
}

func (c *Credentials) rotate(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	var after Credential
	return errors.Join(c.store.Forget(bounded), c.age(bounded),
		lifecycle.UntilDone(ctx, rotationPage, storeTime, func(ctx context.Context, limit int) (reported int, err error) {
			after, reported, err = c.store.ReportRotations(ctx, after, limit)
			return reported, err
		}))
}

func (c *Credentials) age(ctx context.Context) error {
	keys := c.keys()
	if len(keys) == 0 {
		return nil
	}
	return c.store.Age(ctx, keys, c.rotationDays)
}
