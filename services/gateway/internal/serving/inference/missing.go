package inference

import (
	"errors"
	"slices"

	"switchyard.dev/services/gateway/internal/custody/keyring"
)

// maxMissing bounds how many missing keys of a request are named.
const maxMissing = 4

// missingKeys are the first keys that the candidates of a request lack, each of another file.
type missingKeys []*keyring.MissingError

// add adds what a missing key's error names.
func (m *missingKeys) add(err error) {
	found, ok := errors.AsType[*keyring.MissingError](err)
	if !ok || len(*m) == maxMissing || slices.ContainsFunc(*m, func(e *keyring.MissingError) bool { return e.File == found.File }) {
		return
	}
	*m = append(*m, found)
}

// refuse returns the error of a request without candidates. Only its cause, which is for the log, names the keys.
func (m missingKeys) refuse() error {
	if len(m) == 0 {
		return errMissingKeys
	}
	errs := make([]error, len(m))
	for i, e := range m {
		errs[i] = e
	}
	return errMissingKeys.Wrap(errors.Join(errs...))
}
