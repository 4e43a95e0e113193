package control

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/slack"
	"switchyard.dev/services/platform/apierr"
)

// Slack is what the buttons of messages in Slack need. All fields are required.
type Slack struct {
	Verifier *slack.Verifier
	// App is the id of the app whose messages have the buttons.
	App       string
	Clicks    Clicker
	Responder Responder
}

// Clicker decides by clicks, see approver.Clicks.
type Clicker interface {
	Do(ctx context.Context, click approver.Click) (text string, err error)
}

// Responder answers the person of a click, see slack.Responder.
type Responder interface {
	Answer(i slack.Interaction, text string) bool
}

// clickTime bounds a decision by a click: Slack waits for three seconds.
const clickTime = 2500 * time.Millisecond

const textAway = "It is not known whether this decided. Press the button again."

// interact takes what Slack sends when a person presses a button. Nothing of the body is read before its signature is
// verified.
func (a *API) interact(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	s := a.options.Slack
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, slack.MaxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return apierr.New(apierr.KindTooLarge, apierr.ReasonTooLarge, "body: larger than 262144 bytes")
	}
	if err != nil {
		return apierr.Invalid("body", "can't be read").Wrap(err)
	}
	if err := s.Verifier.Verify(r.Header, body, time.Now()); errors.Is(err, slack.ErrSignature) {
		return apierr.New(apierr.KindUnauthenticated, apierr.ReasonUnauthenticated, "the request has no valid signature of Slack")
	} else if err != nil {
		return apierr.Unavailable("the signing secrets can't be read", err)
	}
	l.Caller = "slack"
	i, err := slack.Parse(body)
	if err != nil {
		return apierr.Invalid("body", "must be an interaction of Slack").Wrap(err)
	}
	if i.App != s.App {
		return apierr.New(apierr.KindForbidden, apierr.ReasonForbidden, "the interaction is of another app")
	}
	if i.Type == slack.BlockActions && i.Action != approver.Open {
		a.click(r.Context(), i)
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// click decides by an interaction, and tells the person if it decided nothing.
func (a *API) click(ctx context.Context, i slack.Interaction) {
	s := a.options.Slack
	bounded, cancel := context.WithTimeout(ctx, clickTime)
	defer cancel()
	text, err := s.Clicks.Do(bounded, approver.Click{
		User: approver.SlackUser{Team: i.UserTeam, User: i.User}, Team: i.Team, Button: i.Action, Notice: i.Value,
	})
	if err != nil {
		a.options.Log.WarnContext(ctx, "a click in Slack has no known result", slog.String("error", err.Error()))
		text = textAway
	}
	if text != "" && !s.Responder.Answer(i, text) {
		a.options.Log.InfoContext(ctx, "a click in Slack has no answer: its address can't be used, or too many wait")
	}
}
