// Package config owns how a service reads its settings: environment variables
// under the service's own prefix into one struct, every error at once, and the
// two views an operator needs of them. Each service's app package calls it.
//
// A setting is an exported field with tags:
//
//	Grace time.Duration `env:"DRAIN_GRACE" envDefault:"25s" doc:"time for the drain steps"`
//
// The name is given without the service's prefix. `env:"NAME,required"` has no
// default. A struct field without an env tag is a group; its envPrefix tag, if
// any, comes before the names within. Secrets are never settings: a setting
// holds the path of their file (secret.File).
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

// Load fills the struct that into points to from environ ("NAME=value" each,
// as os.Environ gives them), taking the variables that begin with prefix+"_".
// An empty variable counts as not set. Then it calls into's Validate() error,
// if there is one and every setting could be read.
//
// The error joins all that is wrong, one line each with the full name of the
// variable. A variable under the prefix that is no setting is wrong too.
func Load(prefix string, into any, environ []string) error {
	known := settings(prefix, into)
	vars := environment(prefix, environ)
	strangers := unknown(prefix, known, vars)
	maps.DeleteFunc(vars, func(_, value string) bool { return value == "" })
	var errs []error
	for _, s := range known {
		if err := s.load(vars); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	if v, ok := into.(interface{ Validate() error }); ok && len(errs) == 0 {
		errs = append(errs, v.Validate())
	}
	return errors.Join(append(errs, strangers...)...)
}

// load parses the setting on its own, so that an error can be given the name
// of its variable: the library knows only the field's.
func (s setting) load(vars map[string]string) error {
	alone := reflect.New(reflect.StructOf([]reflect.StructField{{
		Name: s.field.Name, Type: s.field.Type, Tag: s.field.Tag,
	}}))
	alone.Elem().Field(0).Set(s.value)
	err := env.ParseWithOptions(alone.Interface(), env.Options{
		Environment: vars,
		Prefix:      s.prefix,
		FuncMap:     map[reflect.Type]env.ParserFunc{reflect.TypeFor[url.URL](): parseURL},
	})
	if err != nil {
		return reason(err)
	}
	s.value.Set(alone.Elem().Field(0))
	return nil
}

// reason takes off the library's frame, which speaks of fields and types.
func reason(err error) error {
	if all, ok := errors.AsType[env.AggregateError](err); ok && len(all.Errors) == 1 {
		err = all.Errors[0]
	}
	if parse, ok := errors.AsType[env.ParseError](err); ok {
		return parse.Err
	}
	if _, ok := errors.AsType[env.VarIsNotSetError](err); ok {
		return errors.New("required, but not set")
	}
	return err
}

// parseURL takes absolute URLs. Its error does not repeat the text, which may
// hold a password.
func parseURL(text string) (any, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return nil, errors.New("want an absolute URL: scheme://host[:port][/path]")
	}
	return *u, nil
}

// environment gives the variables under the prefix.
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
