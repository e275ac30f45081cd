package controller

import (
	"context"
	"fmt"
	"strings"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"
)

// Further domains of an HTTPS listener have certificates of their own, since v2.13.0 (pkg/controller/service/clbv1/listeners.go).

// domainsOf parses an annotation such as a.example.com:cert-1,b.example.com:cert-2.
func domainsOf(annotation string) (map[string]string, error) {
	domains := map[string]string{}
	for v := range strings.SplitSeq(annotation, ",") {
		parts := strings.Split(strings.TrimSpace(v), ":")
		if len(parts) != 2 {
			return nil, fmt.Errorf("parse DomainExtensions error: invalid domain extension %s", strings.TrimSpace(v))
		}
		domains[parts[0]] = parts[1]
	}
	return domains, nil
}

type domainExtension struct{ id, cert string }

// changeDomains makes the further domains of a listener match the request. Without a request, it keeps them. For a domain with another
// certificate it sends the old one without the domain's ID, as the controller does (diffDomainExtensions).
func (p *pass) changeDomains(ctx context.Context, lb string, l *listener) error {
	if l.domains == nil {
		return nil
	}
	req, resp := slb.CreateDescribeDomainExtensionsRequest(), slb.CreateDescribeDomainExtensionsResponse()
	req.LoadBalancerId, req.ListenerPort = lb, requests.NewInteger(l.port)
	if err := p.cloud.call(ctx, req, resp); err != nil {
		return fmt.Errorf("describe domain extensions of listener %d error: %w", l.port, err)
	}
	have := map[string]domainExtension{}
	for _, d := range resp.DomainExtensions.DomainExtension {
		have[d.Domain] = domainExtension{d.DomainExtensionId, d.ServerCertificateId}
	}
	var errs []error
	for _, domain := range sorted(l.domains) {
		if old, there := have[domain]; there && old.cert != l.domains[domain] {
			req := slb.CreateSetDomainExtensionAttributeRequest()
			req.ServerCertificateId = old.cert
			errs = append(errs, p.cloud.call(ctx, req, slb.CreateSetDomainExtensionAttributeResponse()))
		}
	}
	for _, domain := range sorted(l.domains) {
		if _, there := have[domain]; !there {
			errs = append(errs, p.addDomain(ctx, lb, l, domain))
		}
	}
	for _, domain := range sorted(have) {
		if _, wanted := l.domains[domain]; !wanted {
			req := slb.CreateDeleteDomainExtensionRequest()
			req.DomainExtensionId = have[domain].id
			errs = append(errs, p.cloud.call(ctx, req, slb.CreateDeleteDomainExtensionResponse()))
		}
	}
	return aggregate(errs)
}

func (p *pass) addDomain(ctx context.Context, lb string, l *listener, domain string) error {
	req := slb.CreateCreateDomainExtensionRequest()
	req.LoadBalancerId, req.ListenerPort, req.Domain, req.ServerCertificateId = lb, requests.NewInteger(l.port), domain, l.domains[domain]
	return p.cloud.call(ctx, req, slb.CreateCreateDomainExtensionResponse())
}
