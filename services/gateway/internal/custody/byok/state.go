package byok

import (
	"time"

	"switchyard.dev/services/platform/apierr"
)

// event is an event in the life of a configuration.
type event string

const (
	eventPut        event = "put"
	eventRotate     event = "rotate"
	eventTransfer   event = "transfer"
	eventDeactivate event = "deactivate"
	eventPurge      event = "purge"
)

// transitions holds all valid transitions: by status and event, the status after.
var transitions = map[Status]map[event]Status{
	StatusAbsent: {eventPut: StatusActive},
	StatusActive: {
		eventPut: StatusActive, eventRotate: StatusActive, eventTransfer: StatusActive,
		eventDeactivate: StatusDeactivated, eventPurge: StatusErased,
	},
	StatusDeactivated: {eventPut: StatusActive, eventPurge: StatusErased},
	StatusErased:      {eventPut: StatusActive},
}

// Terms are the conditions that come with a credential.
type Terms struct {
	// Owner is empty to keep the owner; a new configuration requires one.
	Owner string
	// ExpiresAt is zero if it is unknown.
	ExpiresAt time.Time
	// RotationDays is nil to keep the rule.
	RotationDays *int
}

// Put creates the configuration, replaces it, or activates it again. created reports that there was none.
func (c Config) Put(credential Credential, terms Terms, now time.Time) (next Config, created bool, err error) {
	next, err = c.step(eventPut, now)
	if err != nil {
		return c, false, err
	}
	if c.Status == StatusAbsent || c.Status == StatusErased {
		next = Config{
			Organization: c.Organization, Provider: c.Provider, Status: next.Status,
			CreatedAt: now, UpdatedAt: now,
		}
		created = true
	} else {
		next.RotatedAt = now
	}
	next.RotationDays = 0 // Put sets the whole configuration: what is not given is unset.
	next.replace(credential, terms)
	return next, created, nil
}

// Rotate replaces the credential of an active configuration.
func (c Config) Rotate(credential Credential, terms Terms, now time.Time) (Config, error) {
	next, err := c.step(eventRotate, now)
	if err != nil {
		return c, err
	}
	next.RotatedAt = now
	next.replace(credential, terms)
	return next, nil
}

func (c *Config) replace(credential Credential, terms Terms) {
	c.Credential, c.ExpiresAt = credential, terms.ExpiresAt
	c.Version++
	if terms.Owner != "" {
		c.Owner = terms.Owner
	}
	if terms.RotationDays != nil {
		c.RotationDays = *terms.RotationDays
	}
}

// Transfer changes the owner of an active configuration.
func (c Config) Transfer(owner string, now time.Time) (Config, error) {
	next, err := c.step(eventTransfer, now)
	switch {
	case err != nil:
		return c, err
	case owner == c.Owner:
		return c, apierr.New(apierr.KindConflict, apierr.ReasonConflict, "owner_principal: owns the configuration already")
	}
	next.PreviousOwner, next.Owner, next.TransferredAt = c.Owner, owner, now
	return next, nil
}

// Deactivate takes an active configuration out of use. The credential stays.
func (c Config) Deactivate(now time.Time) (Config, error) { return c.step(eventDeactivate, now) }

// Purge erases the credential permanently.
func (c Config) Purge(now time.Time) (Config, error) {
	next, err := c.step(eventPurge, now)
	if err == nil {
		next.Credential = Credential{}
	}
	return next, err
}

// step makes the transition of an event. The error is ErrNone if the event is not valid in this status.
func (c Config) step(e event, now time.Time) (Config, error) {
	status, ok := transitions[c.Status][e]
	if !ok {
		return c, ErrNone
	}
	c.Status, c.UpdatedAt = status, now
	return c, nil
}
