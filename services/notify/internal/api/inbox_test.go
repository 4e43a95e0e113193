package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write golden files")

// volatile is what differs from run to run: ids and times.
var volatile = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d{2}-\d{2}T[0-9:.]+Z`)

func TestListGolden(t *testing.T) {
	b := setup(t)
	b.do(t, "POST", "/v1/notify", `{"channels":["in_app"],"subject":"Order 7","message":"Shipped","target":{"user_id":"ann","url":"https://shop.example/7","data":{"order": 7}}}`)
	b.notifyUser(t, "ann", "Delivered")
	page := b.list(t, "?user_id=ann&limit=1")
	b.do(t, "PUT", "/v1/notifications/"+page.Records[0].ID+"/read", "")
	b.notifyUser(t, "", "Maintenance tonight")

	var got bytes.Buffer
	for _, query := range []string{"?user_id=ann", "", "?user_id=nobody"} {
		text := b.do(t, "GET", "/v1/notifications"+query, "").body
		if err := json.Indent(&got, []byte(volatile.ReplaceAllString(text, "*")), "", "  "); err != nil {
			t.Fatal(err)
		}
		got.WriteByte('\n')
	}
	golden := filepath.Join("testdata", "list.golden.json")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}

func TestMarkRead(t *testing.T) {
	b := setup(t)
	b.notifyUser(t, "ann", "one")
	b.notifyUser(t, "ann", "two")
	id := b.list(t, "?user_id=ann").Records[0].ID
	var first, again struct {
		Notification record `json:"notification"`
		Unread       int    `json:"unread_count"`
	}
	b.do(t, "PUT", "/v1/notifications/"+id+"/read", "").into(t, 200, &first)
	b.do(t, "PUT", "/v1/notifications/"+id+"/read", "{}").into(t, 200, &again)
	if !first.Notification.Read || first.Notification.ReadAt == nil || first.Unread != 1 {
		t.Errorf("marked = %+v, want read with one left", first)
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("marked again (-first +again):\n%s", diff)
	}
	if unread := b.list(t, "?user_id=ann&unread=true"); len(unread.Records) != 1 || unread.Records[0].Text != "one" || unread.Unread != 1 {
		t.Errorf("unread = %+v, want the other record", unread)
	}
}

func TestDelete(t *testing.T) {
	b := setup(t)
	for _, message := range []string{"one", "two", "three"} {
		b.notifyUser(t, "", message)
	}
	records := b.list(t, "").Records
	b.do(t, "PUT", "/v1/notifications/"+records[0].ID+"/read", "")
	for i, unread := range []int{2, 1} {
		got := b.do(t, "DELETE", "/v1/notifications/"+records[i].ID, "")
		if got.status != http.StatusNoContent || got.body != "" {
			t.Errorf("delete: %d %q, want 204 and nothing", got.status, got.body)
		}
		if page := b.list(t, ""); page.Unread != unread || len(page.Records) != 2-i {
			t.Errorf("after delete %d: %+v, want %d unread", i, page, unread)
		}
		b.do(t, "DELETE", "/v1/notifications/"+records[i].ID, "").refused(t, 404, "not found")
		b.do(t, "PUT", "/v1/notifications/"+records[i].ID+"/read", "").refused(t, 404, "not found")
	}
}

func TestMarkAllRead(t *testing.T) {
	b := setup(t)
	for range 3 {
		b.notifyUser(t, "ann", "m")
	}
	b.notifyUser(t, "", "notice")
	for _, marked := range []int{3, 0} {
		var got struct {
			Marked *int `json:"marked"`
			Unread *int `json:"unread_count"`
		}
		b.do(t, "PUT", "/v1/notifications/read-all", `{"user_id":"ann"}`).into(t, 200, &got)
		if got.Marked == nil || got.Unread == nil {
			t.Fatalf("marked %v, unread %v, want both in the answer", got.Marked, got.Unread)
		}
		if *got.Marked != marked || *got.Unread != 0 {
			t.Errorf("%d marked and %d left unread, want %d and none", *got.Marked, *got.Unread, marked)
		}
	}
	var none struct {
		Marked int `json:"marked"`
	}
	b.do(t, "PUT", "/v1/notifications/read-all", `{"user_id":"nobody"}`).into(t, 200, &none)
	var notices struct {
		Unread int `json:"unread_count"`
	}
	b.do(t, "GET", "/v1/notifications/unread-count", "").into(t, 200, &notices)
	if none.Marked != 0 || notices.Unread != 1 {
		t.Errorf("an empty inbox marked %d; the notices have %d unread, want 0 and 1", none.Marked, notices.Unread)
	}
}

// A record is out of reach for other organizations and for other users, and a
// refusal changes nothing.
func TestOthersRecords(t *testing.T) {
	b := setup(t)
	b.notifyUser(t, "ann", "private")
	id := b.list(t, "?user_id=ann").Records[0].ID
	tests := map[string]struct {
		headers []string
		query   string
		status  int
	}{
		"another organization":         {[]string{"X-Organization-Id", "other"}, "", 404},
		"another user":                 {[]string{"X-User-Id", "bob"}, "", 404},
		"another user in the query":    {nil, "?user_id=bob", 404},
		"header and query that differ": {[]string{"X-User-Id", "ann"}, "?user_id=bob", 400},
		"organization that differs":    {nil, "?organization_id=other", 403},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b.do(t, "DELETE", "/v1/notifications/"+id+tt.query, "", tt.headers...).refused(t, tt.status, "")
		})
	}
	b.do(t, "PUT", "/v1/notifications/"+id+"/read", `{"user_id":"bob"}`).refused(t, 404, "not found")
	b.do(t, "PUT", "/v1/notifications/not-an-id/read", "").refused(t, 404, "not found")
	if page := b.list(t, "?user_id=ann"); len(page.Records) != 1 || page.Unread != 1 {
		t.Errorf("inbox = %+v, want it untouched", page)
	}
	if page := b.list(t, "?user_id=ann", "X-Organization-Id", "other"); len(page.Records) != 0 || page.Unread != 0 {
		t.Errorf("the same user elsewhere sees %+v", page)
	}
	if got := b.do(t, "DELETE", "/v1/notifications/"+id, "", "X-User-Id", "ann"); got.status != 204 {
		t.Errorf("its own user: %d %s", got.status, got.body)
	}
}

func TestListLimits(t *testing.T) {
	b := setup(t)
	for i := range 51 {
		b.notifyUser(t, "ann", fmt.Sprint(i))
	}
	if page := b.list(t, "?user_id=ann"); len(page.Records) != 50 || page.Next == "" || page.Unread != 51 {
		t.Errorf("default page: %d records, next %q, unread %d", len(page.Records), page.Next, page.Unread)
	}
	if page := b.list(t, "?user_id=ann&limit=200"); len(page.Records) != 51 || page.Next != "" {
		t.Errorf("largest page: %d records, next %q", len(page.Records), page.Next)
	}
	for _, query := range []string{"?limit=201", "?limit=0", "?limit=00", "?limit=-1", "?limit=x", "?cursor=x", "?cursor=YXR0ZW1wdDox", "?unread=maybe"} {
		b.do(t, "GET", "/v1/notifications"+query, "").refused(t, 400, "")
	}
}

// A client that pages through an inbox sees each record that stays exactly once,
// and none that came later, whatever happens between the pages.
func TestCursorIsStable(t *testing.T) {
	b := setup(t)
	var stay []string
	for i := range 20 {
		b.notifyUser(t, "ann", fmt.Sprint(i))
	}
	all := b.list(t, "?user_id=ann").Records
	var seen []string
	cursor := ""
	for page := 0; page == 0 || cursor != ""; page++ {
		got := b.list(t, "?user_id=ann&limit=3&cursor="+cursor)
		for _, r := range got.Records {
			seen = append(seen, r.ID)
		}
		cursor = got.Next
		b.notifyUser(t, "ann", "late")
		b.do(t, "PUT", "/v1/notifications/"+seen[len(seen)-1]+"/read", "")
		b.do(t, "DELETE", "/v1/notifications/"+seen[len(seen)-1], "") // the record that the cursor is at
		if page == 2 {
			b.do(t, "DELETE", "/v1/notifications/"+all[15].ID, "") // one that is still to come
		}
	}
	for i, r := range all {
		if i != 15 {
			stay = append(stay, r.ID)
		}
	}
	if diff := cmp.Diff(stay, seen); diff != "" {
		t.Errorf("records seen (-want +got):\n%s", diff)
	}
	if !slices.IsSortedFunc(b.list(t, "?user_id=ann").Records, func(a, c record) int { return bytes.Compare([]byte(c.ID), []byte(a.ID)) }) {
		t.Error("the list is not newest first")
	}
}
