package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"switchyard.dev/deploy/dev/stack"
)

// nonroot is the user id of the services' images.
const nonroot = 65532

// runClusterSetup prepares the database of SWITCHYARD_DATABASE_URL for the cluster that a file describes, keeps its secrets
// in a folder, and prints them for `kubectl apply -f -`.
func runClusterSetup(ctx context.Context, file, dir string) error {
	database := os.Getenv("SWITCHYARD_DATABASE_URL")
	if database == "" {
		return errors.New("setup: set SWITCHYARD_DATABASE_URL (an administrator's, as this machine reaches the server)")
	}
	cluster, err := stack.ReadCluster(file)
	if err != nil {
		return fmt.Errorf("setup: %w", err)
	}
	if err := stack.SetupCluster(ctx, dir, database, cluster, os.Stdout); err != nil {
		return fmt.Errorf("setup: %w", err)
	}
	fmt.Fprintln(os.Stderr, "roles and schemas are made; keep", dir, "(an operator's token is in its file operator-token)")
	return nil
}

// printSecret prints a secret that setup has made in dir, as a line. Images have no other program to show one.
func printSecret(out io.Writer, dir, name string) error {
	folder, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	defer func() { _ = folder.Close() }()
	text, err := folder.ReadFile(name)
	if err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	_, err = fmt.Fprintln(out, strings.TrimSpace(string(text)))
	return err
}

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
