package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/testbed"
)

var built string

var program = sync.OnceValues(func() (string, error) {
	return filepath.Join(built, "lbremedy"), shell.Build(built, []string{"./functions/cmd/lbremedy"})
})

// Exit codes of doctor, as its help states them, and of refused fixes.
const (
	codeFine     = 0
	codeOpen     = 3 // a fix was not made, or not yet
	codeWarning  = 4
	codeCritical = 5
	codeUnknown  = 6
)

type operator struct {
	*rig
	env []string
}

func (r *rig) person(name string, grants []grant.Grant) operator {
	r.Helper()
	return operator{r, r.environ(r.proxy(name, grants, nil), name, grants)}
}

func (d operator) says(code int, args ...string) (out, errs string) {
	d.Helper()
	file, err := program()
	d.must(err)
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(d.ctx, file, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = d.env, &stdout, &stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		d.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		d.Errorf("lbremedy %s: code %d, want %d: %s %s", strings.Join(args, " "), got, code, stdout.String(), stderr.String())
	}
	return stdout.String(), stderr.String()
}

func (d operator) finds(code int, args ...string) doctor.Result {
	d.Helper()
	out, errs := d.says(code, append([]string{"doctor", "-o", "json"}, args...)...)
	var result doctor.Result
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		d.Fatalf("lbremedy doctor %s: %v: %s", strings.Join(args, " "), err, errs)
	}
	return result
}

func (r *rig) examined(want []string) {
	r.Helper()
	d := r.person(caller, scheduledGrants())
	wants := shell.File(r, "wants.yaml", policyText)
	r.same("what the program finds", want, lines(d.finds(codeCritical, "--policy", wants), doctor.Warning))
	table, errs := d.says(codeCritical, "doctor", "--policy", wants, "-o", "wide")
	rows := strings.Split(strings.TrimSpace(table), "\n")
	if len(rows) != len(want)+1 {
		r.Errorf("the table has %d rows for %d findings:\n%s", len(rows)-1, len(want), table)
	}
	for _, line := range want {
		words := strings.Fields(line)
		if !slices.ContainsFunc(rows, func(row string) bool {
			cells := strings.Fields(row)
			return cells[0] == words[0] && cells[1] == words[1] && strings.TrimPrefix(cells[2], namespace+"/") == words[2]
		}) {
			r.Errorf("the table has no row for %s:\n%s", line, table)
		}
	}
	if total := fmt.Sprintf("%d checks looked at", len(checks.Checks())); !strings.Contains(errs, total) ||
		!strings.Contains(errs, fmt.Sprintf("%d findings, 0 unknown", len(want))) {
		r.Errorf("the program says %q", errs)
	}
	d.finds(codeFine, "--policy", wants, namespace+"/web")
	d.finds(codeWarning, "--policy", wants, "--checks", "annotations")
	d.finds(codeFine, "--policy", wants, "--checks", "annotations", "--severity", "critical")

	short := r.person("lbremedy-doctor-short", slices.DeleteFunc(scheduledGrants(), func(g grant.Grant) bool { return g == grant.DescribeLoadBalancers }))
	got := short.finds(codeUnknown, "--policy", wants, "--checks", "scale,charge-types")
	r.same("what somebody finds who may not list CLBs", []string{"warning scale " + testbed.ClusterID + " delay"}, lines(got, doctor.Warning))
	if why := strings.Join(unknowns(got), "\n"); !strings.Contains(why, "charge-types") || !strings.Contains(why, "slb:DescribeLoadBalancers") &&
		!strings.Contains(why, "DescribeLoadBalancers") {
		r.Errorf("why it can't tell: %s", why)
	}
}
