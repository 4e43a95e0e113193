package main

import (
	"context"
	"errors"
	"os"

	"switchyard.dev/deploy/dev/stack"
)

// nonroot is the user id of the services' images.
const nonroot = 65532

// runSetup prepares the stores of SWITCHYARD_DATABASE_URL and SWITCHYARD_REDIS_URL, writes the services' secrets into
// the first folder and, as root, gives all folders to the services' user.
func runSetup(ctx context.Context, dirs []string) error {
	database, redis := os.Getenv("SWITCHYARD_DATABASE_URL"), os.Getenv("SWITCHYARD_REDIS_URL")
	if database == "" || redis == "" {
		return errors.New("setup: set SWITCHYARD_DATABASE_URL (an administrator's) and SWITCHYARD_REDIS_URL")
	}
	if err := stack.Setup(ctx, dirs[0], database, redis); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return nil
	}
	return stack.Give(nonroot, dirs...)
}
