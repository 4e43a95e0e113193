package app

import (
	"switchyard.dev/services/gateway/internal/capacity/quota"
	"switchyard.dev/services/gateway/internal/redis"
	"switchyard.dev/services/platform/service"
)

// startQuotas starts the exchange of the books of limits with other replicas. Without a Redis the replica is taken for
// the only one.
func startQuotas(s *service.Service, stores stores) (*quota.Books, error) {
	o := quota.Options{Log: s.Log}
	if stores.redis != nil {
		o.Store = redis.NewQuotas(stores.redis)
	}
	books := quota.New(o)
	s.Runner.Go("quotas", books.Run)
	return books, books.Measure(s.Meter)
}
