package control

import (
	"net/http"
	"time"

	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/export"
)

// destination is an item of the answer on exports.
type destination struct {
	Name      string         `json:"name"`
	Kind      export.Kind    `json:"kind"`
	BaseURL   string         `json:"base_url"`
	Exports   []exportCursor `json:"exports"`
	Backfills []exportCursor `json:"backfills"`
}

// exportCursor is how far a destination has come with a source, or with a back-fill of it.
type exportCursor struct {
	ID           int64         `json:"id"`
	Source       export.Source `json:"source"`
	From         time.Time     `json:"from"`
	To           *time.Time    `json:"to,omitempty"`
	OnlyRefused  bool          `json:"only_refused,omitempty"`
	Sent         int64         `json:"sent"`
	Refused      int64         `json:"refused"`
	Failure      string        `json:"failure,omitempty"`
	FailingSince *time.Time    `json:"failing_since,omitempty"`
	UpdatedAt    time.Time     `json:"updated_at"`
	FinishedAt   *time.Time    `json:"finished_at,omitempty"`
}

func newExportCursor(c export.Cursor) exportCursor {
	return exportCursor{
		ID: c.ID, Source: c.Source, From: c.Since, To: optional(c.Until), OnlyRefused: c.OnlyRefused, Sent: c.Sent, Refused: c.Refused, Failure: c.Failure,
		FailingSince: optional(c.FailingSince), UpdatedAt: c.UpdatedAt, FinishedAt: optional(c.FinishedAt),
	}
}

// optional returns nil for the zero time.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// exports lists the destinations of the settings, how far each is, and its back-fills.
func (a *API) exports(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	all, err := a.options.Exports.Status(r.Context())
	if err != nil {
		return err
	}
	answer := struct {
		Destinations []destination `json:"destinations"`
	}{Destinations: []destination{}}
	for _, status := range all {
		d := destination{
			Name: status.Destination.Name, Kind: status.Destination.Kind, BaseURL: status.Destination.BaseURL,
			Exports: []exportCursor{}, Backfills: []exportCursor{},
		}
		for _, c := range status.Cursors {
			if c.Until.IsZero() {
				d.Exports = append(d.Exports, newExportCursor(c))
			} else {
				d.Backfills = append(d.Backfills, newExportCursor(c))
			}
		}
		answer.Destinations = append(answer.Destinations, d)
	}
	return write(w, http.StatusOK, answer)
}

// meterSum is an item of a dry run: what a customer's meter would get.
type meterSum struct {
	Metric   string `json:"metric"`
	Customer string `json:"customer"`
	Name     string `json:"name"`
	Events   int    `json:"events"`
	Sum      string `json:"sum"`
}

// backfill queues a range of usage to be exported again, or, in a dry run, returns what would be exported.
func (a *API) backfill(w http.ResponseWriter, r *http.Request, l *chain.Line) error {
	var body struct {
		From   time.Time        `json:"from"`
		To     time.Time        `json:"to"`
		Events export.Selection `json:"events"`
		DryRun bool             `json:"dry_run"`
	}
	if err := read(w, r, &body); err != nil {
		return err
	}
	wanted, now := export.Backfill{Destination: r.PathValue("destination"), From: body.From, To: body.To, Events: body.Events}, time.Now()
	if body.DryRun {
		preview, err := a.options.Exports.PreviewBackfill(r.Context(), wanted, now)
		if err != nil {
			return err
		}
		return write(w, http.StatusOK, newPreview(preview))
	}
	by := actor(r, l)
	ids, err := a.options.Exports.Backfill(r.Context(), export.Author{Name: by.Name, Request: by.Request}, wanted, now)
	if err != nil {
		return err
	}
	a.options.Log.InfoContext(r.Context(), "back-fill of an export added", "destination", wanted.Destination, "from", body.From, "to", body.To, "caller", l.Caller)
	return write(w, http.StatusAccepted, struct {
		Backfills []int64 `json:"backfills"`
	}{ids})
}

// preview is the answer of a dry run.
type preview struct {
	Meters   []meterSum `json:"meters"`
	Complete bool       `json:"complete"`
}

func newPreview(p export.Preview) preview {
	answer := preview{Meters: []meterSum{}, Complete: p.Complete}
	for _, m := range p.Meters {
		answer.Meters = append(answer.Meters, meterSum(m))
	}
	return answer
}

// refusal is an event that a destination refused.
type refusal struct {
	Identifier   string        `json:"identifier"`
	Source       export.Source `json:"source"`
	Organization string        `json:"organization_id"`
	Metric       string        `json:"metric"`
	Value        string        `json:"value"`
	At           time.Time     `json:"at"`
	Reason       string        `json:"reason"`
	RefusedAt    time.Time     `json:"refused_at"`
}

// refusals lists the events that a destination refused, by identifier.
func (a *API) refusals(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	_, after, err := readPage[string](r)
	if err != nil {
		return err
	}
	refused, err := a.options.Exports.Refusals(r.Context(), r.PathValue("destination"), after.value, after.limit+1)
	if err != nil {
		return err
	}
	answer := struct {
		Refusals   []refusal `json:"refusals"`
		NextCursor string    `json:"next_cursor"`
	}{Refusals: []refusal{}}
	for i, one := range refused {
		if i == after.limit {
			answer.NextCursor = cursor(refused[i-1].Identifier)
			break
		}
		answer.Refusals = append(answer.Refusals, refusal{
			one.Identifier, one.Source, one.Organization, one.Metric, one.Amount, one.At, one.Reason, one.RefusedAt,
		})
	}
	return write(w, http.StatusOK, answer)
}
