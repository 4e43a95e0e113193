package app

import (
	"context"
	"fmt"

	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/redis"
	"switchyard.dev/services/gateway/internal/serving/cache"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/service"
)

// warnNoCache warns of a policy that enables the cache without the settings that it needs.
const warnNoCache = "the policy's cache needs " + prefix + "_REDIS_URL_FILE and " + prefix + "_CACHE_KEY_FILE; no answer is cached"

// openCache opens the response cache. It stores answers if there are a Redis and a key to seal them with; the policy
// says for which organizations.
func openCache(ctx context.Context, s *service.Service, cfg Config, stores stores, fleets *fleets) (*cache.Cache, error) {
	if fleets.policy().Caches() && !cfg.hasResponseCache() {
		s.Log.WarnContext(ctx, warnNoCache)
	}
	var store cache.Store
	var key secret.Value
	if cfg.hasResponseCache() {
		var err error
		if key, err = cfg.CacheKeyFile.Read(); err != nil {
			return nil, fmt.Errorf("cache key: %w", err)
		}
		store = redis.NewAnswers(stores.redis)
	}
	answers, err := cache.New(store, postgres.NewEpochs(stores.pool), []byte(key.Reveal()), s.Log)
	if err != nil {
		return nil, fmt.Errorf("%s_CACHE_KEY_FILE: %w", prefix, err)
	}
	return answers, nil
}

// hasResponseCache reports whether the settings of the response cache are complete.
func (c Config) hasResponseCache() bool { return c.RedisURLFile != "" && c.CacheKeyFile != "" }
