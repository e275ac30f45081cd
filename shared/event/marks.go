package event

type mark uint8

const (
	noMark mark = iota
	markWrapper
	markUpstream
	markController
	markAPI
	markForeign
	markError
	markMessage
	markResidue
	markCode
	markURL
	markNested
	markRest
)

var marks = []struct {
	mark mark
	text string
}{
	// Beginnings of the controller's messages. All but the first four are older than a bracket with the load balancer's ID; other
	// clouds' service controllers use them too.
	{markWrapper, "error syncing load balancer"},
	{markWrapper, "error deleting load balancer"},
	{markWrapper, "fail to ensure loadbalancer, error"},
	{markWrapper, "fail to delete loadbalancer, error"},
	{markWrapper, "error creating load balancer"},
	{markWrapper, "error deleting:"},

	// Kubernetes' service controller, which other clouds use, continues so.
	{markUpstream, "failed to ensure load balancer"},
	{markUpstream, "failed to delete load balancer"},
	{markUpstream, "failed to check if load balancer"},
	{markUpstream, "failed to add load balancer"},
	{markUpstream, "failed to remove load balancer"},
	{markUpstream, "failed to update load balancer"},

	{markController, "alicloud:"},
	{markController, "alicloud-loadbalancer"},
	{markController, "alibaba-cloud-loadbalancer"},
	{markController, "apply model error"},
	{markController, "build lb local model error"},
	{markController, "build nlb local model error"},
	{markController, "build nlb attribute error"},
	{markController, "build vserver groups error"},
	{markController, "update lb attribute error"},
	{markController, "cleanup lb error"},
	{markController, "create lb error"},
	{markController, "create slb error"},
	{markController, "create nlb error"},
	{markController, "unprocessed listeners in reconcile"},
	{markController, "kubernetes.do.not.delete"},
	{markController, "error creating route entry in"},
	{markController, "describe route failed for"},
	{markController, "reconciling route error"},
	{markController, "error reconciling route, reconcile table"},
	{markController, "failed to disable source dest check for node"},

	{markAPI, "aliyuncs.com"},
	{markAPI, "api.aliyun.com"},
	{markAPI, "[sdk."},

	{markForeign, "googleapi"},
	{markForeign, "arn:aws"},
	{markForeign, "amazonaws"},
	{markForeign, "azure"},
	{markForeign, "retriable:"},
	{markForeign, "microsoft."},
	{markForeign, "original error:"},
	{markForeign, "openstack"},
	{markForeign, "tencentcloud"},
	{markForeign, "huaweicloud"},
	{markForeign, "volcengine"},
	{markForeign, "digitalocean"},
	{markForeign, "hcloud"},

	{markError, "aliyun api error"},
	{markError, "[sdkerror]"},
	{markError, "sdkerror:"},
	{markError, "sdk.servererror"},
	{markError, "sdk.clienterror"},

	// Beginning and end of an API's message; then come the next error of an aggregate, or its wrappers.
	{markMessage, "message:"},
	{markResidue, "., "},
	{markResidue, ". , "},
	{markResidue, ", alicloud:"},

	{markCode, "code:"},
	{markCode, "code :"},
	{markCode, "code="},
	{markCode, `code":`},
	{markCode, `code" :`},

	// Addresses and data sent or received, which can contain any word.
	{markURL, "http://"},
	{markURL, "https://"},
	{markNested, "data: {"},
	{markNested, "data:{"},
	{markNested, "data: map["},
	{markNested, "data:map["},
	{markNested, "respheaders: map["},
	{markNested, "accessdenieddetail: map["},
	{markNested, "accessdenieddetail: {"},

	// After these comes an annotation's value. It can contain a closing bracket, and the controller may repeat it outside of brackets.
	{markRest, "got ["},
	{markRest, "got=["},
	{markRest, "zonemapping format error, expect [zone-a:vsw-id-1,zone-b:vsw-id-2], got "},
	{markRest, `: parsing "`},
	{markRest, "forward port format error: "},
	{markRest, "forward port format error, get: "},
	{markRest, "forward port is not an integer, "},
	{markRest, "invalid domain extension "},
	{markRest, `invalid flag "`},
	{markRest, "invalid ipv6 address type "},
	{markRest, "parse backend label: "},
	{markRest, "unsupport server servergrouptype ["},
	{markRest, "protocol not supported wit ["},

	// After these, the rest of the message is the API server's own.
	{markRest, `is forbidden: user "`},
	{markRest, "failed calling webhook"},
	{markRest, "denied the request:"},
	{markRest, "denied request:"},
}
