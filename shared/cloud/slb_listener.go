package cloud

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
)

var protocols = []string{"tcp", "udp", "http", "https"}

// listenerRequest returns a request about one listener. The actions of the protocols do not differ in what is used here.
func listenerRequest(action, id string, port int, params map[string]string) requests.AcsRequest {
	r := &struct{ *requests.RpcRequest }{&requests.RpcRequest{}}
	r.InitWithApiInfo("Slb", "2014-05-15", action, "slb", "openAPI")
	query := r.GetQueryParams()
	maps.Copy(query, params)
	query["LoadBalancerId"], query["ListenerPort"] = id, strconv.Itoa(port)
	return r
}

func (w SLBWriter) listener(ctx context.Context, action, id string, l ListenerPort, params map[string]string) error {
	if id == "" || l.Port == 0 || !slices.Contains(protocols, l.Protocol) {
		return absent("slb", action, "load balancer ID, the port or the protocol of the listener")
	}
	return w.c.change(ctx, nil, fmt.Sprintf("%s/%s:%d", id, l.Protocol, l.Port), []string{"InvalidLoadBalancerId.NotFound"},
		listenerRequest(action, id, l.Port, params))
}

// SetListenerGroup moves a listener to another vServer group. It may be repeated. It needs the protocol's grant, such as grant.SetTCPListener.
func (w SLBWriter) SetListenerGroup(ctx context.Context, id string, l ListenerPort, group string) error {
	action := "SetLoadBalancer" + strings.ToUpper(l.Protocol) + "ListenerAttribute"
	if group == "" {
		return absent("slb", action, "vServer group ID")
	}
	return w.listener(ctx, action, id, l, map[string]string{"VServerGroup": "on", "VServerGroupId": group})
}

// DeleteListener deletes a listener of a load balancer. It needs grant.DeleteListener.
func (w SLBWriter) DeleteListener(ctx context.Context, id string, l ListenerPort) error {
	return w.listener(ctx, "DeleteLoadBalancerListener", id, l, map[string]string{"ListenerProtocol": l.Protocol})
}

// CreateListener creates a stopped listener like l; a taken port is an error. It needs the protocol's grant, such as grant.CreateTCPListener.
func (w SLBWriter) CreateListener(ctx context.Context, id string, l Listener) error {
	params := map[string]string{"Bandwidth": strconv.Itoa(cmp.Or(l.Bandwidth, -1))}
	_, named := l.Config["HealthCheckSwitch"]
	for k, v := range l.Config {
		if l.Protocol == "tcp" || l.Protocol == "udp" { // the names of their answers differ from those of create_load_balancer_tcp_listener.go of the SDK
			switch k {
			case "HealthCheckInterval", "HealthCheckReq", "HealthCheckExp":
				k = "h" + k[1:]
			case "HealthCheck":
				if named {
					continue
				}
				k = "HealthCheckSwitch"
			}
		}
		if v != "" {
			params[k] = v
		}
	}
	for k, v := range map[string]string{"VServerGroupId": l.VServerGroup, "Description": l.Description, "Scheduler": l.Scheduler} {
		if v != "" {
			params[k] = v
		}
	}
	if l.BackendPort != 0 {
		params["BackendServerPort"] = strconv.Itoa(l.BackendPort)
	}
	port := ListenerPort{Port: l.Port, Protocol: l.Protocol}
	return w.listener(ctx, "CreateLoadBalancer"+strings.ToUpper(l.Protocol)+"Listener", id, port, params)
}

// StartListener starts a listener of a load balancer. It may be repeated. It needs grant.StartListener.
func (w SLBWriter) StartListener(ctx context.Context, id string, l ListenerPort) error {
	return w.listener(ctx, "StartLoadBalancerListener", id, l, map[string]string{"ListenerProtocol": l.Protocol})
}
