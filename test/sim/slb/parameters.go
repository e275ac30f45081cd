package slb

import (
	"maps"
	"strings"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// usual are the default parameters of a protocol's listeners in answers. An HTTP listener states that it redirects nothing;
// without that, a client would recreate it. Source, with those of UDP, HTTP and HTTPS beside it:
// https://www.alibabacloud.com/help/en/slb/classic-load-balancer/developer-reference/api-slb-2014-05-15-createloadbalancertcplistener
var usual = func() map[string]core.Reply {
	checked := core.Reply{"HealthyThreshold": 3, "UnhealthyThreshold": 3, "HealthCheckInterval": 2}
	with := func(base, more core.Reply) core.Reply {
		all := maps.Clone(base)
		maps.Copy(all, more)
		return all
	}
	packets := with(checked, core.Reply{"HealthCheckSwitch": "on", "ConnectionDrain": "off", "ProxyProtocolV2Enabled": "false"})
	web := with(checked, core.Reply{
		"RequestTimeout": 60, "IdleTimeout": 15, "HealthCheckTimeout": 5, "HealthCheckHttpCode": "http_2xx", "HealthCheckMethod": "head", "Gzip": "on",
		"XForwardedFor": "on", "XForwardedFor_proto": "off", "XForwardedFor_SLBPORT": "off", "XForwardedFor_ClientSrcPort": "off",
	})
	return map[string]core.Reply{
		"tcp":   with(packets, core.Reply{"PersistenceTimeout": 0, "EstablishedTimeout": 900, "HealthCheckType": "tcp", "HealthCheckConnectTimeout": 5}),
		"udp":   with(packets, core.Reply{"HealthCheckConnectTimeout": 10, "HealthCheckInterval": 5}),
		"http":  with(web, core.Reply{"ListenerForward": "off"}),
		"https": with(web, core.Reply{"EnableHttp2": "on", "TLSCipherPolicy": "tls_cipher_policy_1_0"}),
	}
}()

// parameters returns the protocol's parameters of a listener as in answers. Access control is among the common ones.
func (l *Listener) parameters() core.Reply {
	all := core.Reply{}
	maps.Copy(all, usual[l.Protocol])
	for k, v := range l.Config {
		if strings.HasPrefix(k, "Acl") {
			continue
		}
		all[k] = typed(k, v)
	}
	return all
}
