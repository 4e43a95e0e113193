// Package config reads a service's settings from environment variables with the service's prefix into one struct. It
// reports all errors at once, and renders the two views that operators need: the effective configuration and the
// reference table. Each service's app package calls it.
//
// A setting is an exported field with tags:
//
//	Grace time.Duration `env:"DRAIN_GRACE" envDefault:"25s" doc:"time for the drain steps"`
//
// The name is given without the service's prefix. `env:"NAME,required"` has no default. A tag such as
// `required:"by serve"` says when a setting is required that isn't always; Validate checks it. A struct field without an
// env tag is a group; its envPrefix tag, if any, precedes the names in it. Settings never hold secrets; a setting holds
// the path of a secret's file (secret.File).
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// Load sets the fields of the struct that into points to from the variables of environ that begin with prefix+"_".
// environ has the form of os.Environ, "NAME=value" each. An empty variable counts as not set. A setting that can't be
// read gets its default, so that Load can call into's Validate() error, if it exists, in any case.
//
// The error joins all problems, one line each with the full name of the variable. A variable with the prefix that is
// not a setting is a problem too. Further checks of the settings that were loaded go through Further.
func Load(prefix string, into any, environ []string) error {
	known := settings(prefix, into)
	vars := environment(prefix, environ)
	unknownErrs := unknown(prefix, known, vars)
	maps.DeleteFunc(vars, func(_, value string) bool { return value == "" })
	var errs []error
	var unread []string
	for _, s := range known {
		if err := s.load(vars); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
			unread = append(unread, s.name)
			s.reset()
		}
	}
	if v, ok := into.(interface{ Validate() error }); ok {
		errs = append(errs, apart(unread, v.Validate()))
	}
	err := errors.Join(append(errs, unknownErrs...)...)
	if len(unread) == 0 {
		return err
	}
	return &unreadError{err, unread}
}

// unreadError is an error of Load with the names of the settings that have no value of their own.
type unreadError struct {
	error
	names []string
}

func (e *unreadError) Unwrap() error { return e.error }

// Further returns what a check of settings found, without the lines about those that Load, which returned the error
// loaded, has already named as unreadable or not set: a check sees their defaults.
func Further(loaded, found error) error {
	if e, ok := errors.AsType[*unreadError](loaded); ok {
		return apart(e.names, found)
	}
	return found
}

// word matches what may be the name of a setting.
var word = regexp.MustCompile(`[A-Z0-9_]+`)

// apart returns an error without the lines that name one of the settings.
func apart(names []string, err error) error {
	if err == nil || len(names) == 0 {
		return err
	}
	var errs []error
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !slices.ContainsFunc(word.FindAllString(line, -1), func(w string) bool { return slices.Contains(names, w) }) {
			errs = append(errs, errors.New(line))
		}
	}
	return errors.Join(errs...)
}

var errUnset = errors.New("required, but not set")

// load parses the setting on its own, so that its error can name the variable: the library's errors name only the
// field.
func (s setting) load(vars map[string]string) error {
	wrapper := reflect.New(reflect.StructOf([]reflect.StructField{{
		Name: s.field.Name, Type: s.field.Type, Tag: s.field.Tag,
	}}))
	wrapper.Elem().Field(0).Set(s.value)
	err := env.ParseWithOptions(wrapper.Interface(), env.Options{
		Environment: vars,
		Prefix:      s.prefix,
		FuncMap:     map[reflect.Type]env.ParserFunc{reflect.TypeFor[url.URL](): parseURL},
	})
	if err != nil {
		return reason(err)
	}
	s.value.Set(wrapper.Elem().Field(0))
	return nil
}

// reset gives the setting its default.
func (s setting) reset() {
	s.value.SetZero()
	_ = s.load(nil) // Without a default the zero value stays.
}

// reason removes the library's wrapping, which names fields and types, and says of simple types what is wanted: the
// errors below repeat the value, which may be a secret in the wrong variable.
func reason(err error) error {
	if all, ok := errors.AsType[env.AggregateError](err); ok && len(all.Errors) == 1 {
		err = all.Errors[0]
	}
	if parse, ok := errors.AsType[env.ParseError](err); ok {
		if want := wanted(parse.Type); want != "" && errors.Is(parse.Err, strconv.ErrRange) {
			return errors.New(want + "; this one is out of range")
		} else if want != "" {
			return errors.New(want)
		}
		return parse.Err
	}
	if _, ok := errors.AsType[env.VarIsNotSetError](err); ok {
		return errUnset
	}
	return err
}

// wanted says what values of a simple type are; it is empty for types that say so themselves.
func wanted(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "want a duration such as 30s or 5m"
	case reflect.TypeFor[slog.Level]():
		return "want debug, info, warn or error"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "want true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "want a whole number"
	case reflect.Float32, reflect.Float64:
		return "want a number"
	default:
		return ""
	}
}

// parseURL accepts absolute URLs. Its error does not repeat the text, which may contain a password.
func parseURL(text string) (any, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return nil, errors.New("want an absolute URL: scheme://host[:port][/path]")
	}
	return *u, nil
}

// environment returns the variables with the prefix.
func environment(prefix string, environ []string) map[string]string {
	vars := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, prefix+"_") {
			vars[name] = value
		}
	}
	return vars
}
