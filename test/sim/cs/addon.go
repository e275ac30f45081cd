package cs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// addonActions have other names in RAM, some of them:
// https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/developer-reference/api-cs-2015-12-15-overview
func addonActions() map[string]*core.Action {
	post := http.MethodPost
	return map[string]*core.Action{
		"DescribeAddons":               {Do: on(describeAddons), Path: "/clusters/components/metadata"},
		"ListAddons":                   {Do: on(listAddons), Path: "/addons"},
		"DescribeAddon":                {Do: on(describeAddon), Path: "/addons/{}"},
		"DescribeClusterAddonsVersion": {Do: on(ofCluster(clusterAddons)), Path: "/clusters/{}/components/version"},
		"DescribeClusterAddonsUpgradeStatus": {
			Do: on(inCluster(upgradeStatuses)), Path: "/clusters/{}/components/upgradestatus",
		},
		"DescribeClusterAddonUpgradeStatus": {
			Do: on(inCluster(upgradeStatus)), Path: "/clusters/{}/components/{}/upgradestatus",
			RAM: []string{"cs:QueryK8sComponentUpgradeStatus", "cs:DescribeClusterAddonUpgradeStatus"},
		},
		"ListClusterAddonInstances": {Do: on(inCluster(addonInstances)), Path: "/clusters/{}/addon_instances"},
		"GetClusterAddonInstance":   {Do: on(inCluster(addonInstance)), Path: "/clusters/{}/addon_instances/{}"},
		"InstallClusterAddons": {
			Do: on(inCluster(installAddons)), Path: "/clusters/{}/components/install", Method: post,
			RAM: []string{"cs:InstallK8sComponents", "cs:InstallClusterAddons"},
		},
		"UnInstallClusterAddons": {
			Do: on(inCluster(uninstallAddons)), Path: "/clusters/{}/components/uninstall", Method: post,
			RAM: []string{"cs:UnInstallK8sComponents", "cs:UnInstallClusterAddons"},
		},
		"UpgradeClusterAddons": {
			Do: on(inCluster(upgradeAddons)), Path: "/clusters/{}/components/upgrade", Method: post,
			RAM: []string{"cs:UpgradeK8sComponents", "cs:UpgradeClusterAddons"},
		},
		"ModifyClusterAddon": {Do: on(inCluster(modifyAddon)), Path: "/clusters/{}/components/{}", Method: post},
		"DescribeTaskInfo":   {Do: on(describeTask), Path: "/tasks/{}"},
	}
}

type task struct {
	id      string
	kind    string
	state   string // running, success or fail
	addons  []string
	started time.Time
	ended   time.Time
}

func inCluster(do func(*request) (any, *core.Failure)) func(*request) (any, *core.Failure) {
	return func(q *request) (any, *core.Failure) {
		if id := q.Params["path.0"]; id != q.state.Cluster.ID {
			return nil, noCluster(id)
		}
		return do(q)
	}
}

func noCluster(id string) *core.Failure {
	return core.Fail(http.StatusNotFound, "ErrorClusterNotFound", "cluster (%s) not found in our records", id)
}

func noAddon(name string) *core.Failure {
	return core.Fail(http.StatusNotFound, "AddonNotFound", "addon %s not found", name)
}

func badBody() *core.Failure {
	return core.Fail(http.StatusBadRequest, "InvalidParameter", "the request body is not valid")
}

func (c *Cluster) latest(name string) string { return cmp.Or(c.AddonLatest[name], c.Addons[name]) }

func clusterAddons(s *State) any {
	c, m := &s.Cluster, map[string]any{}
	for name, v := range c.Addons {
		next := c.latest(name)
		m[name] = map[string]any{
			"component_name": name, "version": v, "next_version": next, "can_upgrade": next != v, "exist": true, "ready_to_upgrade": fmt.Sprint(next != v),
			"required": name == ccm, "changed": "", "message": "", "policy": "", "template": "", "value": c.AddonConfig[name],
		}
	}
	return m
}

func (c *Cluster) known() []string {
	all := maps.Clone(c.Addons)
	maps.Copy(all, c.AddonLatest)
	return slices.Sorted(maps.Keys(all))
}

func (c *Cluster) addon(name string) map[string]any {
	return map[string]any{
		"name": name, "version": c.latest(name), "managed": c.Type == "ManagedKubernetes", "category": "network", "install_by_default": name == ccm,
		"supported_actions": []string{"Install", "Upgrade", "Modify"}, "architecture": []string{"amd64"}, "config_schema": "",
	}
}

func describeAddons(q *request) (any, *core.Failure) {
	c, standard := &q.state.Cluster, map[string]any{}
	for _, name := range c.known() {
		standard[name] = map[string]any{"name": name, "version": c.latest(name), "description": "", "required": fmt.Sprint(name == ccm), "disabled": false}
	}
	return map[string]any{"StandardComponents": standard, "ComponentGroups": []any{}}, nil
}

func listAddons(q *request) (any, *core.Failure) {
	list := []any{}
	for _, name := range q.state.Cluster.known() {
		list = append(list, q.state.Cluster.addon(name))
	}
	return map[string]any{"addons": list}, nil
}

func describeAddon(q *request) (any, *core.Failure) {
	name := q.Params["path.0"]
	if !slices.Contains(q.state.Cluster.known(), name) {
		return nil, noAddon(name)
	}
	return q.state.Cluster.addon(name), nil
}

func (q *request) installed() (string, *core.Failure) {
	name := q.Params["path.1"]
	if q.state.Cluster.Addons[name] == "" {
		return "", noAddon(name)
	}
	return name, nil
}

func (s *State) addonInstance(name string) map[string]any {
	state := "active"
	if t := s.busy(name); t != nil {
		state = "updating"
	}
	return map[string]any{"name": name, "version": s.Cluster.Addons[name], "state": state, "config": s.Cluster.AddonConfig[name], "logging": ""}
}

func addonInstances(q *request) (any, *core.Failure) {
	list := []any{}
	for _, name := range slices.Sorted(maps.Keys(q.state.Cluster.Addons)) {
		list = append(list, q.state.addonInstance(name))
	}
	return map[string]any{"addons": list}, nil
}

func addonInstance(q *request) (any, *core.Failure) {
	name, bad := q.installed()
	if bad != nil {
		return nil, bad
	}
	return q.state.addonInstance(name), nil
}

func (s *State) busy(addon string) *task {
	for _, t := range s.tasks {
		if t.state == "running" && slices.Contains(t.addons, addon) {
			return t
		}
	}
	return nil
}

func (s *State) upgrade(name string) map[string]any {
	var last *task
	for _, t := range s.tasks {
		if slices.Contains(t.addons, name) && (last == nil || t.started.After(last.started)) {
			last = t
		}
	}
	work := map[string]any{"created_at": "0001-01-01T00:00:00Z", "finished_at": "0001-01-01T00:00:00Z", "status": "Success", "is_canceled": false, "message": ""}
	if last != nil {
		work["created_at"], work["status"] = last.started.Format(time.RFC3339),
			map[string]string{"running": "Upgrading", "success": "Success", "fail": "Failed"}[last.state]
		if last.state != "running" {
			work["finished_at"] = last.ended.Format(time.RFC3339)
		}
	}
	next := s.Cluster.latest(name) != s.Cluster.Addons[name]
	return map[string]any{
		"addon_info": map[string]any{"component_name": name, "version": s.Cluster.Addons[name], "ready_to_upgrade": fmt.Sprint(next)}, "tasks": work,
	}
}

func upgradeStatuses(q *request) (any, *core.Failure) {
	names, bad := q.Params.IDs("componentIds")
	if bad != nil {
		return nil, badBody()
	}
	m := map[string]any{}
	for name := range q.state.Cluster.Addons {
		if names == nil || slices.Contains(names, name) {
			m[name] = q.state.upgrade(name)
		}
	}
	return m, nil
}

func upgradeStatus(q *request) (any, *core.Failure) {
	name, bad := q.installed()
	if bad != nil {
		return nil, bad
	}
	return map[string]any{name: q.state.upgrade(name)}, nil
}

type wantedAddon struct {
	Name        string `json:"name"`
	Component   string `json:"component_name"`
	Version     string `json:"version"`
	NextVersion string `json:"next_version"`
	Config      string `json:"config"`
	Policy      string `json:"policy"`
}

func (q *request) addons() ([]wantedAddon, *core.Failure) {
	var list []wantedAddon
	if err := json.Unmarshal([]byte(q.Params["body"]), &list); err != nil || len(list) == 0 {
		return nil, badBody()
	}
	for i := range list {
		list[i].Name = cmp.Or(list[i].Component, list[i].Name)
		if list[i].Name == "" {
			return nil, badBody()
		}
		if t := q.state.busy(list[i].Name); t != nil {
			return nil, core.Fail(http.StatusConflict, "ErrorTaskIsRunning", "task %s for addon %s is running", t.id, list[i].Name)
		}
	}
	return list, nil
}

// start starts a task that takes as long as an add-on's upgrade, and then calls finish unless it fails.
func (q *request) start(kind string, list []wantedAddon, finish func(*State)) any {
	s := q.state
	s.Serial["task"]++
	t := &task{
		id: fmt.Sprintf("T-%s%04d", strings.ToLower(core.Derive(s.Cluster.ID, 20)), s.Serial["task"]), kind: kind, state: "running",
		started: q.Now.UTC().Truncate(time.Second),
	}
	for _, a := range list {
		t.addons = append(t.addons, a.Name)
	}
	s.tasks[t.id] = t
	fails := q.Doomed
	late := time.Duration(s.Lag.Addons)
	q.Later(late, core.On(func(s *State) {
		t.state, t.ended = "success", t.started.Add(late)
		if fails {
			t.state = "fail"
			return
		}
		finish(s)
	}))
	s.Advance(q.Now)
	return map[string]any{"cluster_id": s.Cluster.ID, "task_id": t.id}
}

func upgradeAddons(q *request) (any, *core.Failure) {
	list, bad := q.addons()
	if bad != nil {
		return nil, bad
	}
	for i, a := range list {
		has := q.state.Cluster.Addons[a.Name]
		list[i].NextVersion = cmp.Or(a.NextVersion, q.state.Cluster.latest(a.Name))
		switch {
		case has == "":
			return nil, noAddon(a.Name)
		case a.Version != "" && a.Version != has:
			return nil, core.Fail(http.StatusBadRequest, "InvalidAddonVersion", "addon %s has version %s, not %s", a.Name, has, a.Version)
		case list[i].NextVersion == has:
			return nil, core.Fail(http.StatusBadRequest, "InvalidAddonVersion", "addon %s has version %s already", a.Name, has)
		}
	}
	return q.start("addon_upgrade", list, func(s *State) {
		for _, a := range list {
			s.Cluster.Addons[a.Name] = a.NextVersion
			if a.Config != "" {
				s.Cluster.configure(a.Name, a.Config)
			}
		}
	}), nil
}

func (c *Cluster) configure(addon, config string) {
	c.AddonConfig = maps.Clone(c.AddonConfig)
	if c.AddonConfig == nil {
		c.AddonConfig = map[string]string{}
	}
	c.AddonConfig[addon] = config
}

func installAddons(q *request) (any, *core.Failure) {
	list, bad := q.addons()
	if bad != nil {
		return nil, bad
	}
	for i, a := range list {
		list[i].Version = cmp.Or(a.Version, q.state.Cluster.latest(a.Name))
		switch {
		case q.state.Cluster.Addons[a.Name] != "":
			return nil, core.Fail(http.StatusConflict, "AddonAlreadyExists", "addon %s already exists", a.Name)
		case list[i].Version == "":
			return nil, noAddon(a.Name)
		}
	}
	return q.start("addon_install", list, func(s *State) {
		for _, a := range list {
			s.Cluster.Addons[a.Name] = a.Version
			if a.Config != "" {
				s.Cluster.configure(a.Name, a.Config)
			}
		}
	}), nil
}

func uninstallAddons(q *request) (any, *core.Failure) {
	list, bad := q.addons()
	if bad != nil {
		return nil, bad
	}
	for _, a := range list {
		if q.state.Cluster.Addons[a.Name] == "" {
			return nil, noAddon(a.Name)
		}
	}
	return q.start("addon_uninstall", list, func(s *State) {
		for _, a := range list {
			delete(s.Cluster.Addons, a.Name)
		}
	}), nil
}

func modifyAddon(q *request) (any, *core.Failure) {
	name, bad := q.installed()
	if bad != nil {
		return nil, bad
	}
	var body struct {
		Config string `json:"config"`
	}
	if err := json.Unmarshal([]byte(q.Params["body"]), &body); err != nil {
		return nil, badBody()
	}
	q.state.Cluster.configure(name, body.Config)
	return map[string]any{}, nil
}

func describeTask(q *request) (any, *core.Failure) {
	t := q.state.tasks[q.Params["path.0"]]
	if t == nil {
		return nil, core.Fail(http.StatusNotFound, "ErrorTaskNotFound", "task %s not found", q.Params["path.0"])
	}
	updated, result, problem := t.ended, []any{}, map[string]any{}
	if t.state == "running" {
		updated = q.Now.UTC().Truncate(time.Second)
	}
	if t.state == "fail" {
		problem = map[string]any{"code": "AddonOperationFailed", "message": "the addon could not be brought to the wanted state"}
	}
	for _, name := range t.addons {
		result = append(result, map[string]any{"data": name, "status": t.state})
	}
	return map[string]any{
		"task_id": t.id, "cluster_id": q.state.Cluster.ID, "task_type": t.kind, "state": t.state, "created": t.started.Format(time.RFC3339),
		"updated": updated.Format(time.RFC3339), "target": map[string]any{"id": q.state.Cluster.ID, "type": "cluster"}, "parameters": map[string]any{},
		"stages": []any{}, "current_stage": "", "events": []any{}, "task_result": result, "error": problem,
	}, nil
}

func describeKubeconfig(q *request) (any, *core.Failure) {
	c := &q.state.Cluster
	life := 3 * 365 * 24 * time.Hour // of a permanent one
	if q.Params["TemporaryDurationMinutes"] != "" {
		n, bad := q.Params.Number("TemporaryDurationMinutes", 15, 4320, 0)
		if bad != nil {
			return nil, core.Fail(http.StatusBadRequest, "InvalidParameter", "TemporaryDurationMinutes is not between 15 and 4320")
		}
		life = time.Duration(n) * time.Minute
	}
	config, server := c.Kubeconfig, "https://203.0.113.254:6443"
	if q.Params["PrivateIpAddress"] == "true" {
		config, server = cmp.Or(c.PrivateKubeconfig, c.Kubeconfig), "https://10.255.255.254:6443"
	}
	if config == "" {
		config = "apiVersion: v1\nkind: Config\nclusters:\n- name: kubernetes\n  cluster:\n    server: " + server + "\ncontexts:\n- name: kubernetes\n" +
			"  context:\n    cluster: kubernetes\n    user: kubernetes\ncurrent-context: kubernetes\nusers:\n- name: kubernetes\n  user: {}\n"
	}
	return map[string]any{"config": config, "expiration": q.Now.Add(life).UTC().Format(time.RFC3339)}, nil
}

func describeNodePool(q *request) (any, *core.Failure) {
	for _, p := range q.state.Cluster.NodePools {
		if p.ID == q.Params["path.1"] {
			return q.state.nodePool(p), nil
		}
	}
	return nil, core.Fail(http.StatusNotFound, "ErrorNodePoolNotFound", "nodepool (%s) not found", q.Params["path.1"])
}

func describeUserQuota(*request) (any, *core.Failure) {
	return map[string]any{
		"cluster_quota": 50, "amk_cluster_quota": 100, "ask_cluster_quota": 50, "node_quota": 5000,
		"cluster_nodepool_quota": 100, "cluster_node_quota": 5000, "quotas": map[string]any{},
	}, nil
}

// examine starts a check or a diagnosis of the cluster, which finds nothing.
func examine(key string) func(*request) (any, *core.Failure) {
	return func(q *request) (any, *core.Failure) {
		var body struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal([]byte(q.Params["body"]), &body); err != nil || body.Type == "" {
			return nil, badBody()
		}
		q.state.Serial[key]++
		return map[string]any{key: fmt.Sprintf("%s-%d", strings.ToLower(core.Derive(key+q.state.Cluster.ID, 12)), q.state.Serial[key]),
			"cluster_id": q.state.Cluster.ID, "status": 0}, nil
	}
}
