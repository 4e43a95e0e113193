package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"switchyard.dev/deploy/dev/process"
)

// probe is a probe of a container, with the defaults of Kubernetes where it is silent.
type probe struct {
	HTTPGet *struct{ Path, Port, Scheme string } `yaml:"httpGet"`

	PeriodSeconds    int `yaml:"periodSeconds"`
	TimeoutSeconds   int `yaml:"timeoutSeconds"`
	FailureThreshold int `yaml:"failureThreshold"`
}

func (p *probe) period() time.Duration { return seconds(p.PeriodSeconds, 10) }

func seconds(n, otherwise int) time.Duration {
	if n == 0 {
		n = otherwise
	}
	return time.Duration(n) * time.Second
}

// asker asks as kubelet does, which checks no certificate.
var asker = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// ask makes the probe's request; nil is a success.
func (c *Cluster) ask(ctx context.Context, p *pod, of *probe) error {
	if of.HTTPGet == nil {
		return errors.New("a probe of a kind that this cluster has not")
	}
	c.mu.Lock()
	number := p.spec.Containers[0].port(of.HTTPGet.Port)
	address := p.ports[number]
	c.mu.Unlock()
	if address == "" {
		return fmt.Errorf("couldn't find port: %s", of.HTTPGet.Port)
	}
	scheme := "http"
	if of.HTTPGet.Scheme != "" {
		scheme = strings.ToLower(of.HTTPGet.Scheme)
	}
	ctx, cancel := context.WithTimeout(ctx, seconds(of.TimeoutSeconds, 1))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+of.HTTPGet.Path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := asker.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("HTTP probe failed with statuscode: %d", response.StatusCode)
	}
	return nil
}

// watch asks the probes of a container until it ends, or ctx. One that does not start or does not live is killed.
func (c *Cluster) watch(ctx context.Context, p *pod, run *process.Process) {
	of := p.spec.Containers[0]
	if of.StartupProbe != nil && !c.started(ctx, p, run, of.StartupProbe) {
		return
	}
	if of.ReadinessProbe == nil {
		p.ready.Store(of.LivenessProbe != nil || !p.spec.ends())
	}
	var live, ready counter
	nextLive, nextReady := time.Now(), time.Now()
	for running(ctx, run, pause) {
		if of.ReadinessProbe != nil && !time.Now().Before(nextReady) {
			nextReady = time.Now().Add(of.ReadinessProbe.period())
			err := c.ask(ctx, p, of.ReadinessProbe)
			if failed := ready.failed(err, of.ReadinessProbe); err == nil || failed {
				p.ready.Store(err == nil)
			}
			if err != nil && !p.ready.Load() {
				c.say(p, "Readiness probe failed: "+err.Error())
			}
		}
		if of.LivenessProbe != nil && !time.Now().Before(nextLive) {
			nextLive = time.Now().Add(of.LivenessProbe.period())
			if err := c.ask(ctx, p, of.LivenessProbe); live.failed(err, of.LivenessProbe) {
				run.Kill()
			}
		}
	}
}

// started asks the startup probe until it succeeds, and reports whether it has.
func (c *Cluster) started(ctx context.Context, p *pod, run *process.Process, of *probe) bool {
	var begun counter
	for {
		err := c.ask(ctx, p, of)
		if err == nil {
			return true
		}
		c.say(p, "Startup probe failed: "+err.Error())
		if begun.failed(err, of) {
			run.Kill()
			return false
		}
		if !running(ctx, run, of.period()) {
			return false
		}
	}
}

// counter counts failures in a row.
type counter int

// failed records the result of a probe, and reports whether its threshold of failures is reached.
func (n *counter) failed(err error, of *probe) bool {
	if err == nil {
		*n = 0
		return false
	}
	*n++
	threshold := of.FailureThreshold
	if threshold == 0 {
		threshold = 3
	}
	return int(*n) >= threshold
}

// running waits, and reports whether the container still runs and is to run on.
func running(ctx context.Context, run *process.Process, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-run.Ended():
		return false
	case <-timer.C:
		return true
	}
}
