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
	"maps"
	"net/url"
	"reflect"
	"strings"

	"github.com/caarlos0/env/v11"
)

// Load sets the fields of the struct that into points to from the variables of environ that begin with prefix+"_".
// environ has the form of os.Environ, "NAME=value" each. An empty variable counts as not set. If every setting that
// is set could be read, Load calls into's Validate() error, if it exists.
//
// The error joins all problems, one line each with the full name of the variable. A variable with the prefix that is
// not a setting is a problem too.
func Load(prefix string, into any, environ []string) error {
	known := settings(prefix, into)
	vars := environment(prefix, environ)
	unknownErrs := unknown(prefix, known, vars)
	maps.DeleteFunc(vars, func(_, value string) bool { return value == "" })
	var errs []error
	readable := true
	for _, s := range known {
		if err := s.load(vars); err != nil {
			readable = readable && errors.Is(err, errUnset)
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	if v, ok := into.(interface{ Validate() error }); ok && readable {
		errs = append(errs, v.Validate())
	}
	return errors.Join(append(errs, unknownErrs...)...)
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

// reason removes the library's wrapping, which names fields and types.
func reason(err error) error {
	if all, ok := errors.AsType[env.AggregateError](err); ok && len(all.Errors) == 1 {
		err = all.Errors[0]
	}
	if parse, ok := errors.AsType[env.ParseError](err); ok {
		return parse.Err
	}
	if _, ok := errors.AsType[env.VarIsNotSetError](err); ok {
		return errUnset
	}
	return err
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
