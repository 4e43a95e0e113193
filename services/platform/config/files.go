package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"switchyard.dev/services/platform/secret"
)

// CheckFiles checks the files and folders that settings name: those whose names end with _FILE or _DIR. loaders has the
// checks by name without prefix, which are called for settings that are not empty. A setting without one is checked to
// name a folder or a file that can be read, which has content if it is a secret's. The error joins all problems, each
// with the name of its setting.
func CheckFiles(prefix string, cfg any, loaders map[string]func() error) error {
	var errs []error
	for _, s := range settings(prefix, cfg) {
		if !s.namesFile() || s.value.Kind() != reflect.String || s.value.String() == "" {
			continue
		}
		load, ok := loaders[strings.TrimPrefix(s.name, prefix+"_")]
		if !ok {
			load = s.readable
		}
		if err := load(); err != nil {
			errs = append(errs, named(s.name, err))
		}
	}
	return errors.Join(errs...)
}

// named returns a problem with the name of its setting, unless it has it.
func named(name string, err error) error {
	if strings.HasPrefix(err.Error(), name+": ") {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// namesFile reports whether the setting's value is the path of a file or a folder.
func (s setting) namesFile() bool {
	return strings.HasSuffix(s.name, "_FILE") || s.namesFolder()
}

func (s setting) namesFolder() bool { return strings.HasSuffix(s.name, "_DIR") }

// readable checks that the setting names a folder or a file that can be read.
func (s setting) readable() error {
	if file, ok := reflect.TypeAssert[secret.File](s.value); ok {
		_, err := file.Read()
		return err
	}
	path := s.value.String()
	info, err := os.Stat(path) // Opening a pipe would wait for a writer.
	switch {
	case err != nil:
		return err
	case s.namesFolder() && !info.IsDir():
		return fmt.Errorf("%s: want a folder", path)
	case !s.namesFolder() && !info.Mode().IsRegular():
		return fmt.Errorf("%s: want a file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if s.namesFolder() {
		if _, err := file.ReadDir(1); !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// Required returns the names of the settings of cfg that have no default and must be set. One that is required in some
// configurations only (the tag required) is followed by when.
func Required(prefix string, cfg any) (all []string) {
	for _, s := range settings(prefix, cfg) {
		switch {
		case s.required:
			all = append(all, s.name)
		case s.when != "":
			all = append(all, s.name+" ("+s.when+")")
		}
	}
	return all
}
