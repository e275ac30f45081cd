package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"testing"

	"github.com/lbremedy/lbremedy/test/sim"
)

// An api answers lists by their paths, in pages as an API server does: for clusters that
// a server which others use can't be, such as one without Services or one with 5,000. A
// list that it does not have is empty; there is no other object.
type api struct {
	lists  map[string][]any
	denied bool // nothing may be read
}

func (a api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	no := func(code int, reason, text string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": text})
	}
	all, has := a.lists[r.URL.Path]
	switch {
	case a.denied:
		no(http.StatusForbidden, "Forbidden", `User "ann" cannot list resource "services" in API group "" at the cluster scope`)
		return
	case !has && !slices.Contains([]string{"services", "nodes", "events", "endpointslices", "daemonsets"}, path.Base(r.URL.Path)):
		no(http.StatusNotFound, "NotFound", "it is not there")
		return
	}
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil {
		limit = len(all)
	}
	from, err := strconv.Atoi(r.URL.Query().Get("continue"))
	if err != nil {
		from = 0
	}
	to := min(len(all), from+limit)
	meta := map[string]string{"resourceVersion": "7"}
	if to < len(all) {
		meta["continue"] = strconv.Itoa(to)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "List", "metadata": meta, "items": append([]any{}, all[from:to]...)})
}

// against returns calls of the program against a cluster and an account.
func (a api) against(t testing.TB, world *sim.World) (call, *sim.Cloud) {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	account := sim.New(t, world)
	admin := account.Admin()
	return call{env: map[string]string{
		"HOME": t.TempDir(), "LBREMEDY_STATE_DIR": t.TempDir(), "LBREMEDY_CLUSTER": world.Cluster.ID, "LBREMEDY_REGION": account.Region(),
		"LBREMEDY_CLOUD_ENDPOINT": account.Addr(), "LBREMEDY_CLOUD_SCHEME": "HTTP",
		keyID: admin.AccessKeyID, keySecret: admin.Secret,
		"LBREMEDY_KUBECONFIG": write(t, "kubeconfig", fmt.Sprintf(
			`{kind: Config, clusters: [{name: a, cluster: {server: %q}}], contexts: [{name: a, context: {cluster: a}}], current-context: a}`, server.URL)),
	}}, account
}
