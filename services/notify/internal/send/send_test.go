package send_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/send"
)

func TestStatus(t *testing.T) {
	tests := map[string]struct {
		states []send.State
		want   send.Status
	}{
		"one delivered":     {[]send.State{send.StateDelivered}, "delivered"},
		"all delivered":     {[]send.State{send.StateDelivered, send.StateDelivered}, "delivered"},
		"some delivered":    {[]send.State{send.StateFailed, send.StateDelivered}, "partial"},
		"none delivered":    {[]send.State{send.StateFailed, send.StateFailed}, "failed"},
		"one queued":        {[]send.State{send.StateDelivered, send.StateQueued}, "pending"},
		"one is being sent": {[]send.State{send.StateFailed, send.StateSending}, "pending"},
		"all superseded":    {[]send.State{send.StateSuperseded, send.StateSuperseded}, "superseded"},
		"one superseded":    {[]send.State{send.StateSuperseded, send.StateDelivered}, "delivered"},
		"and one failed":    {[]send.State{send.StateSuperseded, send.StateFailed}, "failed"},
		"three ends":        {[]send.State{send.StateSuperseded, send.StateFailed, send.StateDelivered}, "partial"},
		"one waits":         {[]send.State{send.StateRetrying, send.StateDelivered}, "pending"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var log send.Log
			for _, state := range tt.states {
				log.Channels = append(log.Channels, send.ChannelLog{State: state})
			}
			if got := log.Status(); got != tt.want {
				t.Errorf("status = %s, want %s", got, tt.want)
			}
		})
	}
}

// outbox keeps what it is given.
type outbox struct {
	accepted []send.Accepted
	err      error
}

func (o *outbox) Accept(_ context.Context, a send.Accepted) (send.Receipt, error) {
	o.accepted = append(o.accepted, a)
	return send.Receipt{ID: a.ID}, o.err
}

func TestAccept(t *testing.T) {
	full := errors.New("disk full")
	tests := map[string]struct {
		request send.Request
		outbox  outbox
		stored  int
		ok      bool
	}{
		"in-app":            {send.Request{Channels: []channel.Name{channel.InApp}}, outbox{}, 1, true},
		"the store fails":   {send.Request{Channels: []channel.Name{channel.InApp}}, outbox{err: full}, 1, false},
		"one channel fails": {send.Request{Channels: []channel.Name{channel.InApp, channel.Slack}}, outbox{}, 0, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			service := send.NewService(send.Options{Registry: channel.NewRegistry(false, channel.InAppSender{}), Outbox: &tt.outbox})
			receipt, err := service.Accept(t.Context(), tt.request)
			if (err == nil) != tt.ok || len(tt.outbox.accepted) != tt.stored {
				t.Fatalf("err = %v with %d stored, want ok %v with %d", err, len(tt.outbox.accepted), tt.ok, tt.stored)
			}
			if tt.ok && (receipt.ID == uuid.Nil || len(tt.outbox.accepted[0].Works) != 1) {
				t.Errorf("receipt %v of %+v", receipt, tt.outbox.accepted[0])
			}
			if tt.outbox.err != nil && !errors.Is(err, full) {
				t.Errorf("err = %v, want the store's", err)
			}
		})
	}
}
