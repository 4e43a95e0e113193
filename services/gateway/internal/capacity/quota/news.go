package quota

import "time"

// Correct applies the remaining tokens of a subject as a vendor reports them, and the time until the limit is fully reset.
// It only lowers what is free, and only if the vendor reports clearly less than the books have: vendors round, and their
// reports leave out calls that are still on their way.
func (b *Books) Correct(s Subject, remaining int64, reset time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.accounts[s]
	if a == nil || a.limit.Tokens == 0 || remaining < 0 || reset <= 0 {
		return
	}
	now := b.now()
	limit := a.outside.believed(a.limit.Tokens, now)
	used := a.view.used(now.Unix()).Tokens + a.alone.used(now.Unix()).Tokens
	unseen := limit - used - (remaining - a.unknown(now.Unix()))
	if unseen*toleratedPart < limit {
		return
	}
	b.learn(a, News{Subject: s, Unseen: min(unseen, limit), Reset: min(reset, span)})
}

// unknown returns the tokens in flight that the vendor can't have counted when it wrote its last answer: all of them if
// it counts on completion, else those of the last two seconds.
func (a *account) unknown(slot int64) int64 {
	if a.limit.Counting == CountCompletion {
		return a.inflight.Tokens
	}
	a.own.advance(slot)
	return a.own.At(slot).Tokens + a.own.At(slot-1).Tokens
}

// Exhausted applies a vendor's refusal: nothing of the subject is free for a time. If the books had something left, the
// limit is less than configured: 0.9 of what was believed, at most once in ten seconds. It is believed again by a
// hundredth of the configured limit every ten seconds.
func (b *Books) Exhausted(s Subject, retryAfter time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.accounts[s]
	if a == nil {
		return
	}
	now := b.now()
	used := a.view.used(now.Unix()).plus(a.alone.used(now.Unix()))
	free := a.limit.Tokens == 0 || used.Tokens+a.outside.unseen(now) < a.outside.believed(a.limit.Tokens, now)
	free = free && (a.limit.Requests == 0 || used.Requests < a.outside.believed(a.limit.Requests, now))
	b.learn(a, News{Subject: s, Blocked: max(retryAfter, time.Second), Cut: free})
}

// learn applies news here at once, and to the shared books soon.
func (b *Books) learn(a *account, n News) {
	a.outside.Learn(n, b.now())
	a.news = a.news.merge(n)
	b.outbox.due[a] = struct{}{}
	signal(b.work)
}

// merge returns the news of both.
func (n News) merge(o News) News {
	o.Cut = o.Cut || n.Cut
	o.Blocked = max(o.Blocked, n.Blocked)
	if n.Unseen > o.Unseen {
		o.Unseen, o.Reset = n.Unseen, n.Reset
	}
	return o
}
