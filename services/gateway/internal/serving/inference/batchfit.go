package inference

import (
	"errors"
	"fmt"

	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/money/price"
)

// fitStep is the difference between the two output limits by which the cost of a further token is measured.
const fitStep = 100

// batchCost is what the requests of a batch job can cost at a host: worst as they are, least with an output limit of 1
// in each, and more with one of 1+fitStep.
type batchCost struct{ worst, least, more price.Pico }

func (c batchCost) plus(other batchCost) batchCost {
	return batchCost{c.worst.Plus(other.worst), c.least.Plus(other.least), c.more.Plus(other.more)}
}

// fit returns the largest output limit of each request, in tokens, with which all of them cost at most room at the host;
// 0 if no limit is small enough. A token of output costs the same whatever the limit.
func (c batchCost) fit(room price.Pico) int {
	if c.least > room {
		return 0
	}
	token := (c.more - c.least + fitStep - 1) / fitStep
	if token == 0 {
		return maxLimit
	}
	return int(min(1+(room-c.least)/token, maxLimit))
}

// Explain returns the refusal of a job that a limit does not cover, with the number of its requests. Where a field limits
// their output, it adds the largest limit that the ceiling would cover now. It returns any other error unchanged.
func (p *BatchPlan) Explain(err error) error {
	short, ok := errors.AsType[*budget.ShortError](err)
	switch {
	case errors.Is(err, run.ErrCallsLeft):
		refusal := *run.ErrCallsLeft
		refusal.Text += fmt.Sprintf("; the batch counts as %d calls", len(p.Requests))
		return &refusal
	case !ok:
		return err
	}
	refusal := *short.Refusal
	refusal.At = p.limitField
	refusal.Text += fmt.Sprintf(" of the batch's %d requests; ", len(p.Requests))
	limit := p.fit(short.Room)
	switch {
	case p.limitField == "":
		refusal.Text += "send fewer at once, or ask for a higher limit"
	case limit > 0:
		refusal.Text += fmt.Sprintf("it covers %s of at most %d in each now", p.limitField, limit)
	default:
		refusal.Text += fmt.Sprintf("no %s is small enough now: send fewer at once, or ask for a higher limit", p.limitField)
	}
	return &refusal
}

// fit returns the largest output limit of each request with which the job costs at most room at every target.
func (p *BatchPlan) fit(room price.Pico) int {
	limit := maxLimit
	for _, c := range p.costs {
		limit = min(limit, c.fit(room))
	}
	return limit
}
