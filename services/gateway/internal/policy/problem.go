package policy

import (
	"errors"
	"fmt"
)

// failures are the errors of independent parts of the files.
type failures []error

// add adds an error, each of those that it joins, with a path before it; nil adds nothing.
func (f *failures) add(path string, err error) {
	if err != nil {
		*f = append(*f, flat(prefix(path+": ", err))...)
	}
}

// err returns the errors joined, or nil if there are none.
func (f failures) err() error { return errors.Join(f...) }

// prefix returns an error with a text before it, and before each of those that it joins; nil for nil.
func prefix(text string, err error) error {
	if err == nil {
		return nil
	}
	all := flat(err)
	for i := range all {
		all[i] = fmt.Errorf("%s%w", text, all[i])
	}
	return errors.Join(all...)
}

// flat returns the errors that an error joins, or the error itself.
func flat(err error) []error {
	// An error that wraps one that joins is one error: the text before it belongs to all.
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, each := range joined.Unwrap() {
		all = append(all, flat(each)...)
	}
	return all
}

// placeOf returns the file that has a provider of the policy, and its index there.
func (doc *document) placeOf(i int) (file string, at int) {
	if at, further := doc.extra[doc.Providers[i].Name]; further {
		return doc.extraName, at
	}
	return doc.name, i
}
