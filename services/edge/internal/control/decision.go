package control

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/decision"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

// Decider decides by tokens of the gateway. The error of a refusal is a *decision.RefusalError.
type Decider interface {
	Show(ctx context.Context, token string) (*decision.Decision, error)
	Decide(ctx context.Context, token string, choice decision.Choice) (*decision.Decision, error)
}

// Names reads the keys that ask.
type Names interface {
	Get(ctx context.Context, id string) (apikey.Key, error)
}

// Membership checks that a person is in the group that decides, see approver.Members.
type Membership interface {
	Check(ctx context.Context, organization, group, user string) error
}

// Persons lets identified people decide, see approver.Persons.
type Persons interface {
	Show(ctx context.Context, who approver.Person, ref string) (*decision.Decision, error)
	Decide(ctx context.Context, who approver.Person, ref string, choice decision.Choice) (*decision.Decision, error)
}

// Decisions is what the pages of decisions need. All fields are required.
type Decisions struct {
	Decider Decider
	Members Membership
	Persons Persons
	Keys    Names
	Nonces  *decision.Nonces
	// Reads and Writes limit the calls from an address, Tokens those with a token.
	Reads, Writes, Tokens *decision.Rate
}

// NewDecisions returns Decisions with the rates of the house: an address may be that of a load balancer, or of the role
// serve, which limits the addresses that it sees.
func NewDecisions(decider Decider, members Membership, persons Persons, keys Names, nonces *decision.Nonces) *Decisions {
	return &Decisions{
		Decider: decider, Members: members, Persons: persons, Keys: keys, Nonces: nonces,
		Reads: decision.NewRate(100, 500), Writes: decision.NewRate(50, 200), Tokens: decision.NewRate(1, 120),
	}
}

const (
	pagePath      = "/decisions/{token}"
	ownPath       = decision.OwnPath + "{ref}/{$}"
	ownTokenPath  = decision.OwnPath + "{ref}/{token}"
	decisionsPath = "/v1/decisions/{token}"
	// maxForm bounds the form of the page in bytes: a reason has three bytes for each that is escaped.
	maxForm = 8 << 10
)

// mountDecisions mounts the pages, and the operations of service workers and of end users' tokens. A token of the
// gateway in a path authorizes the request as the token's approver, without a session.
func (a *API) mountDecisions(served *chain.Chain) {
	for _, path := range []string{pagePath, ownTokenPath} {
		served.Mount(path, map[string]chain.Handler{http.MethodGet: a.showDecision, http.MethodPost: a.decideOnPage})
	}
	served.Mount(ownPath, map[string]chain.Handler{http.MethodGet: a.askPerson})
	a.mount(served, caller.RoleService, map[string]map[string]chain.Handler{
		decisionOfUser: {http.MethodGet: a.showUserDecision, http.MethodPost: a.decideAsUser},
	})
	served.Mount(decisionsPath, map[string]chain.Handler{http.MethodPost: a.decideByButton, http.MethodOptions: a.allowButton})
}

// admit limits the rate of an address and of a token.
func (d *Decisions) admit(r *http.Request, token string) (wait time.Duration) {
	now, rate := time.Now(), d.Writes
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		rate = d.Reads
	}
	if wait = rate.Take(decision.Proxies(nil).Address(r), now); wait > 0 || !decision.IsToken(token) {
		return wait
	}
	return d.Tokens.Take(token, now)
}

const tooMany = "there were too many requests; try again later"

// showDecision shows what a token decides. It changes nothing, however often programs open the link that look for harm in
// mail.
func (a *API) showDecision(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	token := r.PathValue("token")
	if wait := a.options.Decisions.admit(r, token); wait > 0 {
		return writeLimited(w, wait)
	}
	return a.writeDecision(w, r, token, http.StatusOK)
}

// show returns what a token decides on, if the token's approver is currently a member of the group that decides.
func (d *Decisions) show(ctx context.Context, token string) (*decision.Decision, error) {
	found, err := d.Decider.Show(ctx, token)
	if err != nil {
		return nil, err
	}
	return found, d.Members.Check(ctx, found.Organization, found.Group(), found.Approver)
}

// decide decides by a token, if the token's approver is currently a member of the group that decides.
func (d *Decisions) decide(ctx context.Context, token string, choice decision.Choice) (*decision.Decision, error) {
	if _, err := d.show(ctx, token); err != nil {
		return nil, err
	}
	return d.Decider.Decide(ctx, token, choice)
}

// writeLimited answers that there were too many requests.
func writeLimited(w http.ResponseWriter, wait time.Duration) error {
	e := apierr.Error{RetryAfter: wait}
	w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfterSeconds()))
	return decision.Write(w, http.StatusTooManyRequests, decision.Failed("There were too many requests. Try again later."))
}

// writeDecision answers with the page of a token, with notes.
func (a *API) writeDecision(w http.ResponseWriter, r *http.Request, token string, status int, notes ...string) error {
	if !decision.IsToken(token) {
		return decision.Write(w, http.StatusNotFound, decision.Unknown())
	}
	d, err := a.options.Decisions.show(r.Context(), token)
	if err != nil {
		return a.writeRefusal(w, r, err)
	}
	a.nameAsker(r.Context(), d)
	return decision.Write(w, status, decision.Show(d, a.options.Decisions.Nonces.Make(token, d.Version, time.Now()), notes...))
}

// nameAsker puts the name of the organization's key in the place of its id, which says nothing to a person; a key without a
// name, and one that can't be read now, is left out.
func (a *API) nameAsker(ctx context.Context, d *decision.Decision) {
	if !strings.HasPrefix(d.RequestedBy, apikey.IDPrefix) {
		return
	}
	key, err := a.options.Decisions.Keys.Get(ctx, d.RequestedBy)
	if d.RequestedBy = ""; err == nil && key.Organization == d.Organization && key.Name != "" {
		d.RequestedBy = "the key " + key.Name
	}
}

// writeRefusal answers with the page of what the gateway refused, or of a gateway that is away.
func (a *API) writeRefusal(w http.ResponseWriter, r *http.Request, err error) error {
	if errors.Is(err, approver.ErrNotApprover) {
		return decision.Write(w, http.StatusForbidden, decision.Failed("You can't decide on this call: you are not, or no longer, in the group that decides."))
	}
	refusal, ok := errors.AsType[*decision.RefusalError](err)
	if !ok {
		a.options.Log.ErrorContext(r.Context(), "the gateway has no answer to a decision", slog.String("error", err.Error()))
		return decision.Write(w, http.StatusBadGateway, decision.Failed("The service that decides is away. Nothing is known to be decided. Try again in a moment."))
	}
	switch refusal.Status {
	case http.StatusNotFound:
		return decision.Write(w, http.StatusNotFound, decision.Unknown())
	case http.StatusGone:
		return decision.Write(w, http.StatusGone, decision.Over())
	case http.StatusTooManyRequests:
		return writeLimited(w, refusal.RetryAfter)
	}
	return decision.Write(w, http.StatusForbidden, decision.Failed("You can't decide on this call."))
}

// decideOnPage decides by the form of the page.
func (a *API) decideOnPage(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	token, d := r.PathValue("token"), a.options.Decisions
	if wait := d.admit(r, token); wait > 0 {
		return writeLimited(w, wait)
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return decision.Write(w, http.StatusForbidden, decision.Failed("Only the page itself decides. Open the link and decide there."))
	}
	form, ok := readForm(w, r)
	if !ok || !decision.IsToken(token) {
		return decision.Write(w, http.StatusBadRequest, decision.Failed("The form is not the page's. Open the link again."))
	}
	if !d.Nonces.Check(form.nonce, token, form.choice.Version, time.Now()) {
		return a.writeDecision(w, r, token, http.StatusForbidden, "The page was open for too long, or is not the one that was shown. Nothing was decided: read it and decide again.")
	}
	decided, err := d.decide(r.Context(), token, form.choice)
	refusal, refused := errors.AsType[*decision.RefusalError](err)
	switch {
	case err == nil:
		a.nameAsker(r.Context(), decided)
		return decision.Write(w, http.StatusOK, decision.Show(decided, ""))
	case refused && refusal.Reason == decision.ReasonChanged:
		return a.writeDecision(w, r, token, http.StatusConflict, "What is shown has changed since. Nothing was decided: read it again.")
	case refused && refusal.Reason == decision.ReasonDecided:
		return a.writeDecision(w, r, token, http.StatusConflict, "Another approver has decided before.")
	}
	return a.writeRefusal(w, r, err)
}

// form is what the page sends.
type form struct {
	nonce  string
	choice decision.Choice
}

// readForm reads the form of the page, whose fields are there once. It reports false for anything else.
func readForm(w http.ResponseWriter, r *http.Request) (f form, ok bool) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/x-www-form-urlencoded" {
		return f, false
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxForm))
	if err != nil || strings.Count(string(text), "&") > 3 {
		return f, false
	}
	fields, err := url.ParseQuery(string(text))
	if err != nil {
		return f, false
	}
	f.choice.Proof = decision.ProofPage
	for name, into := range map[string]*string{
		"nonce": &f.nonce, "display_version": &f.choice.Version, "decision": &f.choice.Decision, "reason": &f.choice.Reason,
	} {
		if len(fields[name]) != 1 {
			return f, false
		}
		*into = strings.TrimSpace(fields[name][0])
	}
	if err := checkChoice(f.choice); err != nil || len(fields) != 4 {
		return f, false
	}
	return f, true
}

// readChoice returns the choice in a request's body, which checkChoice has checked.
func readChoice(w http.ResponseWriter, r *http.Request) (decision.Choice, error) {
	var body struct {
		Decision string `json:"decision"`
		Reason   string `json:"reason"`
		Version  string `json:"display_version"`
	}
	if err := read(w, r, &body); err != nil {
		return decision.Choice{}, err
	}
	choice := decision.Choice{Decision: body.Decision, Reason: body.Reason, Version: body.Version}
	return choice, checkChoice(choice)
}

// checkChoice refuses an unknown decision, and texts that are too long.
func checkChoice(c decision.Choice) error {
	switch {
	case c.Decision != decision.Approve && c.Decision != decision.Deny:
		return apierr.Invalid("decision", "must be approve or deny")
	case len(c.Reason) > decision.MaxReason:
		return apierr.Invalid("reason", "must be at most 1024 bytes")
	case len(c.Version) > decision.MaxVersion:
		return apierr.Invalid("display_version", "must be at most 128 bytes")
	}
	return nil
}

// allowButton lets pages of any origin decide by a token: it is all that authorizes a decision, and no cookie counts.
func (a *API) allowButton(w http.ResponseWriter, _ *http.Request, _ *chain.Line) error {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", http.MethodPost)
	h.Set("Access-Control-Allow-Headers", "Content-Type")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// decideByButton decides by a button of a message, which the gateway allows where the rule does not demand the page.
func (a *API) decideByButton(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	token, d := r.PathValue("token"), a.options.Decisions
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Cache-Control", "no-store")
	if wait := d.admit(r, token); wait > 0 {
		e := apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, tooMany)
		e.RetryAfter = wait
		return e
	}
	choice, err := readChoice(w, r) // A button gives no proof.
	if err != nil {
		return err
	}
	if !decision.IsToken(token) {
		return apierr.NotFound("decision")
	}
	decided, err := d.decide(r.Context(), token, choice)
	if err != nil {
		return refusalOf(err)
	}
	return write(w, http.StatusOK, struct {
		Ref       string     `json:"ref"`
		Status    string     `json:"status"`
		DecidedBy *string    `json:"decided_by"`
		DecidedAt *time.Time `json:"decided_at"`
	}{decided.Ref, decided.Status, decided.DecidedBy, decided.DecidedAt})
}

// refusalOf converts an error of a decision to the error that the caller gets.
func refusalOf(err error) error {
	if refusal, ok := errors.AsType[*decision.RefusalError](err); ok {
		return passed(refusal)
	}
	if shown, ok := errors.AsType[*apierr.Error](err); ok {
		return shown
	}
	return apierr.Unavailable("the service that decides is away; try again", err)
}

// kinds are the kinds of the gateway's refusals by status.
var kinds = map[int]apierr.Kind{
	http.StatusBadRequest: apierr.KindInvalid, http.StatusForbidden: apierr.KindForbidden, http.StatusNotFound: apierr.KindNotFound,
	http.StatusConflict: apierr.KindConflict, http.StatusGone: apierr.KindGone, http.StatusTooManyRequests: apierr.KindRateLimited,
}

// passed converts a refusal by the gateway to an error of the edge.
func passed(r *decision.RefusalError) error {
	kind, ok := kinds[r.Status]
	if !ok {
		return apierr.Unavailable("the service that decides is away; try again", r)
	}
	e := apierr.New(kind, apierr.Reason(r.Reason), r.Text)
	e.RetryAfter = r.RetryAfter
	return e
}
