package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/operator"
)

func TestLanguages(t *testing.T) {
	c, s := operator.Embed(t)
	r := operator.Journalled()[2]
	r.Case, r.Class, r.Result, r.Digest, r.Undoing, r.Next = "66666666-20260102T150405", "vswitch-ip-exhausted", event.Asked, strings.Repeat("0", 32), false, 0
	r.Service = event.Service{Namespace: "shop", Name: "web", UID: "66666666-0000-4000-8000-000000000000"}
	r.Finding = say.F("The vSwitch is full: %s.", "vsw-1")
	said := say.F("annotate %s", "vswitch-id=vsw-2")
	r.Steps = []event.StepRecord{{Kind: "annotate", Text: said, Step: []byte("{}")}}
	if err := operator.Seed(t.Context(), s, r); err != nil {
		t.Fatal(err)
	}
	x := start(t, c)
	x.until("/cases", "shop/web")
	page := func(path, language string) string {
		t.Helper()
		code := http.StatusOK
		if path == "/nowhere" {
			code = http.StatusNotFound
		}
		return x.do(x.browser, http.MethodGet, path, code, func(r *http.Request) { r.Header.Set("Accept-Language", language) })
	}
	answers := "/answers?verdict=approve&plan=" + strings.Join([]string{r.Cluster, r.Service.UID, r.Class, r.Case, "1", strings.Repeat("1", 32)}, "/")
	one := "/cases/" + r.Cluster + "/" + r.Service.UID + "/" + r.Class + "/" + r.Case
	for path, want := range map[string][]string{
		"/":          {"<h1>概览</h1>", "过去 24 小时", "等待人工处理", "交换机已满：vsw-1。"},
		"/questions": {"<h1>待处理</h1>", "交换机没有空闲 IP 地址", "添加注解 vswitch-id=vsw-2"},
		"/cases":     {"<h1>故障记录</h1>", "第 1 到 1 条，共 1 条", "交换机已满：vsw-1。"},
		one: {`<span lang="en">`, "<dt>发现</dt><dd class=\"lines\">交换机已满：vsw-1。</dd>", "添加注解 vswitch-id=vsw-2",
			"已完成 0 / 1 个步骤", "在终端中", "待批准"},
		answers:                         {"<h1>批准</h1>", `<p class="notice">计划已改变：请重新查看。</p>`},
		"/doctor":                       {"<h1>Doctor</h1>"},
		"/policy":                       {"<h1>策略</h1>", "策略文件"},
		"/classes":                      {"<h1>类别</h1>", "交换机没有空闲 IP 地址"},
		"/classes/vswitch-ip-exhausted": {"<h1>交换机没有空闲 IP 地址</h1>", "未结束的故障记录", "私网 CLB 以及 NLB 的每个可用区都从交换机获取地址"},
		"/nowhere":                      {"没有这个页面，或它显示的内容已不存在。"},
	} {
		got := page(path, "de, zh-CN;q=0.9, en;q=0.8")
		for _, part := range append(want, `<html lang="zh-CN">`, `aria-label="页面"`, "跳到正文") {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %q is not in\n%s", path, part, got)
			}
		}
		for _, english := range []string{"Skip to the content", ">Questions<", "Not live", "<h1>Cases", "This console writes"} {
			if strings.Contains(got, english) {
				t.Errorf("%s: %q is English", path, english)
			}
		}
		if got := page(path, "en-US, zh;q=0.5"); !strings.Contains(got, `<html lang="en">`) || !strings.Contains(got, "Skip to the content") {
			t.Errorf("%s: for a reader of English it is\n%s", path, got)
		}
	}
}
