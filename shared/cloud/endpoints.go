package cloud

import (
	"maps"
	"strings"
	"sync"

	"github.com/aliyun/alibaba-cloud-sdk-go/services/bssopenapi"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/cs"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ecs"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/nlb"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/quotas"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ram"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/sts"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/vpc"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/workorder"
)

type product struct {
	regions map[string]string // region to host; other regions follow the rule of the SDK
	kind    string            // "regional" or "central", which chooses the rule
	inVPC   string            // host inside a VPC, with <region> in it; empty: <product>-vpc.<region>.aliyuncs.com
}

// onlyPublic, as inVPC, says that no endpoint inside a VPC is documented.
const onlyPublic = "-"

// products returns the products by name, once per process: the SDK fills its tables on first use, without a lock.
var products = sync.OnceValue(func() map[string]product {
	return map[string]product{
		"bssopenapi": {maps.Clone(bssopenapi.GetEndpointMap()), bssopenapi.GetEndpointType(), onlyPublic},
		"cs":         {maps.Clone(cs.GetEndpointMap()), cs.GetEndpointType(), "cs-anony-vpc.<region>.aliyuncs.com"},
		"ecs":        {maps.Clone(ecs.GetEndpointMap()), ecs.GetEndpointType(), ""},
		"nlb":        {maps.Clone(nlb.GetEndpointMap()), nlb.GetEndpointType(), ""},
		"quotas":     {maps.Clone(quotas.GetEndpointMap()), quotas.GetEndpointType(), onlyPublic},
		"ram":        {maps.Clone(ram.GetEndpointMap()), ram.GetEndpointType(), "ram.vpc-proxy.aliyuncs.com"},
		"slb":        {maps.Clone(slb.GetEndpointMap()), slb.GetEndpointType(), ""},
		"sts":        {maps.Clone(sts.GetEndpointMap()), sts.GetEndpointType(), ""},
		"vpc":        {maps.Clone(vpc.GetEndpointMap()), vpc.GetEndpointType(), ""},
		"workorder":  {maps.Clone(workorder.GetEndpointMap()), workorder.GetEndpointType(), onlyPublic},
	}
})

func (p product) vpcHost(name, region string) string {
	host := p.inVPC
	if host == "" {
		host = name + "-vpc.<region>.aliyuncs.com"
	}
	return strings.ReplaceAll(host, "<region>", region)
}
