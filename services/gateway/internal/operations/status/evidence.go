// Package status answers "is it us or the vendor". Each replica says once a
// second what it sees of itself and of the providers; the verdicts are pure
// functions of what all replicas say. It also knows what the gateway depends on
// and what happens without. Package api shows it, internal/redis and
// internal/postgres carry what replicas say.
package status

import (
	"time"
)

// Report is what a replica says: of itself, and of each provider that it called.
type Report struct {
	Replica string `json:"replica"`
	// Place is the host and address that it listens on: another replica there has
	// taken its place.
	Place   string `json:"place"`
	Version string `json:"version"`
	// Policy in force, by the hash of its files.
	Policy    string    `json:"policy,omitempty"`
	StartedAt time.Time `json:"started_at"`
	// Ready tells that it takes requests, Draining that it is stopping. Problems are
	// short codes of what is wrong.
	Ready    bool             `json:"ready"`
	Draining bool             `json:"draining"`
	Problems []string         `json:"problems,omitempty"`
	Vendors  []ProviderReport `json:"vendors,omitempty"`
	// Since are the verdicts that it has come to, by what they are of.
	Since map[string]Mark `json:"since,omitempty"`

	// Age of the report, by the clock of where it was found.
	Age time.Duration `json:"-"`
}

// Mark is a status and since when it holds.
type Mark struct {
	Status string    `json:"status"`
	Since  time.Time `json:"since"`
}

// ProviderReport is what one replica saw of a provider, with the fleet's credentials.
type ProviderReport struct {
	Provider string `json:"provider"`
	// Attempts and Failures (the provider's fault) of the last five minutes, and of
	// the last minute.
	Attempts       int `json:"attempts,omitempty"`
	Failures       int `json:"failures,omitempty"`
	RecentAttempts int `json:"recent_attempts,omitempty"`
	RecentFailures int `json:"recent_failures,omitempty"`
	// Circuits there are, Open of them not closed.
	Circuits    int       `json:"circuits,omitempty"`
	Open        int       `json:"open,omitempty"`
	LastSuccess time.Time `json:"last_success,omitzero"`
	LastFailure time.Time `json:"last_failure,omitzero"`
	LastClass   string    `json:"last_class,omitempty"`
}

// State of a provider, of the gateway or of a dependency.
type State string

// The states. Unknown is without recent evidence.
const (
	Up       State = "up"
	Degraded State = "degraded"
	Down     State = "down"
	Unknown  State = "unknown"
	Draining State = "draining"
)

// Bounds of the verdicts.
const (
	// aliveFor is after how long a replica is taken for gone.
	aliveFor = 10 * time.Second
	// fewest failures, or calls, that tell something.
	fewestFailures = 2
	fewestCalls    = 3
	// degradedShare of failed calls is more than bad luck.
	degradedShare = 0.1
)

// Vendor is one provider, judged by live traffic.
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

// judgeVendor adds up what the live replicas saw.
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

// Replica is one of the gateway's processes.
type Replica struct {
	ID, Version string
	Policy      string
	State       State
	Problems    []string
	StartedAt   time.Time
	LastSeen    time.Time
}

func judgeReplica(r Report, now time.Time) Replica {
	out := Replica{ID: r.Replica, Version: r.Version, Policy: r.Policy, Problems: r.Problems, StartedAt: r.StartedAt, LastSeen: now.Add(-r.Age)}
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
