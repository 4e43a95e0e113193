package chain

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/quota"
)

// headerExceeded names the soft and metered limits that a call exceeded, such as calls-month.
const headerExceeded = "X-Switchyard-Quota-Exceeded"

// Enforcer holds calls to plans, see quota.Enforcer.
type Enforcer interface {
	Take(ctx context.Context, c quota.Caller, use quota.Use) (quota.Verdict, error)
	GiveBack(c quota.Caller, use quota.Use, n int64, at time.Time)
	LongestRefused(now time.Time) time.Duration
}

// Quotas holds calls to the plans of their key and organization, and says so in answers and metrics.
type Quotas struct {
	enforcer          Enforcer
	refused, exceeded metric.Int64Counter
}

// NewQuotas returns the quotas of an Enforcer.
func NewQuotas(enforcer Enforcer, m metric.Meter) (*Quotas, error) {
	q := &Quotas{enforcer: enforcer}
	var err error
	if q.refused, err = m.Int64Counter("switchyard.edge.quota.refusals",
		metric.WithDescription("Calls that a hard limit of a plan, or the lack of credits, refused, by meter and period.")); err != nil {
		return nil, fmt.Errorf("counter of refusals: %w", err)
	}
	if q.exceeded, err = m.Int64Counter("switchyard.edge.quota.exceeded",
		metric.WithDescription("Calls beyond a soft or metered limit of a plan, by meter, period and kind.")); err != nil {
		return nil, fmt.Errorf("counter of exceeded limits: %w", err)
	}
	if _, err = m.Float64ObservableGauge("switchyard.edge.quota.refused_longest", metric.WithUnit("s"),
		metric.WithDescription("The longest time for which plans have refused all billed calls of an organization or a key that still calls."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			o.Observe(enforcer.LongestRefused(time.Now()).Seconds())
			return nil
		})); err != nil {
		return nil, fmt.Errorf("gauge of refused customers: %w", err)
	}
	return q, nil
}

// Hold counts a call on the plans of its key and organization, or refuses it. A call that fails is given back.
func (q *Quotas) Hold(w http.ResponseWriter, r *http.Request, l *Line, who quota.Caller, use quota.Use, call func() error) error {
	taken := time.Now()
	verdict, err := q.enforcer.Take(r.Context(), who, use)
	announceQuota(w.Header(), verdict)
	q.record(r.Context(), verdict)
	if err != nil {
		return err
	}
	defer func() {
		if !l.Succeeded {
			q.enforcer.GiveBack(who, use, 1, taken)
		}
	}()
	return call()
}

func (q *Quotas) record(ctx context.Context, v quota.Verdict) {
	if s := v.Refused; s.Limit != nil {
		q.refused.Add(ctx, 1, metric.WithAttributes(attribute.String("meter", string(s.Meter)), attribute.String("period", string(s.Period))))
	}
	for _, s := range v.Exceeded {
		q.exceeded.Add(ctx, 1, metric.WithAttributes(
			attribute.String("meter", string(s.Meter)), attribute.String("period", string(s.Period)), attribute.String("kind", string(s.Kind))))
	}
}

// announceQuota adds the tightest hard limit to RateLimit-Policy and RateLimit, and names the limits that are exceeded.
func announceQuota(h http.Header, v quota.Verdict) {
	tightest := v.Tightest
	if v.Refused.Limit != nil && v.Refused.Meter != plan.Credits {
		tightest = v.Refused
	}
	if tightest.Limit != nil {
		name := `"` + quotaName(tightest) + `"`
		addItem(h, "Ratelimit-Policy", name+";q="+strconv.FormatInt(tightest.Amount, 10)+
			";w="+strconv.FormatInt(int64(tightest.End().Sub(tightest.Start())/time.Second), 10))
		addItem(h, "Ratelimit", name+";r="+strconv.FormatInt(tightest.Remaining(), 10)+
			";t="+strconv.FormatInt(int64((time.Until(tightest.End())+time.Second-1)/time.Second), 10))
	}
	if len(v.Exceeded) == 0 {
		return
	}
	names := make([]string, len(v.Exceeded))
	for i, s := range v.Exceeded {
		names[i] = quotaName(s)
	}
	h[headerExceeded] = []string{strings.Join(names, ", ")}
}

// addItem adds an item to a list that is the value of a header.
func addItem(h http.Header, name, item string) {
	if list := h.Get(name); list != "" {
		item = list + ", " + item
	}
	h[name] = []string{item}
}

// quotaName returns the name of a limit in headers.
func quotaName(s quota.State) string { return string(s.Meter) + "-" + string(s.Period) }
