package cloud

import (
	"context"
	"slices"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"
)

// A Certificate is a server certificate that HTTPS listeners of classic load balancers can use.
type Certificate struct {
	ID      string
	Domains []string  // common name first, then further ones
	Expires time.Time // zero if the answer lacks it
}

// Expired reports whether the certificate is known to have expired at now.
func (k Certificate) Expired(now time.Time) bool {
	return !k.Expires.IsZero() && k.Expires.Before(now)
}

// Certificates returns the server certificates of the region, sorted by ID. It needs grant.DescribeServerCertificates.
func (s SLB) Certificates(ctx context.Context) ([]Certificate, error) {
	type wireCertificate struct {
		ServerCertificateID     text `json:"ServerCertificateId"`
		CommonName              text
		ExpireTimeStamp         number // milliseconds
		SubjectAlternativeNames *struct{ SubjectAlternativeName []text }
	}
	type answer struct {
		ServerCertificates *struct{ ServerCertificate []wireCertificate }
	}
	a, err := read(ctx, s.c, call[answer]{
		request: func() requests.AcsRequest { return slb.CreateDescribeServerCertificatesRequest() },
		check: func(a answer) error {
			if a.ServerCertificates == nil {
				return lack("ServerCertificates")
			}
			for _, c := range a.ServerCertificates.ServerCertificate {
				if c.ServerCertificateID == "" {
					return lack("ServerCertificateId of a certificate")
				}
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	var out []Certificate
	for _, w := range a.ServerCertificates.ServerCertificate {
		c := Certificate{ID: string(w.ServerCertificateID)}
		if w.CommonName != "" {
			c.Domains = append(c.Domains, string(w.CommonName))
		}
		if w.SubjectAlternativeNames != nil {
			for _, d := range strs(w.SubjectAlternativeNames.SubjectAlternativeName) {
				if !slices.Contains(c.Domains, d) {
					c.Domains = append(c.Domains, d)
				}
			}
		}
		if w.ExpireTimeStamp.ok && w.ExpireTimeStamp.n > 0 {
			c.Expires = time.UnixMilli(w.ExpireTimeStamp.n).UTC()
		}
		out = append(out, c)
	}
	return sorted(out, func(c Certificate) string { return c.ID }), nil
}

// An ACL is an access control list of listeners.
type ACL struct {
	ID        string
	Name      string
	IPVersion string // "ipv4" or "ipv6"
}

// ACLs returns the access control lists of the region, sorted by ID. It needs grant.DescribeAccessControlLists.
func (s SLB) ACLs(ctx context.Context) ([]ACL, error) {
	type wireACL struct {
		AclID            text `json:"AclId"`
		AclName          text
		AddressIPVersion text
	}
	type answer struct {
		TotalCount number
		Acls       *struct{ Acl []wireACL }
	}
	id := func(w wireACL) string { return string(w.AclID) }
	list, err := numbered("slb", "DescribeAccessControlLists", id, pages(ctx, s.c, listing[int, answer, wireACL]{
		request: func(page int) requests.AcsRequest {
			r := slb.CreateDescribeAccessControlListsRequest()
			r.PageNumber, r.PageSize = whole(page), whole(50)
			return r
		},
		page: func(a answer) (p pageOf[wireACL], err error) {
			if !a.TotalCount.ok || a.Acls == nil {
				return p, lack("TotalCount and Acls")
			}
			return counted(a.TotalCount, a.Acls.Acl)
		},
		check: func(w wireACL) error {
			if w.AclID == "" {
				return lack("AclId of an access control list")
			}
			return nil
		},
	}))
	return values(list, func(w wireACL) ACL {
		return ACL{ID: string(w.AclID), Name: string(w.AclName), IPVersion: string(w.AddressIPVersion)}
	}), err
}
