package doctor

import (
	_ "embed"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed lbgone.md
var lbGoneDoc string

// lbGone looks for load balancers that someone deleted.
var lbGone = &doctor.Check{
	ID:    "lb-gone",
	Doc:   lbGoneDoc,
	Needs: []doctor.Part{doctor.CLBs}, // without Services it still finds that the API server's is gone
	Uses: []doctor.Part{doctor.Services, doctor.NLBs, doctor.Named, doctor.Detail,
		doctor.Listeners, doctor.Groups},
	Find: findLBGone,
	Fix:  &doctor.Fix{Steps: []remedy.Step{step.TagLB{}, step.ClearStatus{}, step.Touch{}}, Plan: fixLBGone},
}

// errEmpty is why an empty list proves nothing.
var errEmpty = errors.New("the list of load balancers is empty, which permissions limited by resource also lead to")

func findLBGone(s *doctor.Snapshot, r *doctor.Report) {
	gone := goneLook{s, r, map[bool]int{}}
	for _, b := range s.List() {
		gone.count[b.NLB != nil]++
	}
	gone.apiServer()
	if err := s.Err(doctor.Services); err != nil {
		r.Unknown(doctor.All(doctor.Service), fmt.Errorf("whether the load balancers of Services exist: %w", err))
		return
	}
	for _, svc := range s.OfType() {
		if doctor.NamedBy(svc) == "" && !ccm.Synced(svc) {
			continue // it has none yet
		}
		switch b, err := s.Balancer(svc); {
		case err != nil:
			r.Unknown(about(svc), err)
		case b == nil:
			gone.service(svc)
		}
	}
}

// A goneLook is a snapshot whose missing load balancers are being looked for.
type goneLook struct {
	*doctor.Snapshot
	report *doctor.Report
	count  map[bool]int // load balancers in the lists, NLBs under true
}

// apiServer looks for the load balancer of the API server by the address that the
// cluster states. The answer of a cluster that has none states none.
func (g *goneLook) apiServer() {
	if err := g.Err(doctor.Detail, doctor.CLBs, doctor.NLBs); err != nil {
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
			if z.Address == address || z.Address == "" && b.Tags[ccm.ClusterTag] != "" {
				return
			}
		}
	}
	if g.count[false] == 0 {
		g.report.Unknown(g.OfCluster(), errEmpty)
		return
	}
	none := fmt.Sprintf("The API server has the address %s:%d, which no load balancer of the region has, of %s listed", address, apiServerPort, ccm.Count(g.count[false], "CLB"))
	sure := fmt.Sprintf("Make sure: aliyun slb DescribeLoadBalancers --RegionId %s --Address %s.", g.Region, address)
	f := doctor.Finding{Severity: doctor.Critical, About: g.OfCluster(), Key: "api-server", Evidence: map[string]string{"address": address},
		Text: say.F("%s: its load balancer is gone.", none),
		Do:   say.Literal(sure).And("If it is gone, nothing brings it back: only the cluster can be made again. Ask Alibaba Cloud before you do, and save what runs in it."),
	}
	if g.Answers() {
		// The list may be limited by resource; or who asks is on a master.
		f.Severity = doctor.Warning
		f.Text = say.F("%s. It still answers here: permissions hide the load balancer, or it is gone and another way leads to the API server.", none)
		f.Do = say.Literal(sure).And("If permissions hide it, allow the survey to list it. If it is gone, nothing brings it back: only the cluster can be made again. Ask Alibaba Cloud before you do, and save what runs in it while the API server answers.")
	}
	g.report.Add(f)
}

// service reports on a Service whose load balancer the controller does not find.
func (g *goneLook) service(svc *corev1.Service) {
	id, _ := ccm.Annotation(svc, "id")
	if id == "" {
		b, err := g.Left(svc)
		if err != nil {
			g.report.Unknown(about(svc), err)
			return
		}
		if b != nil {
			g.lost(svc, b)
			return
		}
	}
	was := doctor.NamedBy(svc)
	gone, err := g.gone(svc, was)
	switch {
	case err != nil:
		g.report.Unknown(about(svc), err)
	case !gone && id == "" && ccm.Synced(svc):
		g.report.Unknown(about(svc), fmt.Errorf("the load balancer %s that its label names is not its own, and which was nobody says", was))
	case gone:
		g.add(svc, id, was)
	}
}

// gone reports whether the API says that the load balancer with this ID does not exist.
// Where nothing names it, no load balancer having the Service's address has to do.
func (g *goneLook) gone(svc *corev1.Service, was string) (bool, error) {
	if was == "" {
		eip, _ := ccm.Annotation(svc, "external-ip-type")
		host, _ := ccm.Annotation(svc, "hostname")
		switch {
		case g.count[ccm.NLB(svc)] == 0:
			return false, errEmpty
		case !ccm.NLB(svc) && (eip == "eip" || host != ""):
			return false, fmt.Errorf("the address %s is not its load balancer's own, and nothing else says which it had", ccm.Address(svc))
		}
		return true, nil
	}
	if b := g.Balancers[was]; b != nil {
		return b.Gone, nil
	}
	if err := g.Err(doctor.Named); err != nil {
		return false, err
	}
	err, asked := g.Named[was]
	switch {
	case !asked:
		return false, fmt.Errorf("the list has no %s, and it was not asked for", ccm.Quote(was))
	case errors.Is(err, cloud.ErrNotFound):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("whether %s exists: %w", ccm.Quote(was), err)
	}
	return false, fmt.Errorf("%s exists, and the list of load balancers lacks it: permissions limited by resource hide some", ccm.Quote(was))
}

// lost reports a load balancer that the controller does not find any more.
func (g *goneLook) lost(svc *corev1.Service, b *doctor.LoadBalancer) {
	tag := fmt.Sprintf("%s, then %s", ccm.TagCommand(svc, g.Region, b.ID, ccm.NameTag, ccm.DefaultName(svc)), ccm.WakeCommand(svc))
	do := fmt.Sprintf("Give it its tag: %s.", tag)
	if why := doubt(g.Snapshot, svc, b); why != "" {
		do = fmt.Sprintf("%s If the controller made it for this Service alone, give it its tag: %s. If a person made it, name it: %s.", why, tag, ccm.SetCommand(svc, "id", b.ID))
	}
	g.report.Add(doctor.Finding{Severity: doctor.Warning, About: about(svc), Key: "lost", Evidence: map[string]string{"load balancer": b.ID, "address": ccm.Address(svc)},
		Text: say.F("%s of the Service still exists, and the controller does not find it: it has lost the tag %s and its name. Its backends stay as they are.", b.ID, ccm.NameTag),
		Do:   say.Literal(do)})
}

// add reports a load balancer that is gone.
func (g *goneLook) add(svc *corev1.Service, id, was string) {
	address := ccm.Address(svc)
	f := doctor.Finding{Severity: doctor.Critical, About: about(svc), Evidence: map[string]string{"load balancer": cut(was), "address": address}}
	what, sure := ccm.Quote(was), ""
	if was == "" {
		what = "with the address " + address
		sure = "Make sure that it is gone: permissions limited by resource hide load balancers. "
	}
	again := "Have the controller make a new one, with a new address: " + anew(svc) + ". Or delete the Service and create it again. A controller that remembers the old creation may need a restart."
	switch {
	case id != "" && address == "":
		f.Text = say.F("The Service names the load balancer %s, which does not exist in the region: it never comes up.", what)
		f.Do = say.F("Name one that exists: %s. Or have the controller make one: %s.", set(svc, "id"), ccm.RemoveCommand(svc, "id"))
	case id != "":
		f.Text = say.F("The Service names the load balancer %s, which does not exist in the region: nobody answers at %s.", what, address)
		f.Do = say.F("Delete the Service and create it again, with the annotation of one that exists or without it: its address changes, and while the Service has its old one the controller takes no other.")
	case name(svc) == ingress:
		f.Key = "ingress"
		f.Text = say.F("The load balancer %s of the cluster's ingress is gone: nobody answers%s, for all that comes in by Ingresses.", what, at(address))
		f.Do = say.F("%s%s The manifest to create it again is on the page of this check: lbremedy doctor checks lb-gone. Afterwards point the DNS names of the Ingresses to the new address.", sure, again)
	case was == "":
		f.Text = say.F("No load balancer of the region has the address %s of the Service, of %s listed: nobody answers there, and the controller makes no other while the Service is as it is.", address, ccm.Count(g.count[ccm.NLB(svc)], kind(svc)))
		f.Do = say.F("%s%s", sure, again)
	default:
		f.Text = say.F("The load balancer %s of the Service is gone: nobody answers%s, and the controller makes no other while the Service is as it is.", what, at(address))
		f.Do = say.F("%s%s", sure, again)
	}
	g.report.Add(f)
}

// kind returns which kind of load balancer a Service has.
func kind(svc *corev1.Service) string {
	if ccm.NLB(svc) {
		return "NLB"
	}
	return "CLB"
}

// at says where somebody would answer; nothing if there is no such place.
func at(address string) string {
	if address == "" {
		return ""
	}
	return " at " + address
}

// anew returns the commands by which a person has the controller make a load balancer in
// the place of one that is gone: while the status has an address it makes none, and a
// change of the status alone wakes nobody.
func anew(svc *corev1.Service) string {
	if !ccm.Synced(svc) {
		return ccm.WakeCommand(svc)
	}
	return ccm.ClearCommand(svc) + ", then " + ccm.WakeCommand(svc)
}

// ingress is the Service of the ingress controller that clusters are made with.
const ingress = "kube-system/nginx-ingress-lb"

// fixLBGone tags a load balancer that is proven to be the Service's, or has the
// controller make one in the place of its own that the API says is gone. Of one that the
// Service names it asks: which is to take its place only a person knows.
func fixLBGone(s *doctor.Snapshot, svc *corev1.Service, found []doctor.Finding) remedy.Plan {
	p := remedy.Plan{Finding: found[0].Text, Ask: found[0].Do}
	was := doctor.NamedBy(svc)
	id, _ := ccm.Annotation(svc, "id")
	look := goneLook{Snapshot: s, count: map[bool]int{}}
	switch b, err := s.Left(svc); {
	case id != "" || err != nil:
	case b != nil && doubt(s, svc, b) == "":
		p.Ask = nil
		p.Note = say.F("With this tag the controller deletes %s when the Service is deleted.", b.ID)
		p.Steps = []remedy.Step{step.TagLB{LB: b.ID, Key: ccm.NameTag, Value: ccm.DefaultName(svc), Network: b.NLB != nil}, step.Touch{}}
	case b == nil && was != "":
		if gone, err := look.gone(svc, was); err != nil || !gone {
			return p
		}
		p.Ask, p.Risk = nil, remedy.High
		p.Note = say.F("The new load balancer has another address. A controller that still remembers the token of the old creation may need a restart. The other way is to delete the Service and create it again.")
		p.Steps = []remedy.Step{step.Touch{}}
		if ccm.Synced(svc) {
			p.Steps = []remedy.Step{step.ClearStatus{Was: svc.Status.LoadBalancer.Ingress}, step.Touch{}}
		}
	}
	return p
}
