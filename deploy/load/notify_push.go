package main

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/fakes/plain"
)

// registrars is the number of devices registered at a time.
const registrars = 32

// measurePush registers devices and sends to all of them, then once more with a kill of the service in between.
func (r *notifyRig) measurePush(ctx context.Context, devices int, out *strings.Builder) error {
	began := time.Now()
	if err := r.register(ctx, devices); err != nil {
		return err
	}
	printf(out, "\npush, to a service that decrypts nothing; %d devices, registered at %.0f/s\n", devices, float64(devices)/time.Since(began).Seconds())
	whole, err := r.broadcast(ctx, devices, 0)
	if err != nil {
		return err
	}
	n := float64(devices)
	printf(out, "  broadcast            %.0f pushes/s, in %s\n", n/whole.took.Seconds(), whole.took.Round(100*time.Millisecond))
	printf(out, "  CPU of the service   %.0f µs a push: %.0f pushes/s and core; of Postgres %.0f µs\n",
		whole.service.Seconds()/n*1e6, n/whole.service.Seconds(), whole.postgres.Seconds()/n*1e6)
	printf(out, "  RSS in MiB           %.0f before, %.0f at most; by tenths of the way %.0f\n", whole.before, slices.Max(whole.rss), tenths(whole.rss))
	printf(out, "  arrived              %d pushes at %d devices\n", whole.tally.Pushes, whole.tally.Devices)
	killed, err := r.broadcast(ctx, devices, devices/3)
	if err != nil {
		return err
	}
	printf(out, "  with a kill -9       %d pushes at %d devices, %d of them twice; marked as possibly duplicated: %t; in %s, a lease of it\n",
		killed.tally.Pushes, killed.tally.Devices, killed.tally.Pushes-killed.tally.Devices, killed.log.Doubled, killed.took.Round(100*time.Millisecond))
	return nil
}

// register registers devices that all have one key pair: a push costs the same, and registering costs less.
func (r *notifyRig) register(ctx context.Context, devices int) error {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	auth := make([]byte, 16)
	_, _ = rand.Read(auth)
	keys := map[string]string{
		"p256dh": base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes()), "auth": base64.RawURLEncoding.EncodeToString(auth),
	}
	group, ctx := errgroup.WithContext(ctx)
	for first := range registrars {
		group.Go(func() error {
			for n := first; n < devices; n += registrars {
				body := map[string]any{"subscription": map[string]any{"endpoint": fmt.Sprint(r.receiver.url, "/push/", n), "keys": keys}}
				var made struct{}
				if err := r.callRetrying(ctx, http.MethodPost, "/v1/push/registrations", body, &made); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// broadcastFigures holds the figures of a broadcast.
type broadcastFigures struct {
	took              time.Duration
	service, postgres time.Duration // processor time
	before            float64       // RSS in MiB, and rss while it went on
	rss               []float64
	tally             plain.PushTally
	log               sendLog
}

// sendLog is the log of the one channel of a send.
type sendLog struct {
	Status    string `json:"status"`
	Delivered int    `json:"delivered_count"`
	Failed    int    `json:"failed_count"`
	Doubled   bool   `json:"possibly_duplicated"`
}

// broadcast sends to all devices and waits until the send has ended. Once killAt devices were reached, it kills the
// service and starts it again; never for 0.
func (r *notifyRig) broadcast(ctx context.Context, devices, killAt int) (f broadcastFigures, err error) {
	if err := r.tally(ctx, http.MethodDelete, nil); err != nil {
		return f, err
	}
	if f.before, err = r.rss(); err != nil {
		return f, err
	}
	service, postgres, began := used([]int{r.service}), used(r.postgres()), time.Now()
	var sent struct {
		ID string `json:"notification_id"`
	}
	body := map[string]any{
		"channels": []string{"web_push"}, "subject": "Order 7", "message": strings.Repeat("carriage ", 20), "target": map[string]any{"broadcast": true},
	}
	if err := r.call(ctx, http.MethodPost, "/v1/notify", body, &sent); err != nil {
		return f, err
	}
	const look = 250 * time.Millisecond
	tick := time.NewTicker(look)
	defer tick.Stop()
	for f.log.Status == "" {
		<-tick.C
		if ctx.Err() != nil {
			return f, ctx.Err()
		}
		if err := r.watch(ctx, sent.ID, &f); err != nil {
			return f, err
		}
		if killAt > 0 && f.tally.Devices >= killAt {
			killAt = 0
			if err := r.killed(ctx); err != nil {
				return f, err
			}
		}
	}
	f.took = time.Since(began)
	f.service, f.postgres = used([]int{r.service})-service, used(r.postgres())-postgres
	if f.log.Delivered != devices || f.log.Failed > 0 || f.tally.Devices != devices {
		return f, fmt.Errorf("%d devices: the log says %+v, arrived %+v", devices, f.log, f.tally)
	}
	return f, nil
}

// watch records the progress of a broadcast, and its outcome when it has ended.
func (r *notifyRig) watch(ctx context.Context, id string, f *broadcastFigures) error {
	rss, err := r.rss()
	if err != nil {
		return err
	}
	f.rss = append(f.rss, rss)
	if err := r.tally(ctx, http.MethodGet, &f.tally); err != nil {
		return err
	}
	var log struct {
		Status   string    `json:"status"`
		Channels []sendLog `json:"channels"`
	}
	if err := r.callRetrying(ctx, http.MethodGet, "/v1/notifications/sends/"+id+"?limit=1", nil, &log); err != nil {
		return err
	}
	if log.Status != "pending" {
		f.log = log.Channels[0]
	}
	return nil
}

// killed kills the service and starts it again.
func (r *notifyRig) killed(ctx context.Context) (err error) {
	if err := r.stack.Kill(string(stack.Notify)); err != nil {
		return err
	}
	if err := r.stack.Restart(ctx, string(stack.Notify)); err != nil {
		return err
	}
	r.service, err = r.stack.PID(string(stack.Notify))
	return err
}

// tally reads the counts of the push service, or resets them.
func (r *notifyRig) tally(ctx context.Context, method string, into *plain.PushTally) error {
	request, err := http.NewRequestWithContext(ctx, method, r.receiver.url+"/tally", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := r.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if into == nil {
		_, err = io.Copy(io.Discard, answer.Body)
		return err
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

// tenths returns ten of many values, evenly spaced.
func tenths(all []float64) []float64 {
	const parts = 10
	var some []float64
	for i := range parts {
		some = append(some, all[i*len(all)/parts])
	}
	return some
}
