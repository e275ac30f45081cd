package functions

import (
	"testing"
	"testing/fstest"

	"github.com/lbremedy/lbremedy/shared/say"
)

func TestFolders(t *testing.T) {
	base := &say.Language{Tag: "zh-CN", Twins: map[string]string{"none": "无"}}
	l := with(base, fstest.MapFS{"busy/say.zh.json": {Data: []byte(`{"It is busy.": "正忙。"}`)}, "quota/doc.zh.md": {Data: []byte("# 配额")}})
	if got := say.F("It is busy.").In(l); got != "正忙。" {
		t.Errorf("the sentence of a class is %q", got)
	}
	if len(base.Twins) != 1 || l.Twins["none"] != "无" {
		t.Errorf("the catalogue is %v, and with the classes %v", base.Twins, l.Twins)
	}
	for _, c := range []struct {
		language *say.Language
		class    string
		want     string
	}{{nil, "busy", "english"}, {l, "busy", "# 负载均衡正忙"}, {l, "no-such-class", "english"}, {&say.Language{Tag: "de"}, "busy", "english"}} {
		if got := ClassPage(c.language, c.class, "english"); len(got) < len(c.want) || got[:len(c.want)] != c.want {
			t.Errorf("the page of %s begins %.40q, want %q", c.class, got, c.want)
		}
	}
}
