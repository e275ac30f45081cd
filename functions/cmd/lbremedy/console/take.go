package console

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"time"
	"unique"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/balancer"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	look "github.com/lbremedy/lbremedy/functions/cmd/lbremedy/doctor"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
)

// A piece is one thing that pages show of a cluster and its account. One of its fields is set.
type piece struct {
	Service        *balancer.Shown `json:",omitempty"` // without listeners, tags and groups
	Balancer       *held           `json:",omitempty"` // behind the first Service that uses it
	Finding        *noted          `json:",omitempty"`
	VSwitch, Quota *gauge          `json:",omitempty"`
	Result         *doctor.Result  `json:",omitempty"` // without its findings: the last piece
	Error          string          `json:",omitempty"` // why there is no more
}

// A held is a load balancer with its listeners, and with what else it holds, as JSON of a holding.
type held struct {
	ID        string
	Listeners []string
	Holds     json.RawMessage
}

// A noted is a finding as far as lists need it.
type noted struct {
	Check    string
	Severity doctor.Severity
	About    doctor.About
	Services []string        // that it concerns, "namespace/name"; dropped when it stands at each
	Finding  json.RawMessage // all of it
}

// whole returns all of some findings.
func whole(list []*noted) ([]doctor.Finding, error) {
	all := make([]doctor.Finding, len(list))
	for i, n := range list {
		if err := json.Unmarshal(n.Finding, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// A holding is what many Services may share.
type holding struct {
	Tags   map[string]string
	Groups []balancer.Group
}

// read reads the cluster and the account. A snapshot of a big cluster takes several times the
// memory of all that the console keeps, so another process reads it, hands over what pages show,
// and ends. It is this program, called as it was called itself, with --read.
func read(ctx context.Context, p *cli.Program) (*seen, error) {
	v := &seen{Holds: map[string]json.RawMessage{}, Listeners: map[string][]string{}}
	err := error(nil)
	if p.Args == nil {
		err = take(ctx, p, v.add)
	} else {
		err = v.listen(ctx, p.Args)
	}
	if err == nil && v.Result.At.IsZero() {
		err = errors.New("the reading ended before it was complete")
	}
	v.arrange()
	return v, err
}

// listen takes what a process of its own reads.
func (v *seen) listen(ctx context.Context, args []string) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, which reads the cluster: %w", err)
	}
	cmd := exec.CommandContext(ctx, program, append(args[:len(args):len(args)], "--read")...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append([]string{"GOGC=50"}, os.Environ()...) // the environment's own comes last and wins
	var why bytes.Buffer
	cmd.Stderr = &why
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start the process that reads the cluster: %w", err)
	}
	pieces := json.NewDecoder(out)
	for err == nil {
		var one piece
		if err = pieces.Decode(&one); err == nil {
			err = v.add(one)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	_, _ = io.Copy(io.Discard, out) // so that it can end
	if ended := cmd.Wait(); ended != nil {
		first, _, _ := strings.Cut(why.String(), "\n")
		err = cmp.Or(err, fmt.Errorf("the process that reads the cluster ended: %w %s", ended, first))
	}
	return err
}

// hand reads the cluster and the account, and prints what pages show of them, a line each.
func hand(ctx context.Context, p *cli.Program) error {
	out := json.NewEncoder(p.Out)
	err := take(ctx, p, func(one piece) error { return out.Encode(one) })
	if err == nil {
		return nil
	}
	if err := out.Encode(piece{Error: said(err)}); err != nil {
		return err
	}
	return command.Exit(1)
}

// add keeps a piece. Its error is the one that the piece holds.
func (v *seen) add(one piece) error {
	switch {
	case one.Error != "":
		return errors.New(one.Error)
	case one.Service != nil:
		b := *one.Service
		for _, name := range []*string{&b.Namespace, &b.Kind, &b.AddressType, &b.State, &b.Made, &b.ChargeType, &b.ID, &b.Status, &b.VPC} {
			*name = unique.Make(*name).Value()
		}
		v.Services = append(v.Services, &balanced{Shown: b})
	case one.Balancer != nil:
		v.Holds[one.Balancer.ID], v.Listeners[one.Balancer.ID] = one.Balancer.Holds, one.Balancer.Listeners
	case one.Finding != nil:
		one.Finding.Check = unique.Make(one.Finding.Check).Value()
		v.Findings = append(v.Findings, one.Finding)
	case one.VSwitch != nil:
		v.VSwitches = append(v.VSwitches, *one.VSwitch)
	case one.Quota != nil:
		v.Quotas = append(v.Quotas, *one.Quota)
	case one.Result != nil:
		v.Result = *one.Result
		v.Result.Took = time.Duration(v.Result.TookMs * float64(time.Millisecond))
	}
	return nil
}

// take reads the cluster and the account, and emits what pages show of them.
func take(ctx context.Context, p *cli.Program, emit func(piece) error) error {
	s, r, err := look.Look(ctx, p)
	if err != nil {
		return err
	}
	known := map[string]bool{} // Services may share a load balancer
	for _, svc := range s.OfType() {
		b := balancer.Show(s, svc)
		holds, listeners := holding{b.Tags, b.Groups}, b.Listeners
		b.Tags, b.Groups, b.Listeners = nil, nil, nil
		if err := emit(piece{Service: &b}); err != nil {
			return err
		}
		if known[b.ID] || b.ID == "" {
			continue
		}
		known[b.ID] = true
		text, err := json.Marshal(holds)
		if err != nil {
			return err
		}
		if err := emit(piece{Balancer: &held{b.ID, listeners, text}}); err != nil {
			return err
		}
	}
	for _, f := range r.Findings {
		text, err := json.Marshal(f)
		if err != nil {
			return err
		}
		if err := emit(piece{Finding: &noted{f.Check, f.Severity, f.About, f.Services, text}}); err != nil {
			return err
		}
	}
	if err := measure(s, emit); err != nil {
		return err
	}
	r.Findings = nil
	return emit(piece{Result: &r})
}

// measure emits how full vSwitches and quotas are. Of some quotas the cloud does not count
// what is used; they are left out.
func measure(s *doctor.Snapshot, emit func(piece) error) error {
	for _, w := range s.VSwitches {
		block, err := netip.ParsePrefix(w.CIDR)
		if err != nil || !block.Addr().Is4() {
			continue
		}
		// Alibaba Cloud keeps four addresses of each: https://www.alibabacloud.com/help/en/vpc/user-guide/create-and-manage-a-vswitch
		total := float64(int64(1)<<(32-block.Bits()) - 4)
		about := strings.TrimSpace(w.Zone + " " + w.CIDR + " " + w.Name)
		if err := emit(piece{VSwitch: &gauge{Name: w.ID, About: about, Used: max(0, total-float64(w.Free)), Total: total}}); err != nil {
			return err
		}
	}
	for _, q := range s.Quotas {
		if q.Used > 0 && q.Total > 0 && q.Period == 0 {
			one := gauge{Name: q.Name, About: strings.TrimSpace(q.Product + " " + q.Description), Used: q.Used, Total: q.Total}
			if err := emit(piece{Quota: &one}); err != nil {
				return err
			}
		}
	}
	return nil
}
