package postgres

import (
	"context"
	"time"

	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/circuit"
	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
)

var _ circuit.Store = (*Store)(nil)

// maxFlows is how many flows of one target are read: as many as an organization may have endpoints by default.
const maxFlows = 1000

// Targets implements circuit.Store.
func (s *Store) Targets(
	ctx context.Context, organization string, every, waiting bool, after breaker.Target, limit int,
) ([]circuit.Stored, error) {
	p := dbsql.NextTargetsParams{
		EveryOrganization: every, OrganizationID: organization, AfterOrganization: after.Organization, AfterHost: after.Host,
		AfterPort: int32(after.Port), Page: int32(limit),
	}
	var targets []dbsql.NextTargetsRow
	var err error
	if waiting {
		var open []dbsql.NextOpenTargetsRow
		open, err = s.sql.NextOpenTargets(ctx, dbsql.NextOpenTargetsParams(p))
		for _, row := range open {
			targets = append(targets, dbsql.NextTargetsRow(row))
		}
	} else {
		targets, err = s.sql.NextTargets(ctx, p)
	}
	if err != nil {
		return nil, explain("look for targets", err)
	}
	wanted := dbsql.ReadTargetsParams{Most: maxFlows}
	for _, t := range targets {
		wanted.Organizations, wanted.Hosts = append(wanted.Organizations, t.OrganizationID), append(wanted.Hosts, t.Host)
		wanted.Ports = append(wanted.Ports, t.Port)
	}
	rows, err := s.sql.ReadTargets(ctx, wanted)
	if err != nil {
		return nil, explain("read targets", err)
	}
	flows, err := s.sql.ReadWaitingFlows(ctx, dbsql.ReadWaitingFlowsParams{
		Organizations: wanted.Organizations, Hosts: wanted.Hosts, Ports: wanted.Ports, Most: circuit.MaxFlows,
	})
	if err != nil {
		return nil, explain("read waiting flows", err)
	}
	waits := make(map[breaker.Target][]circuit.StoredFlow)
	for _, f := range flows {
		target := breaker.Target{Organization: f.OrganizationID, Host: f.Host, Port: int(f.Port)}
		waits[target] = append(waits[target], circuit.StoredFlow{
			ID: f.FlowID, Endpoint: f.EndpointID.Bytes, OpenedAt: notEpoch(f.OpenedAt), ParkedUntil: f.ParkedUntil, Openings: int(f.Opened),
			Circuit: int(f.Circuit), Failures: int(f.Failures), LastFailedAt: notEpoch(f.LastFailedAt), LastDeliveredAt: notEpoch(f.LastDeliveredAt),
		})
	}
	stored := make([]circuit.Stored, len(rows))
	for i := range rows {
		stored[i] = storedTarget(&rows[i])
		stored[i].Flows = waits[stored[i].Target]
	}
	return stored, nil
}

func storedTarget(row *dbsql.ReadTargetsRow) circuit.Stored {
	return circuit.Stored{
		Target:  breaker.Target{Organization: row.OrganizationID, Host: row.Host, Port: int(row.Port)},
		Waiting: row.Waiting, OpenedAt: notEpoch(row.OpenedAt), ParkedUntil: notEpoch(row.ParkedUntil), Openings: int(row.Opened),
		Failures: int(row.Failures), LastFailedAt: notEpoch(row.LastFailedAt), LastDeliveredAt: notEpoch(row.LastDeliveredAt),
		Endpoints: int(row.Endpoints), WaitingFlows: int(row.WaitingFlows),
	}
}

// notEpoch returns the zero time for the epoch, which stands for none.
func notEpoch(t time.Time) time.Time {
	if t.Equal(epoch) {
		return time.Time{}
	}
	return t
}
