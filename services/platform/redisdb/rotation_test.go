package redisdb_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// A rotation needs no restart, whether the old password ends before the file has the new one or after that.
func TestNewConnectionsFollowTheFile(t *testing.T) {
	t.Parallel()
	const first, second, third = "canary-first", "canary-second", "canary-third"
	operator := testkit.Redis(t)
	user, address := operator.Prefix, operator.Options().Addr
	acl := func(args ...any) {
		t.Helper()
		err := operator.Do(t.Context(), append([]any{"ACL"}, args...)...).Err()
		if err != nil && strings.Contains(err.Error(), "unknown command") {
			t.Skip("this server, such as miniredis, has no users")
		} else if err != nil {
			t.Fatal(err)
		}
	}
	acl("SETUSER", user, "on", "+@all", "~*", ">"+first)
	defer acl("DELUSER", user)

	path := filepath.Join(t.TempDir(), "url")
	write := func(password, server string) {
		testkit.WriteFile(t, path, "redis://"+user+":"+password+"@"+server)
	}
	var lines testkit.Buffer
	write(first, address)
	client, err := redisdb.Open(t.Context(), redisdb.Options{URLFile: secret.File(path), Log: slog.New(slog.NewTextHandler(&lines, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	reconnect := func() error {
		t.Helper()
		if err := operator.Do(t.Context(), "CLIENT", "KILL", "USER", user).Err(); err != nil {
			t.Fatal(err)
		}
		_ = client.Ping(t.Context()).Err() // The first command after it may meet a connection that has just ended.
		return client.Ping(t.Context()).Err()
	}
	check := func(step string) {
		t.Helper()
		if err := reconnect(); err != nil {
			t.Errorf("%s: %v", step, err)
		}
	}
	check("at first")

	acl("SETUSER", user, ">"+second)
	write(second, address)
	check("while both passwords work")
	acl("SETUSER", user, "<"+first)
	check("with the second password alone")

	acl("SETUSER", user, "resetpass", ">"+third)
	if err := reconnect(); err == nil {
		t.Error("connected with a password that has ended")
	}
	write(third, address)
	check("with the third password")

	testkit.WriteFile(t, path, "not a URL")
	check("with a malformed URL")
	write(third, "127.0.0.1:1")
	check("with the URL of another server")
	if got := lines.String(); !strings.Contains(got, "invalid Redis URL") || !strings.Contains(got, "another server or database") {
		t.Errorf("the log lacks what is wrong: %s", got)
	}
	for _, password := range []string{first, second, third} {
		testkit.NoLeak(t, password, lines.String())
	}
}
