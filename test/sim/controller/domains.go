package controller

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"
)

// Further domains of an HTTPS listener have certificates of their own, since v2.13.0. The source of that release is not fully
// public: that the listener is written first, and the error of a malformed annotation, are inferred from other annotations.

// domainsOf parses an annotation such as a.example.com:cert-1,b.example.com:cert-2.
func domainsOf(annotation string) (map[string]string, error) {
	domains := map[string]string{}
	for v := range strings.SplitSeq(annotation, ",") {
		domain, cert, ok := strings.Cut(strings.TrimSpace(v), ":")
		if !ok || domain == "" || cert == "" {
			//lint:ignore ST1005 the way of the controller's words
			return nil, fmt.Errorf("Annotation DomainExtensions format error: %s, expect domain1:cert-id1,domain2:cert-id2", annotation)
		}
		domains[domain] = cert
	}
	return domains, nil
}

type domainExtension struct{ id, cert string }

// changeDomains makes the further domains of a listener match the request. Without a request, it keeps them.
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
	for _, domain := range sorted(have) {
		if _, wanted := l.domains[domain]; wanted {
			continue
		}
		req := slb.CreateDeleteDomainExtensionRequest()
		req.DomainExtensionId = have[domain].id
		if err := p.cloud.call(ctx, req, slb.CreateDeleteDomainExtensionResponse()); err != nil {
			return fmt.Errorf("delete domain extension %s of listener %d error: %w", domain, l.port, err)
		}
	}
	return p.extendDomains(ctx, lb, l, have)
}

func (p *pass) extendDomains(ctx context.Context, lb string, l *listener, have map[string]domainExtension) error {
	for _, domain := range sorted(l.domains) {
		cert := l.domains[domain]
		old, there := have[domain]
		var err error
		switch {
		case !there:
			req := slb.CreateCreateDomainExtensionRequest()
			req.LoadBalancerId, req.ListenerPort, req.Domain, req.ServerCertificateId = lb, requests.Integer(strconv.Itoa(l.port)), domain, cert
			err = p.cloud.call(ctx, req, slb.CreateCreateDomainExtensionResponse())
		case old.cert != cert:
			req := slb.CreateSetDomainExtensionAttributeRequest()
			req.DomainExtensionId, req.ServerCertificateId = old.id, cert
			err = p.cloud.call(ctx, req, slb.CreateSetDomainExtensionAttributeResponse())
		}
		if err != nil {
			return fmt.Errorf("set domain extension %s of listener %d error: %w", domain, l.port, err)
		}
	}
	return nil
}
