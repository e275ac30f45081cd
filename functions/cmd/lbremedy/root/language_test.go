package root_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/root"
	"github.com/lbremedy/lbremedy/test/operator"
)

// helped returns the help of a command and those below it, by location: paragraphs on a line each. Commands in a text are not words.
func helped(cmd *cobra.Command, into map[string]string) map[string]string {
	add := func(text string) {
		for part := range strings.SplitSeq(text, "\n\n") {
			if part = strings.TrimRight(part, "\n "); part != "" && !strings.HasPrefix(part, "\t") && !strings.HasPrefix(part, "#") {
				into[strings.Join(strings.Fields(part), " ")] = cmd.CommandPath()
			}
		}
	}
	add(cmd.Short)
	add(cmd.Long)
	for _, g := range cmd.Groups() {
		add(g.Title)
	}
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !f.Hidden {
				add(f.Usage)
			}
		})
	}
	for _, c := range cmd.Commands() {
		helped(c, into)
	}
	return into
}

func compare(said, twins map[string]string) []string {
	var out []string
	for text, where := range said {
		if strings.TrimSpace(twins[text]) == "" {
			out = append(out, where+": no twin of "+text)
		}
	}
	for text := range twins {
		if said[text] == "" {
			out = append(out, "nothing says "+text)
		}
	}
	slices.Sort(out)
	return out
}

func TestTwins(t *testing.T) {
	data, err := os.ReadFile("../../../../shared/say/chinese/help.json")
	if err != nil {
		t.Fatal(err)
	}
	var twins map[string]string
	if err := json.Unmarshal(data, &twins); err != nil {
		t.Fatal(err)
	}
	tree := root.Commands(cli.New("dev"))
	tree.InitDefaultHelpCmd()
	tree.InitDefaultCompletionCmd()
	said := helped(tree, map[string]string{})
	if len(said) < 200 {
		t.Errorf("the help says only %d texts", len(said))
	}
	for _, bad := range compare(said, twins) {
		t.Error(bad)
	}

	tree.Commands()[0].Short = "Do a thing without a twin" // and the translation has lost its text
	if bad := compare(helped(tree, map[string]string{}), twins); len(bad) == 0 || !strings.Contains(strings.Join(bad, "\n"), "no twin of Do a thing") {
		t.Errorf("a text without a twin is not found: %q", bad)
	}
	twins["Nobody says this"] = "无"
	if bad := compare(said, twins); !slices.Contains(bad, "nothing says Nobody says this") {
		t.Errorf("a twin without a text is not found: %q", bad)
	}
}

// Help and usage errors are in Chinese by locale, flag or variable, and in English otherwise.
func TestLanguage(t *testing.T) {
	english := operator.Home(t)
	locale := map[string]string{"HOME": english["HOME"], "LANG": "zh_CN.UTF-8"}
	variable := map[string]string{"HOME": english["HOME"], "LBREMEDY_LANGUAGE": "zh"}
	for _, c := range []struct {
		env  map[string]string
		args string
		code int
		want []string
	}{
		{locale, "ls --help", 0, []string{
			"列出每个 Service 和类别最近的故障记录", "\n用法：\n  lbremedy ls", "\n示例：\n", "\n参数：\n", "-n, --namespace 命名空间   ",
			"只看这些结果的故障记录：", "ls 的帮助", "用 “lbremedy options” 查看全局参数。\n",
		}},
		{locale, "--help", 0, []string{"\n监视集群：\n", "退出码：0 成功", "  ls "}},
		{locale, "help up", 0, []string{"监视一个集群的负载均衡同步失败", "（默认 128）"}},
		{locale, "options", 0, []string{"每个命令都接受这些参数：\n\n", "--kubeconfig 文件 "}},
		{locale, "completion bash --help", 0, []string{"此脚本依赖软件包 bash-completion", "\tsource <(lbremedy completion bash)\n"}},
		{english, "ls --help --language zh", 0, []string{"\n用法：\n"}},
		{english, "help ls --language zh", 0, []string{"\n用法：\n"}},
		{variable, "ls --help", 0, []string{"\n用法：\n"}},
		{locale, "ls --help --language en", 0, []string{"\nUsage:\n", "only these classes"}},
		{english, "ls --help", 0, []string{"\nUsage:\n", "\n  -n, --namespace namespace  "}},
		{locale, "lss", 2, []string{`没有命令 "lss"：您是指 ls 吗？`}},
		{locale, "ls --alll", 2, []string{"未知参数 --alll：您是指 --all 吗？"}},
		{locale, "ls --zzzzzz", 2, []string{"未知参数：--zzzzzz：见 lbremedy ls --help"}},
		{locale, "ls -Q", 2, []string{"未知的短参数：'Q'（在 -Q 中）：见 lbremedy ls --help"}},
		{locale, "run a/b --wait soon", 2, []string{`值 "soon" 对参数 "--wait" 无效：必须是时长，例如 "30s" 或 "5m"：见 lbremedy run --help`}},
		{locale, "show", 2, []string{"show 需要：故障记录 ID 或 NAMESPACE/SERVICE。见 lbremedy show --help"}},
		{locale, "ls --log-level loud --log-format odd", 2, []string{"--log-level：\"loud\" 不是 debug, info, warn, error 之一\n", "--log-format：\"odd\" 不是"}},
		{english, "ls --zzzzzz", 2, []string{"error: unknown flag: --zzzzzz: see lbremedy ls --help"}},
		{english, "ls -Q", 2, []string{"error: unknown shorthand flag: 'Q' in -Q: see lbremedy ls --help"}},
		{english, "run a/b --wait soon", 2,
			[]string{`error: invalid argument "soon" for "--wait" flag: must be a duration like "30s" or "5m": see lbremedy run --help`}},
		{english, "show", 2, []string{"error: show needs a case ID or NAMESPACE/SERVICE: see lbremedy show --help"}},
	} {
		got := operator.Call{Env: c.env}.Run(t.Context(), strings.Fields(c.args)...)
		if got.Code != c.code {
			t.Errorf("%s: code %d, want %d: %s", c.args, got.Code, c.code, got.Err)
		}
		for _, want := range c.want {
			if !strings.Contains(got.Out+got.Err, want) {
				t.Errorf("%s: it lacks %q: %s%s", c.args, want, got.Out, got.Err)
			}
		}
		for line := range strings.Lines(got.Out) {
			columns := 0
			for _, r := range line {
				if columns++; unicode.Is(unicode.Han, r) {
					columns++
				}
			}
			if strings.HasPrefix(line, "   ") && strings.ContainsFunc(line, func(r rune) bool { return unicode.Is(unicode.Han, r) }) && columns > 84 {
				t.Errorf("%s: a line is %d columns wide: %s", c.args, columns, line)
			}
		}
	}
}
