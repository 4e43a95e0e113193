// Package pricelist reads a list of prices that a community keeps for many hosts, and compares it with the price table. The
// list has the form of LiteLLM's model_prices_and_context_window.json: an object with an entry for each model of each
// host, in USD per token. People write it, so that a wrong unit or an absent field is usual: an entry that can't be
// right is reported and never used. Command "gateway prices import" writes what remains as rows of the price table.
package pricelist

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/modelid"
	"switchyard.dev/services/platform/jsoncheck"
)

// MaxSize is the largest list in bytes.
const MaxSize = 32 << 20

// sample is the entry that documents the form; it has texts where numbers belong.
const sample = "sample_spec"

// List is a parsed list. It is immutable.
type List struct {
	// Hash is the SHA-256 of the list in hexadecimal: the list itself has neither a version nor a date.
	Hash string

	entries    []*entry
	hosts      map[string]bool
	byName     map[place][]*entry
	byIdentity map[string][]*entry
	byFamily   map[string][]*entry
}

// place is a host and what it calls a model or a model's identity.
type place struct{ host, name string }

// maxFamily bounds the entries of one model that are compared with each other.
const maxFamily = 64

// Parse reads a list. Entries that can't be used are kept with the reason.
func Parse(text []byte) (*List, error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("price list: more than %d bytes", MaxSize)
	}
	if rule := jsoncheck.ObjectRule(text); rule != "" {
		return nil, errors.New("price list: " + rule)
	}
	sum := sha256.Sum256(text)
	l := &List{
		Hash: hex.EncodeToString(sum[:]), hosts: make(map[string]bool),
		byName: make(map[place][]*entry), byIdentity: make(map[string][]*entry), byFamily: make(map[string][]*entry),
	}
	seen := make(map[string]*entry)
	gjson.ParseBytes(text).ForEach(func(key, value gjson.Result) bool {
		if key.Str == sample || !value.IsObject() {
			return true
		}
		if twice := seen[key.Str]; twice != nil {
			twice.problem = "is listed twice"
			return true
		}
		e := newEntry(key.Str, value)
		seen[e.key] = e
		l.entries = append(l.entries, e)
		return true
	})
	slices.SortFunc(l.entries, func(a, b *entry) int { return cmp.Compare(a.key, b.key) })
	for _, e := range l.entries {
		l.index(e)
	}
	if len(l.entries) == 0 {
		return nil, errors.New("price list: holds no models")
	}
	return l, nil
}

// index makes an entry known by its names.
func (l *List) index(e *entry) {
	l.hosts[e.host] = true
	at := place{e.host, e.name}
	l.byName[at] = append(l.byName[at], e)
	if e.identity != "" {
		l.byIdentity[e.identity] = append(l.byIdentity[e.identity], e)
	}
	if family := familyOf(e.name, e.identity); len(l.byFamily[family]) < maxFamily && e.problem == "" {
		l.byFamily[family] = append(l.byFamily[family], e)
	}
}

// familyOf returns what the entries of one model at all hosts have in common: its identity, or else the last part of its
// name. It serves to find implausible prices only.
func familyOf(name, known string) string {
	if known != "" {
		return known
	}
	_, rest := modelid.SplitProfile(name)
	return strings.ToLower(rest[strings.LastIndexByte(rest, '/')+1:])
}
