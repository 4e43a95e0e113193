package api_test

import (
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
	"switchyard.dev/services/platform/testkit"
)

// asOperator are the headers of an operator in no organization's place.
var asOperator = []string{"Authorization", "Bearer ops", "X-Organization-Id", ""}

type sendList struct {
	Sends []struct {
		ID           string `json:"notification_id"`
		Organization string `json:"organization_id"`
		Status       string `json:"status"`
		Channels     []struct {
			Channel   string  `json:"channel"`
			Status    string  `json:"status"`
			LastError *string `json:"last_error"`
		} `json:"channels"`
		Attempts []any     `json:"attempts"`
		Created  time.Time `json:"created_at"`
	} `json:"sends"`
	Next string `json:"next_cursor"`
}

// listSends returns the ids in a list, read page by page, and checks that each answer has the status 200.
func (b *bench) listSends(t *testing.T, query string, headers ...string) (ids []string) {
	t.Helper()
	for cursor := ""; ; {
		var page sendList
		b.do(t, "GET", "/v1/notifications/sends?"+query+"&cursor="+url.QueryEscape(cursor), "", headers...).into(t, 200, &page)
		for _, one := range page.Sends {
			ids = append(ids, one.ID)
		}
		if cursor = page.Next; cursor == "" {
			return ids
		}
	}
}

func TestListSends(t *testing.T) {
	b := setup(t)
	first := b.notifyUser(t, "ann", "one")
	second := b.notifyUser(t, "ann", "two", "X-Organization-Id", "other")
	third := b.notifyUser(t, "bob", "three")
	testkit.Exec(t, b.pool, `UPDATE channel_send SET status = 'failed', delivered_count = 0, failed_count = 1, last_error = 'rejected'
		WHERE notification_id = $1`, second)
	var page sendList
	b.do(t, "GET", "/v1/notifications/sends?all_organizations=true&status=failed", "", asOperator...).into(t, 200, &page)
	if len(page.Sends) != 1 || page.Next != "" {
		t.Fatalf("failed: %+v, want one in one page", page)
	}
	one := page.Sends[0]
	if one.ID != second || one.Organization != "other" || one.Status != "failed" || len(one.Attempts) != 0 || time.Since(one.Created) > time.Hour ||
		len(one.Channels) != 1 || one.Channels[0].Channel != "in_app" || one.Channels[0].Status != "failed" || *one.Channels[0].LastError != "rejected" {
		t.Errorf("the failed send is %+v", one)
	}
	now, every := url.QueryEscape(one.Created.Format(time.RFC3339Nano)), "all_organizations=true&limit=1"
	for query, want := range map[string][]string{
		every:                       {third, second, first},
		every + "&status=delivered": {third, first},
		every + "&status=delivered&status=failed": {third, second, first},
		every + "&status=pending&status=partial":  nil,
		every + "&channel=in_app":                 {third, second, first},
		every + "&channel=email":                  nil,
		every + "&created_after=" + now:           {third, second},
		every + "&created_before=" + now:          {first},
		every + "&created_before=9999-12-31T23:59:59.999Z&created_after=0001-01-01T00:00:00Z": {third, second, first},
	} {
		if diff := cmp.Diff(want, b.listSends(t, query, asOperator...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	if diff := cmp.Diff([]string{third, first}, b.listSends(t, "limit=1")); diff != "" {
		t.Errorf("of an organization (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{second}, b.listSends(t, "organization_id=other", asOperator...)); diff != "" {
		t.Errorf("of the organization that an operator names (-want +got):\n%s", diff)
	}
}

func TestListSendsRefuses(t *testing.T) {
	b := setup(t)
	other := attempts(t, b)
	for name, tt := range map[string]struct {
		query   string
		headers []string
		status  int
		text    string
	}{
		"every organization, a service": {"all_organizations=true", []string{"X-Organization-Id", ""}, 403, "all_organizations: needs the role operator"},
		"every organization, from one":  {"all_organizations=true", nil, 403, "all_organizations"},
		"every organization, support":   {"all_organizations=true", []string{"Authorization", "Bearer sup", "X-Organization-Id", ""}, 403, "role service"},
		"every organization and one":    {"all_organizations=true&organization_id=acme", asOperator, 400, "all_organizations: must not"},
		"every organization for one":    {"all_organizations=true", []string{"Authorization", "Bearer ops"}, 400, "all_organizations: must not"},
		"another organization":          {"organization_id=other", nil, 403, "organization_id"},
		"no organization":               {"", asOperator, 400, "organization_id: is required"},
		"no token":                      {"", []string{"Authorization", ""}, 401, "token"},
		"an unknown status":             {"status=lost", nil, 400, "status"},
		"a status twice":                {"status=failed&status=failed", nil, 400, "status"},
		"an unknown channel":            {"channel=sms", nil, 400, "channel"},
		"a page of none":                {"limit=0", nil, 400, "limit"},
		"a page too large":              {"limit=201", nil, 400, "limit"},
		"no time":                       {"created_after=yesterday", nil, 400, "created_after"},
		"another list's cursor":         {"cursor=" + other, nil, 400, "cursor"},
		"a cursor of no time":           {"cursor=c2VuZDowLjAxOTAwMDAwLTAwMDAtNzAwMC04MDAwLTAwMDAwMDAwMDAwMA", nil, 400, "cursor"},
		"no cursor":                     {"cursor=x", nil, 400, "cursor"},
	} {
		t.Run(name, func(t *testing.T) {
			b.do(t, "GET", "/v1/notifications/sends?"+tt.query, "", tt.headers...).refused(t, tt.status, tt.text)
		})
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer ops")
	for name, in := range map[string]*notifyv1.ListSendsRequest{
		"from no time": {AllOrganizations: true, CreatedAfter: &timestamppb.Timestamp{Seconds: 1 << 50}},
		"to no time":   {AllOrganizations: true, CreatedBefore: &timestamppb.Timestamp{Nanos: -1}},
	} {
		if _, err := notifyv1.NewNotifyServiceClient(b.conn).ListSends(ctx, in); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v, want InvalidArgument", name, err)
		}
	}
}

// attempts returns a cursor of the attempts of a send.
func attempts(t *testing.T, b *bench) string {
	t.Helper()
	id := b.notifyUser(t, "ann", "m")
	testkit.Exec(t, b.pool, `INSERT INTO attempt (notification_id, channel, number, outcome, started_at, duration_ms)
		VALUES ($1, 'in_app', 2, 'ok', now(), 0)`, id)
	var log sendList
	b.do(t, "GET", "/v1/notifications/sends/"+id+"?limit=1", "").into(t, 200, &log)
	if log.Next == "" {
		t.Fatal("the attempts are one page")
	}
	return log.Next
}

// The same list is there over gRPC.
func TestListSendsOverGRPC(t *testing.T) {
	b := setup(t)
	id := b.notifyUser(t, "ann", "m")
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer ops")
	got, err := notifyv1.NewNotifyServiceClient(b.conn).ListSends(ctx, &notifyv1.ListSendsRequest{AllOrganizations: true, Status: []string{"delivered"}})
	if err != nil || !slices.ContainsFunc(got.GetSends(), func(s *notifyv1.Send) bool { return s.GetNotificationId() == id }) {
		t.Errorf("%v, %v, want %s", got, err, id)
	}
}
