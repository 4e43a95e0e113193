// Package postgres implements the stores of the domain packages in the schema gateway: ledger and feed, spend and
// reservations, runs, credentials, approvals, trust, audit, routing overrides, traces, probes and replica reports. The
// SQL is in queries and copy; internal/app wires it.
package postgres
