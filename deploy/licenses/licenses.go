// Command licenses checks the licences of all Go modules that the repository's packages and tests use: the text that
// each package's module ships has to be one of a list. It reads the module cache and needs no network.
//
//	licenses         prints a table: module, version, licences, and which of the services' programs have it in them
//	licenses texts   prints the texts of the licences of what is in the services' programs, which is shipped with them
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	modules, err := list(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range modules {
		errs = append(errs, m.read())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	switch {
	case len(arguments) == 0:
		goModules, tableErr := table(modules)
		packages, npmErr := npm("deploy/clients/package-lock.json", "deploy/webpush/package-lock.json", "deploy/examples/typescript/package-lock.json")
		fmt.Print(goModules, packages)
		return errors.Join(tableErr, npmErr, check(modules))
	case len(arguments) == 1 && arguments[0] == "texts":
		fmt.Print(texts(modules))
		return check(modules)
	}
	return errors.New("usage: licenses [texts]")
}
