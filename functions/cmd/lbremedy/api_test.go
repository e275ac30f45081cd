package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/lbremedy/lbremedy/test/sim"
)

// An api answers lists by their paths, in pages as an API server does: for clusters that
// a server which others use can't be, such as one without Services or one with 5,000.
// A list that it does not have is empty; of one with a text the answer is that it is
// forbidden.
type api struct {
	lists  map[string][]any
	denied map[string]bool
}

func (a api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.denied[r.URL.Path] {
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": `User "ann" cannot list this`})
		return
	}
	all := a.lists[r.URL.Path]
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
