package app

import (
	"context"
	"fmt"

	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/redis"
	"switchyard.dev/services/gateway/internal/serving/cache"
	"switchyard.dev/services/platform/secret"
)

// warnNoCache is said of a policy that asks for what the settings don't give.
const warnNoCache = "the policy's cache needs " + prefix + "_REDIS_URL_FILE and " + prefix + "_CACHE_KEY_FILE; no answer is kept"

// openCache opens the response cache. It keeps answers where there are a Redis
// and a key to seal them with; whose, the policy says.
func (b *builder) openCache(ctx context.Context) error {
	if b.fleets.policy().Caches() && !b.cfg.keepsAnswers() {
		b.telemetry.Log.WarnContext(ctx, warnNoCache)
	}
	var store cache.Store
	var key secret.Value
	if b.cfg.keepsAnswers() {
		var err error
		if key, err = b.cfg.CacheKeyFile.Read(); err != nil {
			return fmt.Errorf("cache key: %w", err)
		}
		store = redis.NewAnswers(b.redis)
	}
	var err error
	b.answers, err = cache.New(store, postgres.NewEpochs(b.pool), []byte(key.Reveal()), b.telemetry.Log)
	if err != nil {
		return fmt.Errorf("%s_CACHE_KEY_FILE: %w", prefix, err)
	}
	return nil
}

// keepsAnswers reports whether there is what the response cache needs.
func (c Config) keepsAnswers() bool { return c.RedisURLFile != "" && c.CacheKeyFile != "" }
