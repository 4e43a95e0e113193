//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

const (
	tokensPath = "/admin/v1/tokens"
	inboxRoute = "/product/v1/notifications/inbox"

	userTokensRoute = "/product/v1/tokens"

	browserApp = "https://app.example.com"
)

// token mints a token of a user for all that end users may do.
func (h *harness) token(t *testing.T, organization, user string, life time.Duration) string {
	t.Helper()
	var minted struct{ Token string }
	h.operator(stack.Edge).unrecorded(t, http.MethodPost, tokensPath, object{
		"organization_id": organization, "user_id": user, "ttl_seconds": life / time.Second,
		"scopes": []string{"notifications:inbox:read", "notifications:inbox:write", "notifications:push:read", "notifications:push:write"},
	}).into(t, http.StatusCreated, &minted)
	knownSecrets.add("a token of "+user, minted.Token)
	return minted.Token
}

// A page with ann's token reads and changes her inbox and devices, and no one else's.
func TestUserTokenIsBoundToItsUser(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	for _, user := range []string{"ann", "bob"} {
		h.service(stack.Notify, organization).post(t, notifyPath, notificationTo(user, "for "+user)).want(t, http.StatusAccepted)
	}
	at := h.anonymous(stack.Edge)
	ann, bob := at.bearer(h.token(t, organization, "ann", time.Minute)), at.bearer(h.token(t, organization, "bob", time.Minute))
	foreign := at.bearer(h.token(t, unique("org"), "ann", time.Minute))
	records := func(c client) (page inboxPage) {
		waitFor(t, waitTimeout, "one record", func() error {
			c.get(t, inboxRoute).into(t, http.StatusOK, &page)
			if len(page.Records) != 1 {
				return fmt.Errorf("%d", len(page.Records))
			}
			return nil
		})
		return page
	}
	own, others := records(ann).Records[0].ID, records(bob).Records[0].ID
	if a := foreign.get(t, inboxRoute).want(t, http.StatusOK); strings.Contains(string(a.body), own) {
		t.Error("a user of that name in another organization reads ann's inbox")
	}
	ann.get(t, inboxRoute+"?user_id=bob").refusedWith(t, http.StatusForbidden, "user_id")
	ann.get(t, inboxRoute+"/stream?user_id=bob").refusedWith(t, http.StatusForbidden, "user_id")
	ann.do(t, http.MethodPut, inboxRoute+"/read-all", object{"user_id": "bob"}).refusedWith(t, http.StatusBadRequest, "user_id")
	ann.do(t, http.MethodPut, inboxRoute+"/"+own+"/read", object{"userId": "bob"}).refusedWith(t, http.StatusBadRequest, "user_id")
	ann.do(t, http.MethodPut, inboxRoute+"/"+others+"/read", object{}).want(t, http.StatusNotFound)
	ann.do(t, http.MethodDelete, inboxRoute+"/"+others, nil).want(t, http.StatusNotFound)
	ann.with("X-User-Id", "bob").do(t, http.MethodPut, inboxRoute+"/read-all", object{}).want(t, http.StatusOK)
	for c, want := range map[*client]float64{&ann: 0, &bob: 1} {
		if got := c.get(t, inboxRoute+"/unread-count").fields(t, http.StatusOK, "unread_count")["unread_count"]; got != want {
			t.Errorf("%v records are unread, want %v", got, want)
		}
	}
	ann.post(t, sendRoute, notificationTo("bob", "no")).refusedWith(t, http.StatusForbidden, "scopes")
	ann.post(t, chatRoute, ask("sandbox", "hello")).refused(t, http.StatusForbidden, "permission_denied", "scopes")
}

// A customer's backend mints a token of ann with its product key, ann's page reads her inbox with it, and the backend revokes
// it. Neither another organization's backend nor a key without the scope has a part in it.
func TestCustomerMintsUserToken(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	backend := h.customer(t, organization, "notifications", "read,write,notifications:tokens:mint")
	backend.post(t, sendRoute, notificationTo("ann", "for ann")).want(t, http.StatusAccepted)
	body := object{"user_id": "ann", "scopes": []string{"notifications:inbox:read"}, "ttl_seconds": 600}
	var minted struct{ Token string }
	backend.unrecorded(t, http.MethodPost, userTokensRoute, body).into(t, http.StatusCreated, &minted)
	knownSecrets.add("a token that a customer minted", minted.Token)
	page := h.anonymous(stack.Edge).bearer(minted.Token)
	waitFor(t, waitTimeout, "ann's record", func() error {
		var inbox inboxPage
		page.get(t, inboxRoute).into(t, http.StatusOK, &inbox)
		if len(inbox.Records) != 1 {
			return fmt.Errorf("%d records", len(inbox.Records))
		}
		return nil
	})
	page.do(t, http.MethodPut, inboxRoute+"/read-all", object{}).refusedWith(t, http.StatusForbidden, "scopes")
	page.post(t, userTokensRoute, body).refused(t, http.StatusForbidden, "permission_denied", "scopes")

	h.customer(t, organization, "notifications", "read,write,notifications:*").post(t, userTokensRoute, body).
		refused(t, http.StatusForbidden, "permission_denied", "notifications:tokens:mint")
	h.customer(t, organization, "ai", "notifications:tokens:mint").post(t, userTokensRoute, body).
		refused(t, http.StatusForbidden, "product_not_allowed", "product")
	other := h.customer(t, unique("org"), "notifications", "read,notifications:tokens:mint")
	other.post(t, userTokensRoute, object{"organization_id": organization, "user_id": "ann", "scopes": body["scopes"], "ttl_seconds": 60}).
		refused(t, http.StatusForbidden, "organization_mismatch", "organization_id")
	other.post(t, userTokensRoute+"/revoke", object{"user_id": "ann"}).want(t, http.StatusNoContent)
	page.get(t, inboxRoute).want(t, http.StatusOK)
	backend.post(t, userTokensRoute+"/revoke", object{"user_id": "ann"}).want(t, http.StatusNoContent)
	waitFor(t, waitTimeout, "the revocation", func() error {
		if a := page.get(t, inboxRoute); a.status != http.StatusUnauthorized {
			return fmt.Errorf("answered %d", a.status)
		}
		return nil
	})
}

// Tokens that are no one's are refused with the same answer.
func TestUserTokenForged(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	valid := h.token(t, organization, "ann", time.Minute)
	short := h.token(t, organization, "ann", time.Second)
	head, rest, _ := strings.Cut(valid, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	_, otherPayload, _ := strings.Cut(h.token(t, organization, "bob", time.Minute), ".")
	otherPayload, _, _ = strings.Cut(otherPayload, ".")
	edge := h.anonymous(stack.Edge)
	for name, text := range map[string]string{
		"algorithm none": "swt_eyJhbGciOiJub25lIiwidHlwIjoic3dpdGNoeWFyZC11c2VyK2p3dCJ9." + payload + ".",
		"no signature":   head + "." + payload + ".", "another payload": head + "." + otherPayload + "." + signature,
		"foreign key": "swt_eyJhbGciOiJFZERTQSIsImtpZCI6InNpZ19mb3JlaWduIiwidHlwIjoic3dpdGNoeWFyZC11c2VyK2p3dCJ9." + payload + "." + signature,
		"oversize":    valid + strings.Repeat("A", 6<<10), "prefix alone": "swt_",
	} {
		if a := edge.bearer(text).get(t, inboxRoute); a.status != http.StatusUnauthorized || !strings.Contains(string(a.body), "the token is not valid") {
			t.Errorf("%s: answered %d: %s", name, a.status, shorten(a.body))
		}
	}
	waitFor(t, waitTimeout, "the end of a token of one second", func() error {
		if a := edge.bearer(short).get(t, inboxRoute); a.status != http.StatusUnauthorized {
			return fmt.Errorf("answered %d", a.status)
		}
		return nil
	})
}

// The stream of an inbox ends with its token.
func TestUserTokenEndsStreams(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	open := func(life time.Duration) <-chan time.Time {
		edge := h.anonymous(stack.Edge).bearer(h.token(t, organization, "ann", life))
		return endOf(t, edge.events(t, http.MethodGet, inboxRoute+"/stream", nil))
	}
	await := func(why string, ended <-chan time.Time) {
		t.Helper()
		select {
		case <-ended:
		case <-time.After(waitTimeout):
			t.Errorf("%s: the stream goes on", why)
		}
	}
	stays := open(10 * time.Minute)
	await("expired", open(3*time.Second))
	select {
	case <-stays:
		t.Error("a stream ended before its token")
	default:
	}
	h.operator(stack.Edge).post(t, tokensPath+"/revoke", object{"organization_id": organization, "user_id": "ann"}).want(t, http.StatusNoContent)
	await("revoked", stays)
}

// Pages of an organization's origins may call, and those of others may not.
func TestUserTokenCORS(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	origins := "/admin/v1/organizations/" + organization + "/origins"
	operator, edge := h.operator(stack.Edge), h.anonymous(stack.Edge)
	operator.do(t, http.MethodPut, origins, object{"origins": []string{browserApp}}).want(t, http.StatusOK)
	page := edge.with("Origin", browserApp)
	preflight := page.with("Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "authorization").do(t, http.MethodOptions, inboxRoute, nil).want(t, http.StatusNoContent)
	if got := preflight.header; got.Get("Access-Control-Allow-Origin") != browserApp || !strings.Contains(got.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("preflight: %v", got)
	}
	edge.with("Origin", "https://"+unique("evil")+".example", "Access-Control-Request-Method", "GET").do(t, http.MethodOptions, inboxRoute, nil).want(t, http.StatusForbidden)
	token, foreign := h.token(t, organization, "ann", time.Minute), h.token(t, unique("org"), "ann", time.Minute)
	if got := page.bearer(token).get(t, inboxRoute).want(t, http.StatusOK).header; got.Get("Access-Control-Allow-Origin") != browserApp || got.Get("Vary") != "Origin" {
		t.Errorf("call: %v", got)
	}
	if got := page.bearer(foreign).get(t, inboxRoute).want(t, http.StatusForbidden).header.Get("Access-Control-Allow-Origin"); got != "" {
		t.Errorf("another organization's token: Access-Control-Allow-Origin %q", got)
	}
	operator.do(t, http.MethodDelete, origins, nil).want(t, http.StatusNoContent)
	page.bearer(token).get(t, inboxRoute).want(t, http.StatusForbidden)
}

// Keys rotate while pages call at both replicas, each time with a new token, and while control is away with the last one:
// not one call is refused. A revocation is in force at both within a second.
func TestUserTokenRotationUnderLoad(t *testing.T) {
	h := pairOfEdges(t)
	organization := unique("org")
	var current atomic.Pointer[string]
	renew := func() {
		token := h.token(t, organization, "ann", time.Hour)
		current.Store(&token)
	}
	renew()
	first := *current.Load()
	for _, replica := range h.both(first) { // Control may have made the very first key a moment ago, which signs at once.
		waitFor(t, waitTimeout, "the first key at a replica", func() error {
			if a := replica.get(t, inboxRoute); a.status != http.StatusOK {
				return fmt.Errorf("answered %d", a.status)
			}
			return nil
		})
	}
	var served atomic.Int64
	pages := newLoadGenerator(t)
	pages.start(4, func(caller int) {
		a, err := h.both(*current.Load())[caller%2].try(t, http.MethodGet, inboxRoute, nil)
		if err != nil || a.status != http.StatusOK {
			t.Errorf("status %d, %v: %s", a.status, err, shorten(a.body))
		}
		served.Add(1)
	})
	operator := h.operator(stack.Edge)
	var made struct {
		SignsFrom time.Time `json:"signs_from"`
	}
	operator.post(t, tokensPath+"/keys/rotate", object{}).into(t, http.StatusCreated, &made)
	operator.post(t, tokensPath+"/keys/rotate", object{}).want(t, http.StatusConflict)
	waitFor(t, waitTimeout, "the new key", func() error {
		defer renew()
		if left := time.Until(made.SignsFrom); left > 0 {
			return fmt.Errorf("it signs in %v", left)
		}
		return nil
	})
	var set struct{ Keys []object }
	h.anonymous(secondEdge).get(t, "/product/v1/_meta/jwks").into(t, http.StatusOK, &set)
	if len(set.Keys) < 2 {
		t.Errorf("%d keys are published, want those before and after the rotation", len(set.Keys))
	}
	if err := h.Kill(string(stack.Control)); err != nil {
		t.Fatal(err)
	}
	until := served.Load() + 40
	waitFor(t, waitTimeout, "calls without control", func() error {
		if served.Load() < until {
			return fmt.Errorf("%d of %d", served.Load(), until)
		}
		return nil
	})
	if err := h.Restart(t.Context(), string(stack.Control)); err != nil {
		t.Fatal(err)
	}
	pages.stop()
	for _, token := range []string{first, *current.Load()} {
		for _, replica := range h.both(token) {
			replica.get(t, inboxRoute).want(t, http.StatusOK)
		}
	}
	operator.post(t, tokensPath+"/revoke", object{"organization_id": organization}).want(t, http.StatusNoContent)
	for _, token := range []string{first, *current.Load()} {
		for _, replica := range h.both(token) {
			waitFor(t, spreadTimeout, "the refusal of a token", func() error {
				if a := replica.get(t, inboxRoute); a.status != http.StatusUnauthorized {
					return fmt.Errorf("status %d", a.status)
				}
				return nil
			})
		}
	}
}
