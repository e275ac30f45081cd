package up

import (
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// sizes are how much the streams take, and for how long they keep it.
type sizes struct {
	journal, failures, dead, keys    size
	journalAge, failuresAge, deadAge lasting
}

func (s *sizes) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(&s.journal, "journal-size", "maximum bytes in the journal, such as 4Gi (default 1Gi for a new one)")
	f.Var(&s.journalAge, "journal-age", "`duration` for which the journal keeps a record (default 30d for a new one)")
	f.Var(&s.failures, "failures-size", "maximum bytes of stored failures (default 256Mi for a new one)")
	f.Var(&s.failuresAge, "failures-age", "`duration` for which a failure is kept (default 7d for a new one)")
	f.Var(&s.dead, "dead-size", "maximum bytes of dead letters (default 128Mi for a new one)")
	f.Var(&s.deadAge, "dead-age", "`duration` for which a dead letter is kept (default 30d for a new one)")
	f.Var(&s.keys, "keys-size",
		"maximum bytes of what is kept under keys, such as what is known of each Service, and budgets (default 512Mi for a new one)")
}

func (s *sizes) settings(replicas int) stream.Settings {
	return stream.Settings{
		Replicas:    replicas,
		FailedBytes: int64(s.failures), CasesBytes: int64(s.journal), DeadBytes: int64(s.dead), KeysBytes: int64(s.keys),
		FailedAge: time.Duration(s.failuresAge), CasesAge: time.Duration(s.journalAge), DeadAge: time.Duration(s.deadAge),
	}
}

// A size is a number of bytes, as Kubernetes writes it; zero: none was given.
type size int64

// Set reads a size.
func (s *size) Set(text string) error {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Value() < 64<<10 {
		return say.Errorf("want a size of 64Ki or more, such as 512Mi or 4Gi")
	}
	*s = size(q.Value())
	return nil
}

// String returns the size; empty if none was given.
func (s *size) String() string {
	if *s == 0 {
		return ""
	}
	return resource.NewQuantity(int64(*s), resource.BinarySI).String()
}

// Type is what the help calls a size.
func (s *size) Type() string { return "size" }

// A lasting is a time of days, hours or less; zero: none was given.
type lasting time.Duration

// Set reads a lasting.
func (s *lasting) Set(text string) error {
	d, err := cli.Duration(text)
	if err != nil || d < time.Hour {
		return say.Errorf("want a time of an hour or more, such as 12h or 30d")
	}
	*s = lasting(d)
	return nil
}

// String returns the lasting; empty if none was given.
func (s *lasting) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

// Type is what the help calls a lasting.
func (s *lasting) Type() string { return "time" }
