package trace

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/content/redact"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// maxPage bounds the contents that are opened for one page of traces, in bytes: redaction reads all of them.
const maxPage = 4 << 20

// Archive reads recorded requests. Safe for concurrent use.
type Archive struct {
	store Store
	keys  *Keys // nil: no content can be read
	// redactor returns the redactor of the policy in force.
	redactor func() *redact.Redactor
	log      *slog.Logger
}

// NewArchive returns an Archive. Without keys it reads no content.
func NewArchive(store Store, keys *Keys, redactor func() *redact.Redactor, log *slog.Logger) *Archive {
	return &Archive{store, keys, redactor, log}
}

// Shown is a record with its content, redacted.
type Shown struct {
	Record
	// Request and Response are nil where they were not kept.
	Request, Response json.RawMessage
	Metadata          map[string]string
	Redactions        []string
	Truncated         bool
	Form              string
}

// List returns a page with redacted content. more reports whether further records follow the last one; a page is
// shorter than its limit where the contents are large.
func (a *Archive) List(ctx context.Context, f Filter) (page []Shown, more bool, err error) {
	now := time.Now()
	records, more, err := a.records(ctx, f, now)
	if err != nil || len(records) == 0 {
		return nil, false, err
	}
	ids := make([]uuid.UUID, len(records))
	for i := range records {
		ids[i] = records[i].ID
	}
	sizes, err := a.store.Sizes(ctx, ids, now)
	if err != nil {
		return nil, false, err
	}
	for i, total := 0, 0; i < len(ids); i++ {
		if total += sizes[ids[i]]; total > maxPage && i > 0 {
			records, ids, more = records[:i], ids[:i], true
		}
	}
	contents, err := a.store.Contents(ctx, ids, now)
	if err != nil {
		return nil, false, err
	}
	opened := 0
	for i := range records {
		packet := a.open(ctx, records[i], contents)
		if opened += packet.size(); opened > maxPage && i > 0 {
			return page, true, nil // Only unpacked the contents exceed maxPage.
		}
		page = append(page, a.show(records[i], packet, contents[records[i].ID].Truncated))
	}
	return page, more, nil
}

// Lineage returns a page of records without content. more reports whether further records follow the last one.
func (a *Archive) Lineage(ctx context.Context, f Filter) (page []Record, more bool, err error) {
	return a.records(ctx, f, time.Now())
}

func (a *Archive) records(ctx context.Context, f Filter, now time.Time) (page []Record, more bool, err error) {
	limit := f.Limit
	f.Limit++
	if page, err = a.store.List(ctx, f, now); err != nil {
		return nil, false, err
	}
	if len(page) > limit {
		return page[:limit], true, nil
	}
	return page, false, nil
}

// Get returns the latest record of a request id of an organization. The error is ErrNotFound where there is none.
func (a *Archive) Get(ctx context.Context, organization, request string) (Record, error) {
	return a.store.Get(ctx, organization, request, time.Now())
}

// maxOrganizations bounds the number of organizations that Latest reads for one request id.
const maxOrganizations = 51

// Latest returns the latest record of a request id of each organization, newest first: callers choose the ids, so that
// several organizations may have used one. Where an organization is named only its record is returned. The error is
// ErrNotFound where there is none.
func (a *Archive) Latest(ctx context.Context, organization, request string) ([]Record, error) {
	records, err := a.store.Latest(ctx, organization, request, maxOrganizations, time.Now())
	if err == nil && len(records) == 0 {
		err = ErrNotFound
	}
	return records, err
}

// Execution is a captured request with its record and its content, not redacted.
type Execution struct {
	Record
	Packet
	CapturedAt, ContentExpiresAt time.Time
	// Replayable reports whether the request was captured whole.
	Replayable bool
}

// Execution returns a captured request of an organization. The error is ErrNotFound where it was not captured, or its
// content is no longer kept.
func (a *Archive) Execution(ctx context.Context, organization, request string) (*Execution, error) {
	now := time.Now()
	record, err := a.store.Get(ctx, organization, request, now)
	if err != nil {
		return nil, err
	}
	contents, err := a.store.Contents(ctx, []uuid.UUID{record.ID}, now)
	if err != nil {
		return nil, err
	}
	packet := a.open(ctx, record, contents)
	if packet == nil {
		return nil, ErrNotFound
	}
	content := contents[record.ID]
	return &Execution{
		Record: record, Packet: *packet, CapturedAt: content.CapturedAt, ContentExpiresAt: content.ExpiresAt, Replayable: content.Replayable,
	}, nil
}

// Replays returns the ids of the requests that repeated one, newest first.
func (a *Archive) Replays(ctx context.Context, organization, request string, limit int) ([]string, error) {
	return a.store.Replays(ctx, organization, request, limit, time.Now())
}

// open returns a record's content, unsealed; nil where there is none that can be read.
func (a *Archive) open(ctx context.Context, record Record, contents map[uuid.UUID]Content) *Packet {
	content, ok := contents[record.ID]
	if !ok || a.keys == nil {
		return nil
	}
	packet, err := a.keys.open(record.Organization, record.ID, content)
	if err != nil {
		a.log.WarnContext(ctx, "the content of a trace could not be opened", slog.String("trace_request_id", record.RequestID), slog.String("error", err.Error()))
		return nil
	}
	return packet
}

// show returns a record with its packet redacted. A nil packet leaves the content empty.
func (a *Archive) show(record Record, packet *Packet, truncated bool) Shown {
	shown := Shown{Record: record}
	if packet == nil {
		return shown
	}
	found, redactor := redact.Kinds{}, a.redactor()
	shown.Form, shown.Truncated = packet.Form, truncated
	request := packet.Request
	if record.Operation == string(provider.OperationEmbeddings) {
		request = redact.Tokens(request, found)
	}
	shown.Request = redactor.JSON(request, found)
	shown.Response = redactor.JSON(packet.Response, found)
	if len(packet.Metadata) > 0 {
		shown.Metadata = make(map[string]string, len(packet.Metadata))
		for name, value := range packet.Metadata {
			shown.Metadata[redactor.Text(name, found)] = redactor.Named(name, value, found)
		}
	}
	shown.Redactions = found.Sorted()
	return shown
}

// eraseBatch is the number of contents that one statement erases.
const eraseBatch = 1000

// Erase deletes all contents of an organization that were captured until now, and returns their number. Records stay:
// they hold no content.
func (a *Archive) Erase(ctx context.Context, organization string) (erased int, err error) {
	until := time.Now()
	for {
		n, err := a.store.Erase(ctx, organization, until, eraseBatch)
		erased += n
		if err != nil || n < eraseBatch {
			return erased, err
		}
	}
}
