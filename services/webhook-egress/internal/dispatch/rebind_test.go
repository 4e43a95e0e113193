package dispatch_test

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// nameServer answers over UDP: a public address first, one of ours from then on.
type nameServer struct {
	net.PacketConn

	asked atomic.Int32
}

func newNameServer(t *testing.T, honest int32, first, then netip.Addr) *nameServer {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{PacketConn: conn}
	var serving sync.WaitGroup
	serving.Go(func() {
		packet := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			var msg dnsmessage.Message
			if msg.Unpack(packet[:n]) != nil || len(msg.Questions) != 1 {
				continue
			}
			msg.Response, msg.Additionals = true, nil
			if q := msg.Questions[0]; q.Type == dnsmessage.TypeA {
				addr := first
				if s.asked.Add(1) > honest {
					addr = then
				}
				msg.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, // TTL 0
					Body:   &dnsmessage.AResource{A: addr.As4()},
				}}
			}
			if answer, err := msg.Pack(); err == nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	})
	t.Cleanup(func() { conn.Close(); serving.Wait() })
	return s
}

func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", s.LocalAddr().String())
	}}
}

// A name that was public when the delivery was accepted, and is ours when it is
// dialled: each attempt is refused, none reaches us, and the refusal tells no address.
func TestRebinding(t *testing.T) {
	t.Parallel()
	canary := newReceiver(t, nil)
	_, port, err := net.SplitHostPort(canary.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	names := newNameServer(t, 1, netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("127.0.0.1"))
	w := newWorld(t)
	if w.guard, err = netguard.New(netguard.Options{Resolver: names.resolver()}); err != nil {
		t.Fatal(err)
	}
	n := w.start()
	q := request(canary)
	q.URL, q.MaxAttempts = "http://rebind.example.com:"+port+"/hook", new(3)
	id := w.enqueue(n, q)
	w.untilStatus(id, delivery.StatusFailed)
	attempts := w.attempts(id)
	for _, a := range attempts {
		if a.Error != delivery.FaultTarget || a.RemoteIP != "" || a.ResponseBody != "" {
			t.Errorf("attempt %+v", a)
		}
	}
	if len(attempts) != 3 || canary.count() != 0 || names.asked.Load() != 4 {
		t.Errorf("%d attempts, %d requests, %d look-ups", len(attempts), canary.count(), names.asked.Load())
	}
	// Another organization is told at once.
	q.URL = "http://other.example.com:" + port + "/hook"
	if _, err := n.service.Enqueue(t.Context(), q); err == nil {
		t.Error("a name of ours was accepted")
	}
}
