package engine

import (
	"context"
	"log/slog"

	"github.com/lbremedy/lbremedy/shared/engine/control"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// bore returns the risk of a fix that is written. What the class or the comparison found
// before it shows no more, so that the record counts, too: it opens a breaker, and allows
// nothing.
func bore(rec event.Record, steps []remedy.Step) remedy.Risk {
	said := remedy.High // of a record that doesn't say
	if err := said.UnmarshalText([]byte(rec.Risk)); err != nil {
		return remedy.High
	}
	return remedy.Plan{Risk: said, Steps: steps}.Highest()
}

// trip counts a fix of this risk that did not work, and opens the breaker of the class where it
// has borne enough: one of high risk, or three in ten minutes.
func (e *Env) trip(ctx context.Context, class string, rec event.Record, risk remedy.Risk, log *slog.Logger) error {
	if risk < remedy.High {
		opened, err := control.Count(ctx, e.Stream, e.Cluster, class, rec.Case, rec.Attempt)
		return tell(opened, err, log)
	}
	return e.openBreaker(ctx, class, say.F("A fix of high risk did not work: case %s.", rec.Case), log)
}

// openBreaker opens the breaker of a class, unless it is open.
func (e *Env) openBreaker(ctx context.Context, class string, why say.Text, log *slog.Logger) error {
	opened, err := control.OpenBreaker(ctx, e.Stream, e.Cluster, class, why)
	return tell(opened, err, log)
}

func tell(opened *control.Breaker, err error, log *slog.Logger) error {
	if opened != nil {
		log.Error("breaker opened", "reason", opened.Why)
	}
	return err
}
