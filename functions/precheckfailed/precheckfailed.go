// Package precheckfailed explains the findings of the controller's check before an upgrade.
package precheckfailed

import (
	"context"
	_ "embed"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy asks: only a person knows whether the console or the annotation is right, and whether to upgrade.
//
// The controller writes its report as JSON to the Event CloudControllerManagerPrecheckResult in kube-system, about a Pod
// (pkg/provider/dryrun/event.go of v2.14.0), with at most 20 items of a kind. Its only items about NLBs are about security groups.
var Remedy = &remedy.Remedy{
	Class:      "precheck-failed",
	Doc:        doc,
	Kinds:      []string{remedy.KindCluster},
	Texts:      []string{`CheckResults":[{"Name":"ccm*instanceResults":{`},
	Scope:      remedy.Cluster,
	Diagnose:   diagnose,
	StillFails: stillFails,
}

// stillFails checks the newest result: the controller writes each to the same Event.
func stillFails(_ context.Context, c *remedy.Case) (remedy.Verdict, error) {
	return remedy.Is(c.FailedPrecheck()), nil
}

type item struct{ name, balancer, code string }

// found matches names that are valid in Kubernetes and Alibaba Cloud: anybody can write an Event. Long reports are cut off, which breaks JSON.
var found = regex.New(`\{"Name":"([A-Za-z0-9./_-]+)","Id":"([A-Za-z0-9-]*)","MessageLevel":"(error|warn|unknown)","MessageCode":"([A-Za-z]+)"`)

func itemsOf(message string) []item {
	var out []item
	for _, m := range found().FindAllStringSubmatch(message, -1) {
		out = append(out, item{name: m[1], balancer: m[2], code: m[4]})
	}
	slices.SortFunc(out, func(a, b item) int { return strings.Compare(a.name+" "+a.code, b.name+" "+b.code) })
	return slices.Compact(out)
}

type kind struct {
	codes      string
	means, ask say.Text
}

// kinds are the codes of pkg/provider/dryrun of v2.14.0, the most harmful first.
var kinds = []kind{
	{"DeleteSLB", say.F("its load balancer would be deleted"),
		say.F("Do not upgrade before it is clear why a load balancer would be deleted: the Service may be in deletion or of another type.")},
	{"CreateSLB", say.F("a new load balancer would be created"),
		say.F("Find the load balancers that would be replaced before you upgrade: the controller no longer recognizes them, for example because a tag is lost.")},
	{"DeleteListener StopListener RemoveVgroup DeleteVgroup DeleteDomainExtension",
		say.F("a listener, backends or a certificate would be removed"),
		say.F("Compare listeners and backends with the Service: what someone added in the console to anything that the controller manages would be removed.")},
	{"UpdateListener CreateListener StartListener CreateDomainExtension SetDomainExtensionAttribute",
		say.F("a listener or its certificates would be changed to what the annotations say"), keepSettings},
	{"ModifySLBSpec ModifyLoadBalancerInstanceChargeType ModifyInternetSpec",
		say.F("the size or the billing of its load balancer would be changed to what the annotations say"), keepSettings},
	{"CreateSecurityGroup DeleteSecurityGroup ModifySecurityGroupAttribute ModifySecurityGroupRule AuthorizeSecurityGroup RevokeSecurityGroup",
		say.F("a security group would enforce its source ranges"),
		say.F("Check spec.loadBalancerSourceRanges of these Services: the new release enforces them, and keeps out all other clients.")},
	{"TagSLB UntagSLB SetSLBName SetSLBDeleteProtection SetSLBModificationProtection CreateVgroup ModifyVgroup AddVServerGroupBackendServers",
		say.F("tags, names, protection or backends would be completed"),
		say.F("Completed tags, names, protection and backends interrupt nothing.")},
}

var keepSettings = say.F("To keep a setting of the console, write it into the Service's annotations before you upgrade.")

func kindOf(code string) int {
	return slices.IndexFunc(kinds, func(k kind) bool { return slices.Contains(strings.Fields(k.codes), code) })
}

func diagnose(_ context.Context, c *remedy.Case) (remedy.Plan, error) {
	items := itemsOf(c.Event.Message)
	if len(items) == 0 {
		return remedy.Plan{
			Finding: say.F("The controller's check before an upgrade has ended, but its report has no item that can be read."),
			Ask:     say.F("Read the whole report: %s.", readCommand),
		}, nil
	}
	var says, asks []say.Text
	for _, i := range items {
		means := say.F("the new release would call %s", i.code)
		if at := kindOf(i.code); at >= 0 {
			means = kinds[at].means
		}
		if i.balancer != "" {
			says = append(says, say.F("%s on %s: %s", i.name, i.balancer, means))
		} else {
			says = append(says, say.F("%s: %s", i.name, means))
		}
	}
	for at, k := range kinds {
		same := func(t say.Text) bool { return t.String() == k.ask.String() }
		if slices.ContainsFunc(items, func(i item) bool { return kindOf(i.code) == at }) && !slices.ContainsFunc(asks, same) {
			asks = append(asks, k.ask)
		}
	}
	if slices.ContainsFunc(items, func(i item) bool { return kindOf(i.code) < 0 }) {
		asks = append(asks, say.F("Look up the calls that lbremedy does not know in the documentation of the new release."))
	}
	ask := say.F("The doctor shows what each full sync would change: lbremedy doctor --checks drift.").
		And("The report has at most 20 items of a kind, and one for each Service: a harmless item can hide one that is not.").
		And("Read it all: %s.", readCommand)
	for _, more := range asks {
		ask = ask.Then(more)
	}
	return remedy.Plan{
		Finding: say.F("The controller's check before an upgrade found changes that the new release would make: %s.", say.Clauses(says, 20)),
		Ask:     ask,
	}, nil
}

const readCommand = "kubectl -n kube-system get event CloudControllerManagerPrecheckResult -o jsonpath='{.message}'"
