package inference

import "context"

// Check returns the error with which a request would be refused now, before a provider is called: for a request that is
// accepted now and made later.
func (e *Engine) Check(ctx context.Context, r *Request) error {
	a := admitted{request: r, fleet: e.Fleet()}
	ctx, err := a.admit(ctx, e.Admission)
	if err != nil {
		return err
	}
	if a.grant != nil {
		defer a.grant.End(false)
	}
	describe(r)
	plan, err := a.fleet.Planner.Plan(r.Route)
	if err != nil {
		return err
	}
	s := selection{plan: plan}
	if err := e.resolve(ctx, &s, &a); err != nil {
		return err
	}
	return s.allow(&a)
}
