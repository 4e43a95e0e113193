package upstream

import "testing"

// nolink is a link that holds no resources.
type nolink struct{ link }

func (nolink) close() {}

// However many sessions one organization begins, another organization's sessions are kept.
func TestOrganizationHasItsShareOfSessions(t *testing.T) {
	c, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	add := func(organization string, n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for version := range n {
			c.keep(peerKey{asker: organization, version: version}, &peer{link: nolink{}})
		}
	}
	add("acme", 10)
	add("hostile", 2*maxPeers)
	for version := range 10 {
		if !c.peers.Contains(peerKey{asker: "acme", version: version}) {
			t.Fatal("another organization's sessions took the place of one's")
		}
	}
	if c.peersOf["hostile"] != maxOrganizationPeers || !c.peers.Contains(peerKey{asker: "hostile", version: 2*maxPeers - 1}) {
		t.Errorf("one organization has %d sessions, want the last %d", c.peersOf["hostile"], maxOrganizationPeers)
	}
	for _, organization := range []string{"b", "c", "d", "e"} {
		add(organization, maxOrganizationPeers)
	}
	total := 0
	for _, n := range c.peersOf {
		total += n
	}
	if total != c.peers.Len() || total != maxPeers {
		t.Errorf("%d sessions are counted, %d kept, want %d", total, c.peers.Len(), maxPeers)
	}
}

func TestOrganizationHasItsShareOfFollowedResources(t *testing.T) {
	c, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	key := func(organization string, i int) peerKey {
		return peerKey{asker: organization, version: i / maxPeerSubscribed}
	}
	for i := range maxSubscribed {
		if share := maxSubscribed * subscribedShare / 100; c.enter(key("hostile", i)) != (i < share) {
			t.Fatalf("session %d of one organization, whose share is %d", i, share)
		}
	}
	for i := range maxPeerSubscribed + 1 {
		if c.enter(key("acme", 0)) != (i < maxPeerSubscribed) {
			t.Fatalf("session %d of another organization at one server, which may have %d", i, maxPeerSubscribed)
		}
	}
	for range maxPeerSubscribed {
		c.leave(key("acme", 0))
	}
	if held := c.following.Held(); held != 64 || len(c.subscribed) != 2 {
		t.Errorf("%d places are held at %d servers, want the 64 of one organization at two", held, len(c.subscribed))
	}
}
