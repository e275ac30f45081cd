package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/test/sim"
)

type fault struct {
	ID        int          `json:"id,omitempty"`
	Product   string       `json:"product,omitempty"`
	Action    string       `json:"action,omitempty"`
	Caller    string       `json:"caller,omitempty"`
	Delay     sim.Duration `json:"delay,omitzero"`
	Hang      bool         `json:"hang,omitempty"`
	CutBefore bool         `json:"cutBefore,omitempty"`
	Code      string       `json:"code,omitempty"`
	Status    int          `json:"status,omitempty"`
	Message   string       `json:"message,omitempty"`
	CutAfter  bool         `json:"cutAfter,omitempty"`
	Garbage   bool         `json:"garbage,omitempty"`
	FailJob   bool         `json:"failJob,omitempty"`
	Count     int          `json:"count,omitempty"`
	Rate      float64      `json:"rate,omitempty"`
}

func (f fault) does() string {
	var all []string
	if f.Delay > 0 {
		all = append(all, "wait "+time.Duration(f.Delay).String())
	}
	for _, e := range []struct {
		set  bool
		word string
	}{
		{f.Hang, "hang"}, {f.CutBefore, "cut before the effect"}, {f.Code != "", "answer " + f.Code}, {f.CutAfter, "cut after the effect"},
		{f.Garbage, "cut the answer in half"}, {f.FailJob, "fail the job"},
	} {
		if e.set {
			all = append(all, e.word)
		}
	}
	return strings.Join(all, ", then ")
}

func (p *program) fault() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fault",
		Short: "Inject faults into calls, list and remove them",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return command.Wrong("unknown command \"fault %s\": see lbremedy-sim fault --help", args[0])
			}
			return cmd.Help()
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.AddCommand(p.faultAdd(), p.faultLs(), p.faultRm())
	return cmd
}

func (p *program) faultAdd() *cobra.Command {
	var f fault
	var delay time.Duration
	cmd := &cobra.Command{
		Use:   "add [PRODUCT:]ACTION",
		Short: "Inject a fault into calls from now on",
		Long: `Inject a fault into calls: those to an ACTION, in which * stands for any text, of a
product, as RAM writes it, and of one --caller. If several faults match a call, the oldest
one applies. Without --count it stays active until it is removed.

The output is the number of the fault.`,
		Example: `  lbremedy-sim fault add 'slb:Create*' --code Throttling.User --count 3
  lbremedy-sim fault add slb:DescribeLoadBalancers --caller controller --delay 30s
  lbremedy-sim fault add nlb:CreateLoadBalancer --code OperationDenied.X --status 409 --message 'No.'
  lbremedy-sim fault add '*' --cut-after --rate 0.1`,
		Args:              command.Exactly(1, 1, "an action, such as slb:Create*"),
		ValidArgsFunction: completeActions,
		RunE: func(cmd *cobra.Command, args []string) error {
			product, action, ok := strings.Cut(args[0], ":")
			if !ok {
				product, action = "", args[0]
			}
			if product == "*" {
				product = ""
			}
			f.Product, f.Action, f.Delay = product, action, sim.Duration(delay)
			if len(matching(product, action)) == 0 {
				return command.Wrong("the cloud answers no action %q: see lbremedy-sim actions", args[0])
			}
			if f.Action == "*" {
				f.Action = ""
			}
			c, err := p.connect()
			if err != nil {
				return err
			}
			var made fault
			if err := c.do(cmd.Context(), http.MethodPost, "faults", f, &made); err != nil {
				return err
			}
			return p.print(made, func() error { return p.line("%d", made.ID) })
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.Caller, "caller", "", "`name` of the caller whose calls it hits (default all)")
	fl.DurationVar(&delay, "delay", 0, "wait before anything else")
	fl.BoolVar(&f.Hang, "hang", false, "do nothing and answer nothing until the client gives up")
	fl.BoolVar(&f.CutBefore, "cut-before", false, "do nothing and end the connection")
	fl.StringVar(&f.Code, "code", "", "do nothing and answer with this error `code`")
	fl.IntVar(&f.Status, "status", 0, "HTTP `status` of the error (default the usual one of the code)")
	fl.StringVar(&f.Message, "message", "", "`text` of the error (default the usual one of the code)")
	fl.BoolVar(&f.CutAfter, "cut-after", false, "do what is asked and end the connection")
	fl.BoolVar(&f.Garbage, "garbage", false, "do what is asked and answer with half of the answer")
	fl.BoolVar(&f.FailJob, "fail-job", false, "answer that a job began, and let it fail")
	fl.IntVar(&f.Count, "count", 0, "`number` of calls that it hits before it ends (default no end)")
	fl.Float64Var(&f.Rate, "rate", 0, "`share` of the calls that it hits, between 0 and 1 (default all)")
	command.Complete(cmd, "code", cobra.FixedCompletions(sim.UsualCodes(), cobra.ShellCompDirectiveNoFileComp))
	command.Complete(cmd, "caller", p.completeCallers)
	for _, name := range []string{"delay", "status", "message", "count", "rate"} {
		command.Complete(cmd, name, cobra.NoFileCompletions)
	}
	return cmd
}

func matching(product, pattern string) []string {
	return slices.DeleteFunc(sim.Actions(), func(a string) bool {
		of, name, _ := strings.Cut(a, ":")
		fits, err := path.Match(pattern, name)
		return product != "" && of != product || err != nil || !fits
	})
}

func (p *program) faultLs() *cobra.Command {
	return &cobra.Command{
		Use:               "ls",
		Short:             "List the active faults",
		Args:              command.Exactly(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.connect()
			if err != nil {
				return err
			}
			list := []fault{}
			if err := c.do(cmd.Context(), http.MethodGet, "faults", nil, &list); err != nil {
				return err
			}
			return p.print(list, func() error {
				if len(list) == 0 {
					p.note("No faults are active.")
					return nil
				}
				rows := [][]any{}
				for _, f := range list {
					left, rate := "no end", ""
					if f.Count > 0 {
						left = strconv.Itoa(f.Count)
					}
					if f.Rate > 0 {
						rate = fmt.Sprint(f.Rate)
					}
					rows = append(rows, []any{strconv.Itoa(f.ID), orAll(f.Product) + ":" + orAll(f.Action), orAll(f.Caller), f.does(), left, rate})
				}
				return p.table([]any{"fault", "action", "caller", "does", "left", "rate"}, rows)
			})
		},
	}
}

func orAll(s string) string {
	if s == "" {
		return "*"
	}
	return s
}

func (p *program) faultRm() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "rm FAULT... | rm --all",
		Short: "Remove faults",
		Example: `  lbremedy-sim fault rm 1 2
  lbremedy-sim fault rm --all`,
		Args:              command.Exactly(0, -1, ""),
		ValidArgsFunction: p.completeFaults,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return command.Wrong("fault rm needs the numbers of faults, or --all: see lbremedy-sim fault rm --help")
			}
			for _, a := range args {
				if n, err := strconv.Atoi(a); err != nil || n < 1 {
					return command.Wrong("%q is not a number of a fault: see lbremedy-sim fault ls", a)
				}
			}
			c, err := p.connect()
			if err != nil {
				return err
			}
			if all {
				return c.do(cmd.Context(), http.MethodDelete, "faults", nil, nil)
			}
			var errs []error
			for _, a := range args {
				errs = append(errs, c.do(cmd.Context(), http.MethodDelete, "faults/"+a, nil, nil))
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "remove all active faults")
	return cmd
}

type call struct {
	At        time.Time         `json:"at"`
	Caller    string            `json:"caller,omitempty"`
	Product   string            `json:"product,omitempty"`
	Action    string            `json:"action,omitempty"`
	Status    int               `json:"status,omitempty"`
	Code      string            `json:"code,omitempty"`
	Params    map[string]string `json:"params,omitempty"`
	RequestID string            `json:"requestId,omitempty"`
}

func (k call) row() []any {
	status := "none"
	if k.Status != 0 {
		status = strconv.Itoa(k.Status)
	}
	var params []string
	for _, name := range slices.Sorted(maps.Keys(k.Params)) {
		params = append(params, name+"="+k.Params[name])
	}
	return []any{k.At.Local().Format("15:04:05.000"), orUnknown(k.Caller), orUnknown(k.Product) + ":" + orUnknown(k.Action), status, k.Code,
		strings.Join(params, " ")}
}

func orUnknown(s string) string {
	if s == "" {
		return "?"
	}
	return s
}

func (p *program) calls() *cobra.Command {
	var caller, product, action, code string
	var last int
	var follow, forget bool
	cmd := &cobra.Command{
		Use:   "calls",
		Short: "Show past calls, and follow new ones",
		Long: `Show the last calls to the cloud: when, by whom, with what outcome and what parameters.
With --follow each further call comes as a line as it is answered, until interrupted:
with -o json a line of JSON, with yaml a document.`,
		Example: `  lbremedy-sim calls --caller controller --last 5
  lbremedy-sim calls --follow --action 'Create*'
  lbremedy-sim calls --last 0 -o json | jq -r '.[] | select(.status >= 400) | .code'
  lbremedy-sim calls --forget`,
		Args:              command.Exactly(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if last < 0 {
				return command.Wrong("--last: %d is below 0", last)
			}
			if forget && (follow || cmd.Flags().Changed("last")) {
				return command.Wrong("--forget shows nothing: leave --follow and --last out")
			}
			c, err := p.connect()
			if err != nil {
				return err
			}
			if forget {
				return c.do(cmd.Context(), http.MethodDelete, "calls", nil, nil)
			}
			query := fmt.Sprintf("calls?caller=%s&product=%s&action=%s&code=%s", escape(caller), escape(product), escape(action), escape(code))
			if last > 0 {
				query += "&last=" + strconv.Itoa(last)
			}
			if follow {
				return p.follow(cmd, c, query+"&follow=true")
			}
			list := []call{}
			if err := c.do(cmd.Context(), http.MethodGet, query, nil, &list); err != nil {
				return err
			}
			return p.print(list, func() error {
				if len(list) == 0 {
					p.note("Nothing was called.")
					return nil
				}
				rows := [][]any{}
				for _, k := range list {
					rows = append(rows, k.row())
				}
				return p.table([]any{"at", "caller", "action", "status", "code", "parameters"}, rows)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&caller, "caller", "", "only calls of the caller of this `name`")
	f.StringVar(&product, "product", "", "only calls to this `product`, such as slb")
	f.StringVar(&action, "action", "", "only calls to this `action`; * stands for any text")
	f.StringVar(&code, "code", "", "only calls that were answered with this error `code`")
	f.IntVar(&last, "last", 20, "how many of the `calls` so far to show; 0 is all")
	f.BoolVarP(&follow, "follow", "f", false, "show calls as they are answered, until interrupted")
	f.BoolVar(&forget, "forget", false, "forget all calls so far")
	command.Complete(cmd, "caller", p.completeCallers)
	command.Complete(cmd, "product", cobra.FixedCompletions(products(), cobra.ShellCompDirectiveNoFileComp))
	command.Complete(cmd, "action", completeBareActions)
	command.Complete(cmd, "code", cobra.FixedCompletions(sim.UsualCodes(), cobra.ShellCompDirectiveNoFileComp))
	command.Complete(cmd, "last", cobra.NoFileCompletions)
	return cmd
}

// follow prints calls as they arrive. It ends without an error at a signal.
func (p *program) follow(cmd *cobra.Command, c *client, query string) error {
	answer, err := c.open(cmd.Context(), http.MethodGet, query, nil, "application/json")
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }()
	for lines := json.NewDecoder(answer); ; {
		var k call
		if err := lines.Decode(&k); err != nil {
			if cmd.Context().Err() != nil {
				return nil
			}
			return fmt.Errorf("the simulation has ended: %w", err)
		}
		if err := p.one(k); err != nil {
			return err
		}
	}
}

func (p *program) one(k call) error {
	switch p.output {
	case "json":
		return json.NewEncoder(p.out).Encode(k)
	case "yaml":
		if err := p.line("---"); err != nil {
			return err
		}
		return command.YAML(p.out, k)
	}
	r := k.row()
	return p.line("%s", command.Clean(fmt.Sprintf("%s  %-12s  %-40s  %s  %s  %s", r...)))
}

func (p *program) actions() *cobra.Command {
	return &cobra.Command{
		Use:   "actions [[PRODUCT:]PATTERN]",
		Short: "List the actions that the cloud answers",
		Example: `  lbremedy-sim actions
  lbremedy-sim actions 'nlb:*'
  lbremedy-sim actions 'Create*'`,
		Args:              command.Exactly(0, 1, "one pattern"),
		ValidArgsFunction: completeActions,
		RunE: func(_ *cobra.Command, args []string) error {
			product, pattern := "", "*"
			if len(args) == 1 {
				var ok bool
				if product, pattern, ok = strings.Cut(args[0], ":"); !ok {
					product, pattern = "", args[0]
				}
			}
			list := matching(product, pattern)
			if len(list) == 0 {
				return fmt.Errorf("%w: no action fits %q", errAbsent, args[0])
			}
			return p.print(list, func() error { return p.line("%s", strings.Join(list, "\n")) })
		},
	}
}
