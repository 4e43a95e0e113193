package export

import (
	"testing"
	"time"
)

// A preview leaves out what will not be sent: the settled events of the page at the cursor, and the others if the
// destination may no longer recognize them. Later pages are whole.
func TestPreviewLeavesOutSettledEvents(t *testing.T) {
	for name, tt := range map[string]struct {
		kind        Kind
		growths     int
		settled     int
		unsureSince time.Time
		want        int
	}{
		"nothing is settled":             {Lago, 100, 0, time.Time{}, 100},
		"all but one of a page":          {Lago, 100, 99, time.Time{}, 1},
		"with pages behind it":           {Lago, 250, 99, time.Time{}, 151},
		"the whole page":                 {Lago, 100, 100, time.Time{}, 0},
		"unsure, soon at Stripe":         {Stripe, 250, 99, hour.Add(-22 * time.Hour), 151},
		"unsure, too late at Stripe":     {Stripe, 250, 99, hour.Add(-23 * time.Hour), 150},
		"unsure, late at OpenMeter":      {OpenMeter, 250, 99, hour.Add(-23 * time.Hour), 151},
		"unsure, too late for OpenMeter": {OpenMeter, 1150, 99, hour.Add(-31 * 24 * time.Hour), 150},
		"unsure, late at Lago":           {Lago, 250, 99, hour.Add(-40 * 24 * time.Hour), 151},
	} {
		t.Run(name, func(t *testing.T) {
			store := &archive{memory: memory{fence: 1}}
			store.fill(tt.growths)
			d := Destination{Name: "d", Kind: tt.kind, Meters: map[string]string{"llm_requests": "calls"}}
			c := Cursor{ID: 1, Destination: "d", Source: Counts, Since: hour, UnsureSince: tt.unsureSince}
			for _, g := range store.growths[:tt.settled] {
				c.Settled = append(c.Settled, identifiers(d.Events(Counts, g.Entry()))...)
			}
			store.cursors = []Cursor{c}
			m := NewManager(Settings{Destinations: []Destination{d}}, store, map[Source]Pager{Counts: NewCountFeed(&store.memory)})
			got, err := m.PreviewNext(t.Context(), "d", hour)
			if err != nil || !got.Complete {
				t.Fatalf("%+v, %v", got, err)
			}
			events := 0
			for _, meter := range got.Meters {
				events += meter.Events
			}
			if events != tt.want {
				t.Errorf("%d events would be sent, want %d", events, tt.want)
			}
		})
	}
}
