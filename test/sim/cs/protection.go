package cs

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

func protectionActions() map[string]*core.Action {
	return map[string]*core.Action{
		"DescribeResourcesDeleteProtection": {Do: on(inCluster(describeProtection)), Path: "/clusters/{}/resources/{}/protection"},
		"UpdateResourcesDeleteProtection": {
			Do: on(inCluster(updateProtection)), Path: "/clusters/{}/resources/protection", Method: http.MethodPut,
		},
	}
}

func protected(kind, namespace string) (string, func(name string) string, *core.Failure) {
	namespace = cmp.Or(namespace, "default")
	switch kind {
	case "namespaces":
		return namespace, func(name string) string { return name }, nil
	case "services":
		return namespace, func(name string) string { return namespace + "/" + name }, nil
	}
	return "", nil, core.Fail(http.StatusBadRequest, "InvalidParameter", "resource type %s is neither namespaces nor services", kind)
}

// describeProtection returns the protection of the named objects. The cluster's namespaces are not known here, so a request for
// all returns only the protected ones:
// https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/developer-reference/api-cs-2015-12-15-describeresourcesdeleteprotection
func describeProtection(q *request) (any, *core.Failure) {
	kind := q.Params["path.1"]
	namespace, key, bad := protected(kind, q.Params["namespace"])
	if bad != nil {
		return nil, bad
	}
	all := q.state.Cluster.Protected
	var names []string
	switch {
	case q.Params["resources"] != "":
		names = strings.Split(q.Params["resources"], ",")
	case kind == "services":
		return nil, core.Fail(http.StatusBadRequest, "InvalidParameter", "resources is required for services")
	default:
		for _, p := range all {
			if !strings.Contains(p, "/") {
				names = append(names, p)
			}
		}
	}
	list := []any{}
	for _, name := range names {
		list = append(list, map[string]any{"name": name, "namespace": namespace, "resource": kind, "protection": slices.Contains(all, key(name))})
	}
	return list, nil
}

// updateProtection implements
// https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/developer-reference/api-cs-2015-12-15-updateresourcesdeleteprotection
func updateProtection(q *request) (any, *core.Failure) {
	var body struct {
		Namespace string   `json:"namespace"`
		Kind      string   `json:"resource_type"`
		Resources []string `json:"resources"`
		Enable    bool     `json:"enable"`
	}
	if err := json.Unmarshal([]byte(q.Params["body"]), &body); err != nil {
		return nil, badBody()
	}
	namespace, key, bad := protected(body.Kind, body.Namespace)
	if bad != nil {
		return nil, bad
	}
	c, word := &q.state.Cluster, "disable"
	var keys []string
	for _, name := range body.Resources {
		keys = append(keys, key(name))
	}
	c.Protected = slices.DeleteFunc(slices.Clone(c.Protected), func(p string) bool { return slices.Contains(keys, p) })
	if body.Enable {
		c.Protected, word = append(c.Protected, keys...), "enable"
	}
	return map[string]any{
		"namespace": namespace, "resource_type": body.Kind, "resources": body.Resources, "protection": word,
	}, nil
}
