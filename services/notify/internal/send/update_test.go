package send_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/send"
)

// updates has one notification, and keeps what it is given.
type updates struct {
	kept    send.Kept
	updates []send.Accepted
}

func (u *updates) Kept(context.Context, string, uuid.UUID) (send.Kept, error) { return u.kept, nil }

func (u *updates) Update(_ context.Context, a send.Accepted) (send.Receipt, error) {
	u.updates = append(u.updates, a)
	return send.Receipt{ID: a.ID, Number: len(u.updates)}, nil
}

// box binds a text to its owner.
type box struct{}

func (box) Seal(text []byte, owner string) []byte { return append([]byte(owner+" "), text...) }

func (box) Open(sealed []byte, owner string) ([]byte, error) {
	if len(sealed) <= len(owner) || string(sealed[:len(owner)]) != owner {
		return nil, errors.New("sealed for another")
	}
	return sealed[len(owner)+1:], nil
}

// TestUpdateRestores checks what an update takes from its notification, and that a payload and data that no channel has
// read are not kept.
func TestUpdateRestores(t *testing.T) {
	of := &updates{}
	o := &outbox{}
	service := send.NewService(send.Options{
		Registry: channel.NewRegistry(false, channel.InAppSender{}), Outbox: o, Updates: of, Sealer: box{}, Opener: box{},
	})
	target := channel.Target{User: "ann", URL: "/7", Payload: []byte(`{"a":1}`), Data: []byte(`{"b":2}`), Topic: "t"}
	first, err := service.Accept(t.Context(), send.Request{
		Channels: []channel.Name{channel.InApp}, Message: channel.Message{Organization: "acme", Subject: "S", Text: "m", Target: target},
	})
	if err != nil {
		t.Fatal(err)
	}
	of.kept = send.Kept{Channels: []channel.Name{channel.InApp}, Sealed: o.accepted[0].Kept}
	for subject, want := range map[string]string{"": "S", "New": "New"} {
		receipt, err := service.Update(t.Context(), send.Request{Message: channel.Message{Organization: "acme", Subject: subject, Text: "n", Updates: first.ID}})
		if err != nil || len(receipt.Channels) != 1 {
			t.Fatal(receipt, err)
		}
		a := of.updates[len(of.updates)-1]
		if m := a.Message; m.Subject != want || m.Text != "n" || m.Target.User != "ann" || m.Target.URL != "/7" || m.Target.Payload != nil ||
			string(m.Target.Data) != `{"b":2}` || m.Target.Topic != "t" || a.Kept != nil || a.ID == first.ID || m.ID != a.ID {
			t.Errorf("update %+v", a)
		}
	}
	if _, err := service.Update(t.Context(), send.Request{Message: channel.Message{Updates: uuid.New(), Text: "n"}}); err == nil {
		t.Error("the target of another notification was opened")
	}
}

// TestUpdateWithoutTarget checks that only an in-app record can be updated without what a notification keeps.
func TestUpdateWithoutTarget(t *testing.T) {
	for name, ok := range map[channel.Name]bool{channel.InApp: true, channel.Slack: false} {
		of := &updates{kept: send.Kept{Channels: []channel.Name{name}}}
		service := send.NewService(send.Options{Registry: channel.NewRegistry(false, channel.InAppSender{}), Updates: of})
		_, err := service.Update(t.Context(), send.Request{Message: channel.Message{Updates: uuid.New(), Text: "n"}})
		if (err == nil) != ok || err != nil && !errors.Is(err, send.ErrNotUpdatable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
