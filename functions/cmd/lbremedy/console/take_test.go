package console

import (
	"io"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	look "github.com/lbremedy/lbremedy/functions/cmd/lbremedy/doctor"
)

func TestRead(t *testing.T) {
	t.Parallel()
	p := cli.New("dev")
	p.Out, p.Err, p.Getenv, p.Cluster = io.Discard, io.Discard, func(string) string { return "" }, "c1"
	if _, err := look.Find(t.Context(), p, nil, "info", "", nil); err == nil || !strings.Contains(err.Error(), "--region") {
		t.Errorf("the error is %v, want one with --region", err)
	}
}
