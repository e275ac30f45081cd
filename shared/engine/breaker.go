package engine

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/lbremedy/lbremedy/shared/control"
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

// bears is how many fixes of low or medium risk that did not work lately open a breaker.
const bears = 3

// trip counts a fix of this risk that did not work, and opens the breaker of the class where it
// has borne enough: one of high risk, or three in ten minutes.
func (e *Env) trip(ctx context.Context, class string, rec event.Record, risk remedy.Risk, log *slog.Logger) error {
	most, why := 1, say.F("A fix of high risk did not work: case %s.", rec.Case)
	if risk < remedy.High {
		most, why = bears, say.F("%d fixes did not work within %d minutes, the last one in case %s.", bears, int(control.Window.Minutes()), rec.Case)
	}
	return e.openBreaker(ctx, class, rec, most, why, log)
}

// openBreaker opens the breaker of a class where so many attempts have not worked lately, this one counted.
func (e *Env) openBreaker(ctx context.Context, class string, rec event.Record, most int, why say.Text, log *slog.Logger) error {
	opened, err := control.Trip(ctx, e.Stream, e.Cluster, class, fmt.Sprintf("%s.%d", rec.Case, rec.Attempt), most, why)
	if opened != nil {
		log.Error("breaker opened", "reason", opened.Why)
	}
	return err
}
