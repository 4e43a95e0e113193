package identity

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
	"weak"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/platform/fairshare"
	"switchyard.dev/services/platform/secret"
)

// Options are the options of a Manager.
type Options struct {
	// Open returns the source of a complete configuration; see package identity/cloud.
	Open func(Config) (Source, error)
	// Fingerprint hashes what identities are called; see keyring.NewFingerprint.
	Fingerprint func(secret.Value) string
	Log         *slog.Logger
	// Meter may be nil: then nothing is measured.
	Meter metric.Meter
}

// Manager holds the identities of one replica, each once, and renews their credentials. Safe for concurrent use.
type Manager struct {
	Options

	exchanges metric.Int64Counter
	// wake makes Run look again for what is due.
	wake chan struct{}
	// fleetTurns bounds concurrent renewals of the fleet's identities; turns bounds them for organizations' identities.
	fleetTurns, turns *fairshare.Pool

	mu sync.Mutex
	// identities are those that something still holds. The Manager doesn't: when a policy goes, its identities go.
	identities map[key]weak.Pointer[Identity]
}

// NewManager returns a Manager without identities.
func NewManager(o Options) (*Manager, error) {
	m := &Manager{Options: o, wake: make(chan struct{}, 1), identities: make(map[key]weak.Pointer[Identity])}
	m.fleetTurns, m.turns = fairshare.New(renewers, 100), fairshare.New(renewers, renewerShare)
	if o.Meter == nil {
		return m, nil
	}
	return m, m.measure()
}

func (m *Manager) measure() error {
	var errs [3]error
	m.exchanges, errs[0] = m.Meter.Int64Counter("switchyard.gateway.identity.exchanges",
		metric.WithDescription("Exchanges of identities for credentials, by kind and outcome: granted or failed."))
	_, errs[1] = m.Meter.Int64ObservableGauge("switchyard.gateway.identity.failing",
		metric.WithDescription("Identities whose last exchange failed, by kind."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			for kind, n := range m.failing() {
				o.Observe(n, metric.WithAttributes(attribute.String("kind", kind)))
			}
			return nil
		}))
	_, errs[2] = m.Meter.Float64ObservableGauge("switchyard.gateway.identity.left", metric.WithUnit("s"),
		metric.WithDescription("The time until the first credential of the fleet's identities ends, by kind; 0 if one has ended."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			for kind, left := range m.left(time.Now()) {
				o.Observe(left.Seconds(), metric.WithAttributes(attribute.String("kind", kind)))
			}
			return nil
		}))
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("instruments: %w", err)
	}
	return nil
}

// kinds are those of which the metrics say how many fail. KindOAuth is none: a tool server's status says so to who
// registered it, and it pages no operator.
var kinds = []string{"aws", "gcp", "azure", "oidc"}

func (m *Manager) failing() map[string]int64 {
	n := make(map[string]int64)
	for _, kind := range kinds {
		n[kind] = 0
	}
	for _, i := range m.all() {
		if i.kind != KindOAuth && i.Status().Failures > 0 {
			n[i.kind]++
		}
	}
	return n
}

func (m *Manager) left(now time.Time) map[string]time.Duration {
	left := make(map[string]time.Duration)
	for _, i := range m.all() {
		g := i.present.Load()
		if !i.warm || g != nil && g.expires.IsZero() {
			continue
		}
		var of time.Duration
		if g != nil {
			of = max(0, g.expires.Sub(now))
		}
		if least, ok := left[i.kind]; !ok || of < least {
			left[i.kind] = of
		}
	}
	return left
}

// The sources of credentials, as package keyring calls them.
const (
	ownerFleet = "fleet"
	ownerOwn   = "byok"
	// ownerTools is of no provider: package keyring doesn't see it.
	ownerTools = "tools"
)

// Fleet returns the fleet's identity of a complete configuration; the same one for the same configuration, so that a
// reload of the policy keeps its credential. Run exchanges it at once, and renews it for as long as something holds it.
func (m *Manager) Fleet(c Config) (*Identity, error) { return m.identity(c, ownerFleet, true) }

// Own returns the identity that an organization brings. It is exchanged when it is used first, and renewed until it has
// not been used for an hour.
func (m *Manager) Own(c Config) (*Identity, error) { return m.identity(c, ownerOwn, false) }

// KindOAuth is the kind of identities that are no cloud's: clients of OAuth at tool servers.
const KindOAuth = "oauth"

// Client returns the identity of an organization's OAuth client, which exchanges source. While something holds the
// identity, the same name returns the same one. It is exchanged and renewed like the identities of Own.
func (m *Manager) Client(organization, name string, source Source) *Identity {
	k := key(sha256.Sum256([]byte(KindOAuth + "\x00" + name)))
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.identities[k].Value(); i != nil {
		return i
	}
	i := &Identity{
		manager: m, kind: KindOAuth, source: source, owner: ownerTools, organization: organization,
		fingerprint: m.Fingerprint(secret.New(name)),
	}
	m.identities[k] = weak.Make(i)
	return i
}

func (m *Manager) identity(c Config, owner string, warm bool) (*Identity, error) {
	k, err := c.key(owner)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.identities[k].Value(); i != nil {
		return i, nil
	}
	source, err := m.Open(c)
	if err != nil {
		return nil, err
	}
	i := newIdentity(m, c, source, owner, warm)
	if owner == ownerOwn {
		// Each has its own share: an organization has few of them, and clouds run the token servers.
		i.organization = i.fingerprint
	}
	m.identities[k] = weak.Make(i)
	m.look()
	return i, nil
}

// all returns the identities that something holds, and forgets the others.
func (m *Manager) all() []*Identity {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := make([]*Identity, 0, len(m.identities))
	for k, pointer := range m.identities {
		if i := pointer.Value(); i != nil {
			held = append(held, i)
		} else {
			delete(m.identities, k)
		}
	}
	return held
}

// look makes Run look for what is due.
func (m *Manager) look() {
	select {
	case m.wake <- struct{}{}:
	default: // It will look anyway.
	}
}

func (m *Manager) count(ctx context.Context, kind, outcome string) {
	if m.exchanges != nil {
		m.exchanges.Add(ctx, 1, metric.WithAttributes(attribute.String("kind", kind), attribute.String("outcome", outcome)))
	}
}
