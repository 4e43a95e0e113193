// Package status answers "is it us or the vendor". Each replica reports once a second what it observes of itself and of
// the providers; the verdicts are pure functions of all replicas' reports. The package also lists what the gateway
// depends on and what happens without each dependency. Package api shows all of it; internal/redis and
// internal/postgres store the reports.
package status

import (
	"time"
)

// Report is what a replica reports of itself and of each provider that it called.
type Report struct {
	Replica string `json:"replica"`
	// Address is the host and address that the replica listens on. Another live replica with the same address has replaced
	// it; otherwise each rollout would look like an outage.
	Address string `json:"place"`
	Version string `json:"version"`
	// Policy is the version of the policy in force: the hash of its files.
	Policy string `json:"policy,omitempty"`
	// Ledger is the mode of the replica's ledger: what its answers wait for.
	Ledger    string    `json:"ledger_mode,omitempty"`
	StartedAt time.Time `json:"started_at"`
	// Ready reports whether the replica takes requests, Draining whether it is stopping. Problems are short codes of
	// what is wrong.
	Ready    bool             `json:"ready"`
	Draining bool             `json:"draining"`
	Problems []string         `json:"problems,omitempty"`
	Vendors  []ProviderReport `json:"vendors,omitempty"`
	// Since holds the statuses that the replica has determined, by what they are of.
	Since map[string]Mark `json:"since,omitempty"`

	// Age of the report, by the clock of the store.
	Age time.Duration `json:"-"`
}

// Mark is a status and when it began.
type Mark struct {
	Status string    `json:"status"`
	Since  time.Time `json:"since"`
}

// ProviderReport is what one replica observed of a provider, with the fleet's credentials.
type ProviderReport struct {
	Provider string `json:"provider"`
	// Attempts and Failures (the provider's fault) of the last five minutes, and of the last minute.
	Attempts       int `json:"attempts,omitempty"`
	Failures       int `json:"failures,omitempty"`
	RecentAttempts int `json:"recent_attempts,omitempty"`
	RecentFailures int `json:"recent_failures,omitempty"`
	// Circuits is how many circuits there are, Open how many of them are not closed.
	Circuits    int       `json:"circuits,omitempty"`
	Open        int       `json:"open,omitempty"`
	LastSuccess time.Time `json:"last_success,omitzero"`
	LastFailure time.Time `json:"last_failure,omitzero"`
	LastClass   string    `json:"last_class,omitempty"`
}

// State is the state of a provider, of the gateway or of a dependency.
type State string

// The states. Unknown means that there is no recent evidence.
const (
	Up       State = "up"
	Degraded State = "degraded"
	Down     State = "down"
	Unknown  State = "unknown"
	Draining State = "draining"
)

// Bounds of the verdicts.
const (
	// aliveFor is how long after its last report a replica counts as alive.
	aliveFor = 10 * time.Second
	// The fewest failures, and the fewest calls, that a verdict rests on.
	fewestFailures = 2
	fewestCalls    = 3
	// degradedShare is the share of failed calls from which a provider is degraded.
	degradedShare = 0.1
)

// Vendor is the verdict on one provider, from live traffic.
type Vendor struct {
	Provider string
	State    State
	Since    time.Time
	// Attempts that the verdict rests on, and the share of them that failed.
	Attempts                 int
	ErrorRate                float64
	LastClass                string
	LastSuccess, LastFailure time.Time
}

// judgeVendor returns the verdict on a provider from the reports of the live replicas.
func judgeVendor(provider string, reports []Report) Vendor {
	v := Vendor{Provider: provider}
	var recent, failed, calls, failures, voters, votes, open int
	for _, r := range reports {
		for _, s := range r.Vendors {
			if s.Provider != provider {
				continue
			}
			recent, failed = recent+s.RecentAttempts, failed+s.RecentFailures
			calls, failures = calls+s.Attempts, failures+s.Failures
			open += s.Open
			if s.Circuits > 0 {
				voters++
				if s.Open == s.Circuits {
					votes++
				}
			}
			if s.LastSuccess.After(v.LastSuccess) {
				v.LastSuccess = s.LastSuccess
			}
			if s.LastFailure.After(v.LastFailure) {
				v.LastFailure, v.LastClass = s.LastFailure, s.LastClass
			}
		}
	}
	if recent == 0 { // Nothing newer is known.
		recent, failed = calls, failures
	}
	v.Attempts = recent
	if recent > 0 {
		v.ErrorRate = float64(failed) / float64(recent)
	}
	switch {
	case votes > 0 && 2*votes >= voters, failed == recent && recent >= fewestCalls:
		v.State = Down
	case open > 0, failed >= fewestFailures && v.ErrorRate >= degradedShare:
		v.State = Degraded
	case recent == 0:
		v.State = Unknown
	default:
		v.State = Up
	}
	return v
}

// Replica is the verdict on one of the gateway's processes.
type Replica struct {
	ID, Version string
	Policy      string
	Ledger      string
	State       State
	Problems    []string
	StartedAt   time.Time
	LastSeen    time.Time
}

func judgeReplica(r Report, now time.Time) Replica {
	out := Replica{ID: r.Replica, Version: r.Version, Policy: r.Policy, Ledger: r.Ledger, Problems: r.Problems, StartedAt: r.StartedAt, LastSeen: now.Add(-r.Age)}
	switch {
	case r.Age > aliveFor:
		out.State, out.Problems = Down, []string{"no_sign_of_life"}
	case r.Draining:
		out.State = Draining
	case !r.Ready || len(r.Problems) > 0:
		out.State = Degraded
	default:
		out.State = Up
	}
	return out
}
