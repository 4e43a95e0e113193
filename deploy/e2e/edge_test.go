//go:build e2e

package e2e_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

const sendRoute = "/product/v1/notifications/send"

// counted returns how often an organization was billed for a metric.
func (h *harness) counted(t *testing.T, organization, metric string) (total int64) {
	t.Helper()
	query := url.Values{"organization_id": {organization}, "metric": {metric}}
	var page struct {
		Usage []struct {
			Organization string `json:"organization_id"`
			Metric       string `json:"metric"`
			Count        int64  `json:"count"`
		} `json:"usage"`
	}
	h.operator(stack.Edge).get(t, "/admin/v1/usage?"+query.Encode()).into(t, http.StatusOK, &page)
	for _, line := range page.Usage {
		if line.Organization != organization || line.Metric != metric {
			t.Errorf("the usage of %s has %+v", organization, line)
		}
		total += line.Count
	}
	return total
}

// awaitCount waits for an exact count. If too much is counted, it fails.
func (h *harness) awaitCount(t *testing.T, organization, metric string, want int64) {
	t.Helper()
	waitFor(t, waitTimeout, metric+" of "+organization, func() error {
		if got := h.counted(t, organization, metric); got != want {
			return fmt.Errorf("%d counted, want %d", got, want)
		}
		return nil
	})
}

func TestEdgeKeyMatrix(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	bodies := map[string]object{
		chatRoute:     ask("sandbox", "hello"),
		deliveryRoute: h.receiver().deliver(),
		sendRoute:     {"channels": []string{"in_app"}, "message": "hello"},
	}
	tests := []struct {
		product, permissions string
		opens, lacks         []string // routes; all others don't belong to the product
	}{
		{"ai", "read", []string{chatRoute}, nil},
		{"ai", "write", nil, []string{chatRoute}},
		{"agents", "read", []string{chatRoute}, nil},
		{"platform", "read", []string{chatRoute}, []string{deliveryRoute}},
		{"platform", "write", []string{deliveryRoute}, []string{chatRoute}},
		{"platform", "read,write", []string{chatRoute, deliveryRoute}, nil},
		{"webhooks", "write", []string{deliveryRoute}, nil},
		{"webhooks", "read", nil, []string{deliveryRoute}},
		{"notifications", "write", []string{sendRoute}, nil},
		{"notifications", "read", nil, []string{sendRoute}},
	}
	for _, tt := range tests {
		t.Run(tt.product+" "+tt.permissions, func(t *testing.T) {
			customer := h.customer(t, organization, tt.product, tt.permissions)
			for route, body := range bodies {
				a := customer.post(t, route, body)
				refused := func(code, text string) {
					if route == sendRoute { // in notify's own error format
						a.refusedWith(t, http.StatusForbidden, text)
						return
					}
					a.refused(t, http.StatusForbidden, code, text)
				}
				switch {
				case slices.Contains(tt.opens, route):
					if a.status/100 != 2 {
						t.Errorf("%s answered %d: %s", route, a.status, shorten(a.body))
					}
				case slices.Contains(tt.lacks, route):
					refused("permission_denied", "permission")
				default:
					refused("product_not_allowed", "needs a key of")
				}
			}
		})
	}
}

func TestEdgeRefusesKeys(t *testing.T) {
	t.Parallel()
	h := use(t)
	good := h.key(t, unique("org"), "ai", "read").Key
	last := "0"
	if good[len(good)-1:] == last {
		last = "1"
	}
	mistyped := good[:len(good)-1] + last
	knownSecrets.add("a mistyped key", mistyped)
	headers := map[string]string{
		"no key":              "",
		"no scheme":           good,
		"another scheme":      "Basic " + good,
		"no key after Bearer": "Bearer ",
		"no key at all":       "Bearer hello",
		"a mistyped key":      "Bearer " + mistyped,
		"a well-formed key that was never issued": "Bearer " + unissuedKey(),
		"a service token":                         "Bearer " + h.Secrets().Service,
		"an operator token":                       "Bearer " + h.Secrets().Operator,
	}
	for name, header := range headers {
		t.Run(name, func(t *testing.T) {
			a := h.anonymous(stack.Edge).with("Authorization", header).post(t, chatRoute, ask("sandbox", "hello"))
			f := a.refused(t, http.StatusUnauthorized, "invalid_key", "")
			if f.Class != "auth" || a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("class %s, WWW-Authenticate %q", f.Class, a.header.Get("WWW-Authenticate"))
			}
		})
	}
}

// unissuedKey returns a key of the right form and checksum that was never issued.
func unissuedKey() string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	text := "swy_live_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg"
	sum := crc32.ChecksumIEEE([]byte(text))
	var check [6]byte
	for i := len(check) - 1; i >= 0; i-- {
		check[i] = digits[sum%62]
		sum /= 62
	}
	key := text + string(check[:])
	knownSecrets.add("a well-formed unknown key", key)
	return key
}

func TestEdgeRevokedKey(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	revoked, other := h.key(t, organization, "ai", "read"), h.customer(t, organization, "ai", "read")
	ai := h.anonymous(stack.Edge).bearer(revoked.Key)
	ai.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
	h.operator(stack.Edge).do(t, http.MethodDelete, "/admin/v1/keys/"+revoked.ID, nil).want(t, http.StatusNoContent)
	waitFor(t, spreadTimeout, "the refusal of a revoked key", func() error {
		if a := ai.post(t, chatRoute, ask("sandbox", "hello")); a.status != http.StatusUnauthorized {
			return fmt.Errorf("status %d", a.status)
		}
		return nil
	})
	ai.post(t, chatRoute, ask("sandbox", "hello")).refused(t, http.StatusUnauthorized, "invalid_key", "")
	other.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
}

func TestEdgeExpiredKey(t *testing.T) {
	t.Parallel()
	h := use(t)
	soon := time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano)
	made := h.operator(stack.Edge).unrecorded(t, http.MethodPost, "/admin/v1/keys", object{
		"organization_id": unique("org"), "product": "ai", "permissions": []string{"read"}, "expires_at": soon,
	})
	var k productKey
	made.into(t, http.StatusCreated, &k)
	knownSecrets.add("the product key "+k.ID, k.Key)
	ai := h.anonymous(stack.Edge).bearer(k.Key)
	waitFor(t, waitTimeout, "the refusal of an expired key", func() error {
		if a := ai.post(t, chatRoute, ask("sandbox", "hello")); a.status != http.StatusUnauthorized {
			return fmt.Errorf("status %d", a.status)
		}
		return nil
	})
}

// The organization is the key's, whatever the caller's identity headers say.
func TestEdgeStripsIdentity(t *testing.T) {
	t.Parallel()
	h := use(t)
	mine, theirs, user := unique("org"), unique("org"), unique("user")
	forged := []string{
		"X-Organization-Id", theirs, "X-Key-Id", "key_forged", "Grpc-Metadata-X-Organization-Id", theirs,
	}
	notifications := h.customer(t, mine, "notifications", "write").with(forged...)
	notifications.post(t, sendRoute, object{"channels": []string{"in_app"}, "message": "hello", "target": object{"user_id": user}}).want(t, http.StatusAccepted)
	if n := len(h.inbox(t, mine, user).Records); n != 1 {
		t.Errorf("the key's organization has %d records, want one", n)
	}
	if n := len(h.inbox(t, theirs, user).Records); n != 0 {
		t.Errorf("the forged organization has %d records", n)
	}
	h.awaitCount(t, mine, "notifications_sent", 1)
	if n := h.counted(t, theirs, "notifications_sent"); n != 0 {
		t.Errorf("the forged organization was billed %d calls", n)
	}
	// In the body, another organization than the key's is an error.
	notifications.post(t, sendRoute, object{"organization_id": theirs, "channels": []string{"in_app"}, "message": "hello"}).
		refusedWith(t, http.StatusForbidden, "organization_id")
	notifications.post(t, sendRoute, object{"organization_id": mine, "channels": []string{"in_app"}, "message": "hello"}).want(t, http.StatusAccepted)
}

func TestEdgeCountsExactly(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	platform, notifications := h.customer(t, organization, "platform", "read,write"), h.customer(t, organization, "notifications", "write")
	to := h.receiver()
	for range 5 {
		platform.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
		platform.stream(t, chatRoute, ask("sandbox", "hello", streamed)).read(t)
		platform.post(t, deliveryRoute, to.deliver()).want(t, http.StatusAccepted)
		notifications.post(t, sendRoute, object{"channels": []string{"in_app"}, "message": "hello"}).want(t, http.StatusAccepted)
		// Failed calls are not billed.
		platform.post(t, chatRoute, ask("no-such-model", "hello")).want(t, http.StatusNotFound)
		platform.post(t, deliveryRoute, to.deliver(object{"url": "http://127.0.0.1:1/"})).want(t, http.StatusBadRequest)
		notifications.post(t, sendRoute, object{}).want(t, http.StatusBadRequest)
		notifications.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusForbidden)
	}
	for metric, want := range map[string]int64{"llm_requests": 10, "deliveries": 5, "notifications_sent": 5} {
		h.awaitCount(t, organization, metric, want)
	}
}

func TestEdgeRouting(t *testing.T) {
	t.Parallel()
	h := use(t)
	ai := h.customer(t, unique("org"), "ai", "read")
	ai.post(t, "/product/v1/ai/nothing", object{}).refused(t, http.StatusNotFound, "not_found", "")
	ai.post(t, chatPath, ask("sandbox", "hello")).refused(t, http.StatusNotFound, "not_found", "") // a capability path
	a := ai.get(t, chatRoute)
	a.refused(t, http.StatusMethodNotAllowed, "method_not_allowed", "")
	if a.header.Get("Allow") != http.MethodPost {
		t.Errorf("Allow: %q", a.header.Get("Allow"))
	}
	// Paths are not normalized, and a HEAD request is not taken for a GET.
	for _, path := range []string{"/product/v1//ai/chat", "/product/v1/ai/../ai/chat", "/product/v1/ai/./chat", chatRoute + "/", "/product/v1/ai%2fchat"} {
		ai.post(t, path, ask("sandbox", "hello")).refused(t, http.StatusNotFound, "not_found", "path")
	}
	ai.post(t, "/product/v1/notifications//send", object{}).refusedWith(t, http.StatusNotFound, "path")
	for _, path := range []string{chatRoute, "/product/v1/ai/openai/v1/models"} {
		head := ai.do(t, http.MethodHead, path, nil).want(t, http.StatusMethodNotAllowed)
		if len(head.body) != 0 || head.header.Get("Allow") == "" || head.header.Get("X-Request-Id") == "" {
			t.Errorf("HEAD %s: %q, %v", path, head.body, head.header)
		}
	}
}

func TestEdgeOperators(t *testing.T) {
	t.Parallel()
	h := use(t)
	edge := h.anonymous(stack.Edge)
	customer := h.customer(t, unique("org"), "ai", "read")
	for _, call := range []struct{ method, path string }{
		{http.MethodGet, "/admin/v1/keys"},
		{http.MethodPost, "/admin/v1/keys"},
		{http.MethodDelete, "/admin/v1/keys/x"},
		{http.MethodGet, "/admin/v1/usage"},
	} {
		t.Run(call.method+" "+call.path, func(t *testing.T) {
			edge.do(t, call.method, call.path, nil).refused(t, http.StatusUnauthorized, "unauthenticated", "")
			customer.do(t, call.method, call.path, nil).refused(t, http.StatusUnauthorized, "unauthenticated", "")
			edge.bearer(h.Secrets().Service).do(t, call.method, call.path, nil).refused(t, http.StatusForbidden, "forbidden", "operator")
			edge.bearer(h.Secrets().Support).do(t, call.method, call.path, nil).refused(t, http.StatusForbidden, "forbidden", "operator")
		})
	}
	h.operator(stack.Edge).do(t, http.MethodDelete, "/admin/v1/keys/none", nil).refused(t, http.StatusNotFound, "not_found", "")
}

// A key is shown once: no list has it or its hash.
func TestEdgeListsKeysWithoutThem(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	made := h.key(t, organization, "ai", "read")
	var page struct {
		Keys []map[string]any `json:"keys"`
	}
	a := h.operator(stack.Edge).get(t, "/admin/v1/keys?organization_id="+organization)
	a.into(t, http.StatusOK, &page)
	if len(page.Keys) != 1 || page.Keys[0]["id"] != made.ID {
		t.Errorf("keys %v, want %s alone", page.Keys, made.ID)
	}
	for _, secret := range []string{made.Key, `"key"`, "digest", "hash"} {
		if bytes.Contains(a.body, []byte(secret)) {
			t.Errorf("the list has %q", secret)
		}
	}
}
