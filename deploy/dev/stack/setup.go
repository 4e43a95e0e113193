package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Setup prepares servers that run elsewhere, such as in containers: it creates the secrets in dir and, on the
// database of the administrator's URL, the role and schema of each service. A second run changes nothing.
func Setup(ctx context.Context, dir, databaseURL, redisURL string) error {
	v, err := openVault(dir)
	if err != nil {
		return fmt.Errorf("make the folder of the secrets: %w", err)
	}
	if _, err := makeSecrets(v); err != nil {
		return err
	}
	return v.provision(ctx, databaseURL, redisURL)
}

// Give changes the owner of folders and all that is in them to a user, who is to read what Setup wrote. Only root
// can.
func Give(uid int, dirs ...string) error {
	for _, dir := range dirs {
		if err := give(uid, dir); err != nil {
			return fmt.Errorf("hand %s over: %w", dir, err)
		}
	}
	return nil
}

func give(uid int, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return root.Lchown(path, uid, uid)
	})
}

// provision creates the roles and writes the URLs at which each service reaches the stores.
func (v vault) provision(ctx context.Context, administrator, redis string) error {
	passwords := map[string]string{}
	for _, service := range Services {
		password, err := v.once(databasePassword(service), newToken)
		if err != nil {
			return err
		}
		passwords[service.schema()] = password
	}
	urls, err := provision(ctx, administrator, passwords)
	if err != nil {
		return err
	}
	for _, service := range Services {
		if err := v.write(databaseURL(service), urls[service.schema()]); err != nil {
			return err
		}
	}
	return v.write(redisURL, redis)
}

// refuseForeign returns an error if the server has a service's role whose password is not in the folder: the setup of
// another folder made it, and a new password would end the services that use it.
func (v vault) refuseForeign(ctx context.Context, administrator string) error {
	lacking := make(map[string]string)
	for _, service := range Services {
		if _, err := os.Stat(v.path(databasePassword(service))); errors.Is(err, os.ErrNotExist) {
			lacking[service.schema()] = v.path(databasePassword(service))
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	conn, err := pgx.Connect(ctx, administrator)
	if err != nil {
		return fmt.Errorf("connect to look for roles: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var role string
	err = conn.QueryRow(ctx, "SELECT rolname FROM pg_catalog.pg_roles WHERE rolname = ANY($1) ORDER BY 1 LIMIT 1",
		slices.Sorted(maps.Keys(lacking))).Scan(&role)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for roles: %w", err)
	}
	return fmt.Errorf("the role %s exists, and %s doesn't: name the folder of the first setup, or write the role's password into that file", role, lacking[role])
}
