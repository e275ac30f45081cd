package survey

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/checkup"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

//go:embed lbgone.md
var lbGoneDoc string

// lbGone looks for load balancers that somebody deleted.
var lbGone = &checkup.Check{
	ID:    "lb-gone",
	Doc:   lbGoneDoc,
	Needs: []checkup.Part{checkup.Services},
	Uses:  []checkup.Part{checkup.CLBs, checkup.NLBs, checkup.Detail},
	Find:  findLBGone,
}

// errEmpty is why an empty list proves nothing.
var errEmpty = errors.New("the list of load balancers is empty, which permissions limited by resource also lead to")

func findLBGone(s *checkup.Snapshot, r *checkup.Report) {
	gone := goneLook{s, r, map[bool]int{}}
	for _, b := range s.List() {
		gone.count[b.NLB != nil]++
	}
	gone.apiServer()
	for _, svc := range s.OfType() {
		id, _ := remedy.Annotation(svc, "id")
		if id == "" && svc.Labels[remedy.BalancerLabel] == "" && !remedy.Synced(svc) {
			continue // it has none yet
		}
		switch b, err := s.Balancer(svc); {
		case err != nil:
			r.Unknown(about(svc), err)
		case b == nil:
			gone.service(svc, id)
		}
	}
}

// A goneLook is a snapshot whose missing load balancers are being looked for.
type goneLook struct {
	*checkup.Snapshot
	report *checkup.Report
	count  map[bool]int // load balancers in the lists, NLBs under true
}

// apiServer looks for the load balancer of the API server by the address that the
// cluster states. The answer of a cluster that has none states none.
func (g *goneLook) apiServer() {
	if err := g.Err(checkup.Detail, checkup.CLBs, checkup.NLBs); err != nil {
		g.report.Unknown(g.OfCluster(), fmt.Errorf("whether the API server's load balancer exists: %w", err))
		return
	}
	address := g.Detail.APIServer
	if address == "" {
		return
	}
	for _, b := range g.List() {
		if b.CLB != nil && b.Address == address && (b.VPC == "" || b.VPC == g.Detail.VPC) {
			return
		}
		if b.NLB == nil || b.VPC != g.Detail.VPC {
			continue
		}
		for _, z := range b.NLB.Zones {
			if z.Address == address || z.Address == "" && b.Tags[remedy.ClusterTag] != "" {
				return
			}
		}
	}
	if g.count[false] == 0 {
		g.report.Unknown(g.OfCluster(), errEmpty)
		return
	}
	g.report.Add(checkup.Finding{Severity: checkup.Critical, About: g.OfCluster(), Key: "api-server", Evidence: map[string]string{"address": address},
		Text: fmt.Sprintf("The API server has the address %s:%d, which no load balancer of the region has, of %s listed: its load balancer is gone.", address, apiServerPort, remedy.Count(g.count[false], "CLB")),
		Do: fmt.Sprintf("Make sure: aliyun slb DescribeLoadBalancers --RegionId %s --Address %s. If it is gone, nothing brings it back: only the cluster can be made again. Ask Alibaba Cloud before you do, and save what runs in it.",
			g.Region, address)})
}

// service reports on a Service whose load balancer the controller does not find.
func (g *goneLook) service(svc *corev1.Service, id string) {
	kind, describe := "CLB", "aliyun slb DescribeLoadBalancerAttribute"
	if remedy.NLB(svc) {
		kind, describe = "NLB", "aliyun nlb GetLoadBalancerAttribute"
	}
	was := cmp.Or(id, svc.Labels[remedy.BalancerLabel])
	address := remedy.Address(svc)
	evidence := map[string]string{"load balancer": was, "address": address}
	if id == "" {
		b, err := g.left(svc)
		if err != nil {
			g.report.Unknown(about(svc), err)
			return
		}
		if b != nil {
			evidence["load balancer"] = b.ID
			g.report.Add(checkup.Finding{Severity: checkup.Warning, About: about(svc), Key: "lost", Evidence: evidence,
				Text: fmt.Sprintf("%s of the Service still exists, and the controller does not find it: it has lost the tag %s and its name. Its backends stay as they are.", b.ID, remedy.NameTag),
				Do: fmt.Sprintf("If the controller made it for this Service alone, give it its tag: %s, then %s. If a person made it, name it: %s.",
					remedy.TagCommand(svc, g.Region, b.ID, remedy.NameTag, remedy.DefaultName(svc)), remedy.WakeCommand(svc), remedy.SetCommand(svc, "id", b.ID))})
			return
		}
	}
	listed := g.Balancers[was]
	if g.count[remedy.NLB(svc)] == 0 && (listed == nil || !listed.Gone) {
		g.report.Unknown(about(svc), errEmpty)
		return
	}
	what := cmp.Or(remedy.Quote(was), `""`)
	if was == "" {
		what = "with the address " + address
	}
	sure := "Make sure that it is gone: permissions limited by resource hide load balancers."
	if was != "" {
		sure = fmt.Sprintf("Make sure that it is gone, since permissions limited by resource hide load balancers: %s --RegionId %s --LoadBalancerId %s.", describe, g.Region, remedy.Shell(was))
	}
	f := checkup.Finding{Severity: checkup.Critical, About: about(svc), Evidence: evidence}
	again := fmt.Sprintf("have the controller make a new one, with a new address: %s, then %s. Or delete the Service and create it again. A controller that remembers the old creation may need a restart.",
		remedy.ClearCommand(svc), remedy.WakeCommand(svc))
	switch {
	case id != "" && address == "":
		f.Text = fmt.Sprintf("The Service names the load balancer %s, which the region does not have, of %s listed: it never comes up.", what, remedy.Count(g.count[remedy.NLB(svc)], kind))
		f.Do = fmt.Sprintf("%s Then name one that exists: %s. Or have the controller make one: %s.", sure, set(svc, "id"), remedy.RemoveCommand(svc, "id"))
	case id != "":
		f.Text = fmt.Sprintf("The Service names the load balancer %s, which the region does not have, of %s listed: nobody answers at %s.", what, remedy.Count(g.count[remedy.NLB(svc)], kind), address)
		f.Do = fmt.Sprintf("%s Then delete the Service and create it again, with the annotation of one that exists or without it: its address changes, and while the Service has its old one the controller takes no other.", sure)
	case name(svc) == ingress:
		f.Key = "ingress"
		f.Text = fmt.Sprintf("The load balancer %s of the cluster's ingress is not in the region, of %s listed: nobody answers at %s, for all that comes in by Ingresses.", what, remedy.Count(g.count[remedy.NLB(svc)], kind), address)
		f.Do = fmt.Sprintf("%s Then %s The manifest to create it again is on the page of this check: lbremedy doctor checks lb-gone. Afterwards point the DNS names of the Ingresses to the new address.", sure, again)
	default:
		f.Text = fmt.Sprintf("The load balancer %s of the Service is not in the region, of %s listed: nobody answers at %s, and the controller makes no other while the Service has this address.", what, remedy.Count(g.count[remedy.NLB(svc)], kind), address)
		f.Do = fmt.Sprintf("%s Then %s", sure, again)
	}
	g.report.Add(f)
}

// ingress is the Service of the ingress controller that clusters are made with.
const ingress = "kube-system/nginx-ingress-lb"

// left returns the load balancer of the Service that the controller does not find any
// more: the one that its label names, or the one with its address; nil if there is none.
// Private addresses repeat over VPCs, so that they count in the cluster's alone.
func (g *goneLook) left(svc *corev1.Service) (*checkup.LoadBalancer, error) {
	fits := func(b *checkup.LoadBalancer) bool {
		return b != nil && !b.Gone && (b.NLB != nil) == remedy.NLB(svc)
	}
	if b := g.Balancers[svc.Labels[remedy.BalancerLabel]]; fits(b) {
		return b, nil
	}
	for _, b := range g.List() {
		if !fits(b) || b.Address == "" || b.Address != remedy.Address(svc) {
			continue
		}
		if b.NLB != nil || b.VPC == "" {
			return b, nil
		}
		if err := g.Err(checkup.Detail); err != nil {
			return nil, fmt.Errorf("whether %s, which has its address, is in the cluster's VPC: %w", b.ID, err)
		}
		if b.VPC == g.Detail.VPC {
			return b, nil
		}
	}
	return nil, nil
}
