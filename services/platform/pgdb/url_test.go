package pgdb_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/pgdb"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// rotation is a pool whose URL is in a file, and the operator who rotates its role.
type rotation struct {
	operator, pool *pgxpool.Pool
	base           string // the operator's URL
	path           string // of the pool's file
	log            testkit.Buffer
}

func newRotation(t *testing.T, role, password string) *rotation {
	t.Helper()
	base := testkit.PostgresURL(t, nil)
	r := &rotation{operator: testkit.Pool(t, pgdb.Options{URL: base}), base: base, path: filepath.Join(t.TempDir(), "url")}
	t.Cleanup(func() {
		_, err := r.operator.Exec(context.WithoutCancel(t.Context()), "DROP ROLE IF EXISTS "+role+", "+role+"_b")
		if err != nil {
			t.Error(err)
		}
	})
	r.exec(t, "CREATE ROLE "+role+" LOGIN PASSWORD '"+password+"'")
	r.write(t, role, password)
	r.pool = testkit.Pool(t, pgdb.Options{
		URLFile: secret.File(r.path), MaxConns: 2, ApplicationName: role, Log: slog.New(slog.NewTextHandler(&r.log, nil)),
	})
	return r
}

func (r *rotation) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := r.operator.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// write replaces the user and the password in the pool's file.
func (r *rotation) write(t *testing.T, user, password string) {
	t.Helper()
	u, err := url.Parse(r.base)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, password)
	testkit.WriteFile(t, r.path, u.String()+"\n")
}

// user ends the pool's connections, and returns as whom it connects, and in which role.
func (r *rotation) user(t *testing.T) (names string, err error) {
	t.Helper()
	name := r.pool.Config().ConnConfig.RuntimeParams["application_name"]
	r.exec(t, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = '"+name+"'")
	err = r.pool.QueryRow(t.Context(), "SELECT session_user || ' as ' || current_user").Scan(&names)
	return names, err
}

// A rotation of password or user needs no restart: new connections use what the file holds by then.
func TestNewConnectionsFollowTheFile(t *testing.T) {
	t.Parallel()
	const first, second = "canary-first", "canary-second"
	role := "t_" + strings.ToLower(rand.Text())
	r := newRotation(t, role, first)
	check := func(step, want string) {
		t.Helper()
		if got, err := r.user(t); got != want || err != nil {
			t.Errorf("%s: connected as %q, %v; want %q", step, got, err, want)
		}
	}
	check("at first", role+" as "+role)

	r.exec(t, "ALTER ROLE "+role+" PASSWORD '"+second+"'")
	if _, err := r.user(t); err == nil {
		t.Error("connected with the old password")
	}
	r.write(t, role, second)
	check("with the new password", role+" as "+role)

	r.exec(t, "CREATE ROLE "+role+"_b LOGIN PASSWORD '"+first+"' IN ROLE "+role)
	r.exec(t, "ALTER ROLE "+role+"_b SET role = "+role)
	asFirst := role + "_b as " + role
	r.write(t, role+"_b", first)
	check("as the second role", asFirst)
	withdraw, err := newAnnouncer(t, r.pool, "ledger").Announce(t.Context())
	if err != nil {
		t.Fatalf("the pool of an announcer: %v", err)
	}
	withdraw()

	testkit.WriteFile(t, r.path, "postgres://"+role+":"+second+"@localhost:port")
	check("with a malformed URL", asFirst)
	testkit.WriteFile(t, r.path, withParam(t, r.base, "dbname", "elsewhere"))
	check("with the URL of another database", asFirst)
	for _, want := range []string{"secret file changed", "invalid Postgres URL", "another server or database"} {
		if strings.Count(r.log.String(), want) == 0 {
			t.Errorf("the log lacks %q: %s", want, r.log.String())
		}
	}
	testkit.NoLeak(t, first, r.log.String())
	testkit.NoLeak(t, second, r.log.String())
}
