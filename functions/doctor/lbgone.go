package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// lbGone looks for load balancers that were deleted or that the controller no longer finds.
var lbGone = &doctor.Check{
	ID:    "lb-gone",
	Doc:   page("lb-gone"),
	Needs: []doctor.Part{doctor.CLBs}, // without Services it still examines the API server's load balancer
	Uses: []doctor.Part{doctor.Services, doctor.NLBs, doctor.Named, doctor.Detail,
		doctor.Listeners, doctor.Groups, doctor.Ingress},
	Find: findLBGone,
	Fix:  &doctor.Fix{Steps: []remedy.Step{step.TagLB{}, step.ClearStatus{}, step.Resync{}}, Plan: fixLBGone},
}

var errEmpty = say.Errorf("the list of load balancers is empty, which can also be the effect of permissions limited by resource")

func findLBGone(s *doctor.Snapshot, r *doctor.Report) {
	gone := goneLook{s, r, map[bool]int{}}
	for _, b := range s.List() {
		gone.count[b.NLB != nil]++
	}
	gone.apiServer()
	gone.ingress()
	if err := s.Err(doctor.Services); err != nil {
		r.Unknown(doctor.All(doctor.Service), say.Errorf("whether the load balancers of Services exist: %w", err))
		return
	}
	for _, svc := range s.OfType() {
		if doctor.NamedBy(svc) == "" && !ccm.Synced(svc) {
			continue // it has no load balancer yet
		}
		switch b, err := s.Balancer(svc); {
		case err != nil:
			r.Unknown(about(svc), err)
		case b == nil:
			gone.service(svc)
		}
	}
}

type goneLook struct {
	*doctor.Snapshot
	report *doctor.Report
	count  map[bool]int // load balancers in the lists, NLBs under true
}

// apiServer looks for the API server's load balancer by the address in the cluster's details. A cluster without one has no address there.
func (g *goneLook) apiServer() {
	if err := g.Err(doctor.Detail, doctor.CLBs, doctor.NLBs); err != nil {
		g.report.Unknown(g.OfCluster(), say.Errorf("whether the API server's load balancer exists: %w", err))
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
	f := doctor.Finding{Severity: doctor.Critical, About: g.OfCluster(), Key: "api-server", Evidence: map[string]string{"address": address},
		Text: say.F("No load balancer of the region has the API server's address %s:%d (%s listed).", address, apiServerPort, say.Count(g.count[false], "CLB")),
		Do:   say.F("Check that it does not exist: aliyun slb DescribeLoadBalancers --RegionId %s --Address %s.", g.Region, address),
	}
	if g.Answers() {
		// The list may be limited by resource, or this runs on a master.
		f.Severity = doctor.Warning
		f.Text = f.Text.And("But the API server still answers here.").
			And("Either permissions hide the load balancer, or it is gone and there is another way to the API server.")
		f.Do = f.Do.And("If permissions hide it, allow the doctor to list it. If it is gone, only a new cluster restores it.").
			And("Before you create one, ask Alibaba Cloud, and save what runs in this cluster while the API server answers.")
	} else {
		f.Text = f.Text.And("Its load balancer is gone.")
		f.Do = f.Do.And("If it is gone, only a new cluster restores it. Before you create one, ask Alibaba Cloud, and save what runs in this cluster.")
	}
	g.report.Add(f)
}

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
		g.report.Unknown(about(svc), say.Errorf("which load balancer it had: its label names %s, which is not its own", was))
	case gone:
		g.add(svc, id, was)
	}
}

// gone reports whether the API says that the load balancer does not exist. Without an ID, it suffices that none has the Service's address.
func (g *goneLook) gone(svc *corev1.Service, was string) (bool, error) {
	if was == "" {
		eip, _ := ccm.Annotation(svc, ccm.ExternalIP)
		host, _ := ccm.Annotation(svc, "hostname")
		switch {
		case g.count[ccm.NLB(svc)] == 0:
			return false, errEmpty
		case !ccm.NLB(svc) && (eip == "eip" || host != ""):
			return false, say.Errorf("the address %s does not belong to its load balancer, and nothing else says which one it had", ccm.Address(svc))
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
		return false, say.Errorf("the list lacks %s, and the API was not asked about it", ccm.Quote(was))
	case errors.Is(err, cloud.ErrNotFound):
		return true, nil
	case err != nil:
		return false, say.Errorf("whether %s exists: %w", ccm.Quote(was), err)
	}
	return false, say.Errorf("%s exists, but the list of load balancers lacks it: permissions limited by resource hide some", ccm.Quote(was))
}

func (g *goneLook) lost(svc *corev1.Service, b *doctor.LoadBalancer) {
	tag, resync := ccm.TagCommand(svc, g.Region, b.ID, ccm.NameTag, ccm.DefaultName(svc)), ccm.ResyncCommand(svc)
	do := say.F("Tag it: %s, then trigger a resync: %s.", tag, resync)
	if why := doubt(g.Snapshot, svc, b); len(why) > 0 {
		do = why.And("If the controller created it only for this Service, tag it: %s, then trigger a resync: %s.", tag, resync).
			And("If a person created it, name it: %s.", ccm.SetCommand(svc, "id", b.ID))
	}
	g.report.Add(doctor.Finding{Severity: doctor.Warning, About: about(svc), Key: "lost", Do: do,
		Evidence: map[string]string{"load balancer": b.ID, "address": ccm.Address(svc)},
		Text: say.F("The load balancer %s of the Service still exists, but the controller does not find it: it has lost the tag %s and its name.", b.ID, ccm.NameTag).
			And("Its backends are no longer updated.")})
}

// add reports a missing load balancer. id is empty unless the Service names it.
func (g *goneLook) add(svc *corev1.Service, id, was string) {
	address := ccm.Address(svc)
	f := doctor.Finding{Severity: doctor.Critical, About: about(svc), Evidence: map[string]string{"load balancer": cut(was), "address": address}}
	if id != "" {
		f.Text = say.F("The annotation id names the load balancer %s, which does not exist in the region.", ccm.Quote(id))
		if address == "" {
			f.Text = f.Text.And("The Service never gets an address.")
			f.Do = say.F("Name an existing load balancer: %s.", set(svc, "id")).
				And("Or remove the annotation, and the controller creates one: %s.", ccm.RemoveCommand(svc, "id"))
		} else {
			f.Text = f.Text.And("Nobody answers at the Service's address %s.", address)
			f.Do = say.F("Delete the Service and create it again, with or without the annotation of an existing load balancer: its address changes.").
				And("It is not enough to change the annotation: while the Service has its address, the controller uses no other load balancer.").
				Then(step.Allowlisted(svc)).Then(step.NoLongerNeeded(svc))
		}
		g.report.Add(f)
		return
	}
	if was != "" {
		f.Text = say.F("The load balancer %s of the Service is gone.", ccm.Quote(was))
	} else {
		f.Text = say.F("No load balancer of the region has the Service's address %s (%s listed).", address, g.listed(svc))
		f.Do = say.F("Check that it is gone: permissions limited by resource hide load balancers.")
	}
	if address != "" {
		f.Text = f.Text.And("Nobody answers at %s.", address)
	}
	f.Text = f.Text.And("The controller does not create another one while the Service stays as it is.")
	f.Do = f.Do.And("To make the controller create a new load balancer, with a new address, %s.", step.RecreateByHand(svc)).
		And("Or delete the Service and create it again.").
		And("A controller that still remembers the token of the previous creation may need a restart.").
		Then(step.Allowlisted(svc)).Then(step.NoLongerNeeded(svc))
	if svc.Namespace == ccm.IngressNamespace && svc.Name == ccm.IngressService {
		f.Key = "ingress"
		f.Text = f.Text.And("All Ingresses of the cluster's ingress controller are affected.")
		f.Do = f.Do.And("The manifest to create the Service again is on the page of this check: lbremedy doctor checks lb-gone.").
			And("Afterwards, point the DNS names of the Ingresses to the new address.")
	}
	g.report.Add(f)
}

func (g *goneLook) listed(svc *corev1.Service) say.Text {
	if ccm.NLB(svc) {
		return say.Count(g.count[true], "NLB")
	}
	return say.Count(g.count[false], "CLB")
}

// ingressApp is the label app by which the ingress controller's Service selects Pods.
const ingressApp = "ingress-nginx"

// ingress reports that the ingress controller runs without its Service.
func (g *goneLook) ingress() {
	if err := g.Err(doctor.Services, doctor.Ingress); err != nil {
		g.report.Unknown(g.OfCluster(), say.Errorf("whether the ingress controller has its Service: %w", err))
		return
	}
	instead := slices.ContainsFunc(g.Services, func(svc corev1.Service) bool {
		return svc.Namespace == ccm.IngressNamespace && svc.Spec.Selector["app"] == ingressApp
	})
	if g.Ingress.Service || g.Ingress.Ready == 0 || instead {
		return
	}
	const service = ccm.IngressNamespace + "/" + ccm.IngressService
	_, after, _ := strings.Cut(page("lb-gone"), "```yaml\n")
	manifest, _, _ := strings.Cut(after, "```")
	g.report.Add(doctor.Finding{Severity: doctor.Critical, About: g.OfCluster(), Key: "ingress",
		Evidence: map[string]string{"ready": fmt.Sprint(g.Ingress.Ready), "manifest": manifest},
		Text: say.F("The Service %s does not exist, but its controller still runs: the %s %s has %s.", service, g.Ingress.Kind, ccm.IngressController,
			say.Count(g.Ingress.Ready, "ready Pod")).And("No other Service makes its Ingresses reachable from outside."),
		Do: say.F("Create the Service again with the manifest on the page of this check: lbremedy doctor checks lb-gone.").
			And("Afterwards, point the DNS names of the Ingresses to the new address."),
	})
}

// fixLBGone tags a load balancer that is proven to be the Service's, or lets the controller create one if the API says that it is gone.
// If the Service names the missing one, only a person knows what should replace it.
func fixLBGone(s *doctor.Snapshot, svc *corev1.Service, found []doctor.Finding) remedy.Plan {
	ask := remedy.Plan{Finding: found[0].Text, Ask: found[0].Do}
	id, _ := ccm.Annotation(svc, "id")
	b, err := s.Left(svc)
	if id != "" || err != nil {
		return ask
	}
	var p remedy.Plan
	if b != nil {
		if len(doubt(s, svc, b)) > 0 {
			return ask
		}
		p = step.Retag(svc, &b.Instance)
	} else {
		was, look := doctor.NamedBy(svc), goneLook{Snapshot: s, count: map[bool]int{}}
		if was == "" {
			return ask
		}
		if gone, err := look.gone(svc, was); err != nil || !gone {
			return ask
		}
		p = step.Recreate(svc)
	}
	p.Finding = found[0].Text
	return p
}
