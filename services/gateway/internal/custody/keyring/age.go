package keyring

import (
	"cmp"
	"os"
	"slices"
	"time"

	"switchyard.dev/services/platform/secret"
)

// Age is since when one of the fleet's keys has been in its file.
type Age struct {
	// Provider and Credential name the key as the policy does; Credential is empty for the only one.
	Provider, Credential string
	Fingerprint          string
	// SetAt is when the file last changed, which may be later than the key: files are made anew for containers.
	SetAt time.Time
}

// Ages returns the ages of the fleet's keys that can be read, by provider and name. Identities renew themselves and have
// none.
func (k *Keyring) Ages() (ages []Age) {
	for name, p := range k.fleet {
		for _, m := range p.members {
			if m.Identity != nil {
				continue
			}
			info, err := os.Stat(m.File)
			if err != nil {
				continue // Resolve reports it.
			}
			key, err := secret.File(m.File).Read()
			if err != nil {
				continue
			}
			ages = append(ages, Age{name, m.Name, k.Fingerprint(key), info.ModTime()})
		}
	}
	slices.SortFunc(ages, func(a, b Age) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Credential, b.Credential))
	})
	return ages
}
