package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// KnownCluster returns an error if NATS has never seen a cluster, which is then a typo or
// not set up. The empty ID stands for all clusters.
func KnownCluster(ctx context.Context, s *stream.Stream, cluster string) error {
	said, err := Unseen(ctx, s, cluster)
	if err == nil && said != "" {
		err = command.Wrong("%s", said)
	}
	return err
}

// Unseen says that NATS has never seen a cluster, with the nearest one and all that it
// knows. The sentence is empty for a cluster that it knows, and for the empty ID.
func Unseen(ctx context.Context, s *stream.Stream, cluster string) (string, error) {
	if cluster == "" {
		return "", nil
	}
	known, err := s.Clusters(ctx)
	if err != nil {
		return "", err
	}
	if slices.Contains(known, cluster) {
		return "", nil
	}
	text := fmt.Sprintf("NATS has never seen a cluster %q", cluster)
	if near := command.Nearest(cluster, known); near != "" {
		text += ": did you mean " + near + "?"
	} else {
		text += "."
	}
	if len(known) == 0 {
		return text + " It knows no cluster yet", nil
	}
	return text + " It knows " + strings.Join(known, ", "), nil
}

// InCluster returns the words that name a cluster at the end of a sentence; none for all clusters.
func InCluster(cluster string) string {
	if cluster == "" {
		return ""
	}
	return " in cluster " + cluster
}

// NoteNone says that there is none of something where the flags look for it, such as "case
// of class quota", and whether NATS has never seen the cluster.
func (p *Program) NoteNone(ctx context.Context, s *stream.Stream, what string) error {
	p.Note("No %s%s.", what, InCluster(p.Cluster))
	said, err := Unseen(ctx, s, p.Cluster)
	if err == nil && said != "" {
		p.Note("%s.", said)
	}
	return err
}

// CaseStream connects as Stream does, for a command that shows or decides cases: it says
// beside the data which pause is in force.
func (p *Program) CaseStream(ctx context.Context) (*stream.Stream, error) {
	s, err := p.Stream(ctx)
	if err == nil {
		p.NotePause(ctx, s)
	}
	return s, err
}

// NotePause says beside the data which pause is in force in the cluster that the flags
// name, or in any if they name none.
func (p *Program) NotePause(ctx context.Context, s *stream.Stream) {
	all, err := engine.Pauses(ctx, s)
	if err != nil {
		p.Note("Whether writes are paused is unknown: %s.", command.Clean(event.Redact(err.Error())))
		return
	}
	for _, one := range all {
		if p.Cluster == "" || one.Cluster == "" || one.Cluster == p.Cluster {
			p.Note("Writes are paused. %s", PauseLine(one))
			return
		}
	}
}

// PauseLine says which clusters a pause is for, who made it, when and why.
func PauseLine(one engine.Pause) string {
	where := "All clusters"
	if one.Cluster != "" {
		where = "Cluster " + one.Cluster
	}
	return where + ": " + command.Clean(one.String())
}
