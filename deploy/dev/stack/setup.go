package stack

import (
	"context"
	"fmt"
	"io/fs"
	"os"
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
