package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Verdict is the answer to "us or the vendor".
type Verdict string

// The verdicts. A problem of the gateway itself has precedence over the vendors'.
const (
	Operational     Verdict = "operational"
	GatewayDegraded Verdict = "gateway_degraded"
	GatewayDown     Verdict = "gateway_down"
	VendorDegraded  Verdict = "vendor_degraded"
	VendorDown      Verdict = "vendor_down"
)

// Fleet is the verdict on all replicas and all vendors at a moment.
type Fleet struct {
	Verdict         Verdict
	Gateway, Vendor State
	Since           time.Time
	// Summary is one sentence that says what the verdict rests on.
	Summary  string
	Replicas []Replica
	Vendors  []Vendor
	At       time.Time
}

// Judge returns the verdict from the replicas' reports on the configured providers. The caller sets the Since times.
func Judge(reports []Report, providers []string, now time.Time) Fleet {
	f := Fleet{At: now}
	var live []Report
	ready := 0
	for _, r := range reports {
		f.Replicas = append(f.Replicas, judgeReplica(r, now))
		if r.Age <= aliveFor {
			live = append(live, r)
			if r.Ready && !r.Draining {
				ready++
			}
		}
	}
	slices.SortFunc(f.Replicas, func(a, b Replica) int { return cmp.Compare(a.ID, b.ID) })
	for _, provider := range providers {
		f.Vendors = append(f.Vendors, judgeVendor(provider, live))
	}
	slices.SortFunc(f.Vendors, func(a, b Vendor) int { return cmp.Compare(a.Provider, b.Provider) })
	f.Gateway, f.Vendor = judgeGateway(f.Replicas, ready), judgeVendors(f.Vendors)
	switch {
	case f.Gateway == Down:
		f.Verdict = GatewayDown
	case f.Gateway == Degraded:
		f.Verdict = GatewayDegraded
	case f.Vendor == Down:
		f.Verdict = VendorDown
	case f.Vendor == Degraded:
		f.Verdict = VendorDegraded
	default:
		f.Verdict = Operational
	}
	f.Summary = f.summary()
	return f
}

// judgeGateway returns Down if no replica takes requests.
func judgeGateway(replicas []Replica, ready int) State {
	if ready == 0 {
		return Down
	}
	for _, r := range replicas {
		if r.State == Degraded || r.State == Down {
			return Degraded
		}
	}
	return Up
}

// judgeVendors returns the state of the vendors with recent evidence.
func judgeVendors(vendors []Vendor) State {
	known, down, well := 0, 0, 0
	for _, v := range vendors {
		switch v.State {
		case Unknown:
			continue
		case Down:
			down++
		case Up:
			well++
		case Degraded, Draining:
		}
		known++
	}
	switch {
	case known == 0:
		return Unknown
	case down == known:
		return Down
	case well == known:
		return Up
	}
	return Degraded
}

// maxNamed bounds how many of each kind the summary names.
const maxNamed = 5

func (f *Fleet) summary() string {
	up := 0
	policies := make(map[string]bool)
	var troubled, failing, slow []string
	for _, r := range f.Replicas {
		if r.State != Down && r.Policy != "" {
			policies[r.Policy] = true
		}
		if r.State == Up {
			up++
		} else {
			troubled = append(troubled, strings.TrimSpace(fmt.Sprintf("%s %s %s", short(r.ID), r.State, strings.Join(r.Problems, " "))))
		}
	}
	for _, v := range f.Vendors {
		text := fmt.Sprintf("%s (%d of %d calls failed)", v.Provider, int(v.ErrorRate*float64(v.Attempts)+0.5), v.Attempts)
		switch v.State {
		case Down:
			failing = append(failing, text)
		case Degraded:
			slow = append(slow, text)
		case Up, Unknown, Draining:
		}
	}
	parts := []string{fmt.Sprintf("%d of %d replicas are healthy", up, len(f.Replicas))}
	for _, part := range []struct {
		what string
		list []string
	}{{"", troubled}, {"down: ", failing}, {"degraded: ", slow}} {
		if n := len(part.list); n > maxNamed {
			part.list = append(part.list[:maxNamed], fmt.Sprintf("%d more", n-maxNamed))
		}
		if len(part.list) > 0 {
			parts = append(parts, part.what+strings.Join(part.list, ", "))
		}
	}
	if n := len(policies); n > 1 {
		parts = append(parts, fmt.Sprintf("%d versions of the policy are in force", n))
	}
	if len(failing)+len(slow) == 0 {
		parts = append(parts, map[State]string{Unknown: "no provider was called recently"}[f.Vendor])
		if f.Vendor != Unknown {
			parts[len(parts)-1] = "every provider that was called recently answers"
		}
	}
	return strings.Join(parts, "; ") + "."
}

func short(id string) string { return id[:min(len(id), 8)] }
