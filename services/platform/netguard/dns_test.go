package netguard

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// nameserver answers each A query for a name with the next of its lists of addresses, repeating the last one, and any
// other query with an empty answer.
type nameserver struct {
	mu      sync.Mutex
	answers map[string][][]netip.Addr
	asked   []string
}

// newResolver returns Go's resolver with every query sent to the nameserver.
func newResolver(tb testing.TB, answers map[string][][]netip.Addr) (*net.Resolver, *nameserver) {
	tb.Helper()
	ns := &nameserver{answers: answers}
	var serving sync.WaitGroup
	tb.Cleanup(serving.Wait)
	return &net.Resolver{
		PreferGo: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			serving.Go(func() {
				defer server.Close()
				if err := ns.serve(server); err != nil {
					tb.Errorf("name server: %v", err)
				}
			})
			return client, nil
		},
	}, ns
}

// serve answers one query in the framing of DNS over TCP (RFC 1035, section 4.2.2).
func (ns *nameserver) serve(conn io.ReadWriter) error {
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	packet := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, packet); err != nil {
		return err
	}
	var msg dnsmessage.Message
	if err := msg.Unpack(packet); err != nil {
		return err
	}
	msg.Response, msg.Additionals = true, nil
	msg.Answers = ns.answer(msg.Questions[0])
	packet, err := msg.AppendPack(size[:])
	if err != nil {
		return err
	}
	binary.BigEndian.PutUint16(packet, uint16(len(packet)-len(size)))
	_, err = conn.Write(packet)
	return err
}

func (ns *nameserver) answer(q dnsmessage.Question) []dnsmessage.Resource {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	name := q.Name.String()
	switch q.Type {
	case dnsmessage.TypeA:
	case dnsmessage.TypeAAAA:
		return resources(q, ns.answers[name]) // for a name that always has the same ones
	default:
		return nil
	}
	ns.asked = append(ns.asked, name)
	lists := ns.answers[name]
	if len(lists) == 0 {
		return nil
	}
	if len(lists) > 1 {
		ns.answers[name] = lists[1:]
	}
	return resources(q, lists)
}

// resources returns the answer to a question with the addresses of the first list.
func resources(q dnsmessage.Question, lists [][]netip.Addr) (found []dnsmessage.Resource) {
	if len(lists) == 0 {
		return nil
	}
	header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
	for _, addr := range lists[0] {
		switch {
		case addr.Is4() && q.Type == dnsmessage.TypeA:
			found = append(found, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}})
		case addr.Is6() && q.Type == dnsmessage.TypeAAAA:
			found = append(found, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	return found
}
