package postgres

import (
	"time"

	"switchyard.dev/services/webhook-egress/internal/delivery"
)

// earlierColumns are an endpoint's earlier secrets as they are stored: the newest in the columns that the release before
// migration 00017 reads and writes, the others in arrays.
type earlierColumns struct {
	previous   []byte
	until      time.Time
	older      [][]byte
	olderUntil []time.Time
}

// writeEarlier returns the columns of earlier secrets, the newest first.
func writeEarlier(earlier []delivery.EarlierSecret) earlierColumns {
	columns := earlierColumns{older: [][]byte{}, olderUntil: []time.Time{}} // NULL would break a constraint.
	for i, one := range earlier {
		if i == 0 {
			columns.previous, columns.until = one.Sealed, one.Until
			continue
		}
		columns.older, columns.olderUntil = append(columns.older, one.Sealed), append(columns.olderUntil, one.Until)
	}
	return columns
}

// readEarlier is the inverse of writeEarlier. Without a previous secret there are no older ones.
func readEarlier(previous []byte, until *time.Time, older [][]byte, olderUntil []time.Time) []delivery.EarlierSecret {
	if len(previous) == 0 {
		return nil
	}
	earlier := make([]delivery.EarlierSecret, 1, 1+len(older))
	earlier[0] = delivery.EarlierSecret{Sealed: previous, Until: orZero(until)}
	for i := range min(len(older), len(olderUntil)) {
		earlier = append(earlier, delivery.EarlierSecret{Sealed: older[i], Until: olderUntil[i]})
	}
	return earlier
}
