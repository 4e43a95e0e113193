package app

import (
	"context"
	"fmt"

	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/redis"
	"switchyard.dev/services/gateway/internal/serving/cache"
	"switchyard.dev/services/platform/secret"
)

// warnNoCache warns of a policy that enables the cache without the settings that it needs.
const warnNoCache = "the policy's cache needs " + prefix + "_REDIS_URL_FILE and " + prefix + "_CACHE_KEY_FILE; no answer is cached"

// openCache opens the response cache. It stores answers if there are a Redis and a key to seal them with; the policy
// says for which organizations.
func (b *builder) openCache(ctx context.Context) error {
	if b.fleets.policy().Caches() && !b.cfg.hasResponseCache() {
		b.service.Log.WarnContext(ctx, warnNoCache)
	}
	var store cache.Store
	var key secret.Value
	if b.cfg.hasResponseCache() {
		var err error
		if key, err = b.cfg.CacheKeyFile.Read(); err != nil {
			return fmt.Errorf("cache key: %w", err)
		}
		store = redis.NewAnswers(b.redis)
	}
	var err error
	b.answers, err = cache.New(store, postgres.NewEpochs(b.pool), []byte(key.Reveal()), b.service.Log)
	if err != nil {
		return fmt.Errorf("%s_CACHE_KEY_FILE: %w", prefix, err)
	}
	return nil
}

// hasResponseCache reports whether the settings of the response cache are complete.
func (c Config) hasResponseCache() bool { return c.RedisURLFile != "" && c.CacheKeyFile != "" }
