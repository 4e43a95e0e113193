package cluster

import (
	"cmp"
	"fmt"
	"slices"
)

// wanted returns how many pods a workload is to have: what an autoscaler allows of what was asked for.
func (c *Cluster) wanted(o *object) int {
	n := cmp.Or(o.replicas, o.workload().Replicas, 1)
	for _, scaler := range c.ofKind("HorizontalPodAutoscaler") {
		var of struct {
			Spec struct {
				MinReplicas    int                         `yaml:"minReplicas"`
				MaxReplicas    int                         `yaml:"maxReplicas"`
				ScaleTargetRef struct{ Kind, Name string } `yaml:"scaleTargetRef"`
			}
		}
		scaler.read(&of)
		if to := of.Spec.ScaleTargetRef; scaler.Namespace == o.Namespace && to.Kind == o.Kind && to.Name == o.Name {
			n = min(max(n, of.Spec.MinReplicas, 1), of.Spec.MaxReplicas)
		}
	}
	return n
}

// state is what a workload has of what it wants.
type state struct {
	want                 int
	updated, ready, rest int // pods of the present template, those of them that are ready, and other ones
}

// done reports whether the workload is as its manifest says.
func (s state) done() bool { return s.updated == s.want && s.ready == s.want && s.rest == 0 }

// state returns the state of a Deployment or a StatefulSet, and its pods that don't end.
func (c *Cluster) state(o *object) (state, []*pod) {
	pods := slices.DeleteFunc(c.podsOf(o), func(p *pod) bool { return p.stopping })
	s, hash := state{want: c.wanted(o)}, digest(o.part("template"))
	for _, p := range pods {
		switch {
		case p.hash != hash:
			s.rest++
		case p.isReady():
			s.updated, s.ready = s.updated+1, s.ready+1
		default:
			s.updated++
		}
	}
	return s, pods
}

// deploy brings a Deployment nearer to its manifest: by one pod more than it wants at most, and none that is ready less,
// as its manifest has it (maxSurge 1, maxUnavailable 0).
func (c *Cluster) deploy(o *object) {
	s, pods := c.state(o)
	hash := digest(o.part("template"))
	surge := 0
	if s.rest > 0 {
		surge = 1
	}
	if s.updated < s.want && len(pods) < s.want+surge {
		c.startPod(o, fmt.Sprintf("%s-%s-%s", o.Name, hash, suffix(c.next())), hash)
		return
	}
	available := 0
	for _, p := range pods {
		if p.isReady() {
			available++
		}
	}
	surplus := len(pods) - s.want
	for _, p := range slices.Backward(pods) {
		switch {
		case p.hash != hash && (!p.isReady() || available > s.want), p.hash == hash && s.rest == 0 && surplus > 0:
			p.end()
			return
		}
	}
}

// keepStateful brings a StatefulSet nearer to its manifest: its pods have numbers, and one at a time is replaced, from
// the last one.
func (c *Cluster) keepStateful(o *object) {
	want, hash := c.wanted(o), digest(o.part("template"))
	ordered := o.workload().PodManagementPolicy != "Parallel"
	pods, surplus := make([]*pod, want), make(map[string]*pod)
	for _, p := range c.podsOf(o) {
		surplus[p.name] = p
	}
	for n := range pods {
		name := fmt.Sprint(o.Name, "-", n)
		pods[n] = surplus[name]
		delete(surplus, name)
		if pods[n] == nil {
			c.startPod(o, name, hash)
		}
		if ordered && (pods[n] == nil || !pods[n].isReady()) {
			return
		}
	}
	for _, p := range surplus {
		p.end()
	}
	for _, p := range slices.Backward(pods) {
		if p != nil && p.hash != hash && !p.stopping {
			p.end()
			return
		}
		if p == nil || !p.isReady() {
			return
		}
	}
}
