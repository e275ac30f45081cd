package paste

import (
	"encoding/xml"
	"regexp"
	"strings"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/regex"
)

const code = `([A-Za-z][\w.-]*\w)`

type form struct {
	find   func() *regexp.Regexp
	vendor bool // others use the same form: something must name Alibaba Cloud
}

// Forms, the most specific first. The sources are the SDKs themselves: alibaba-cloud-sdk-go sdk/errors/server_error.go, tea
// tea/tea.go and dara/error.go, darabonba-openapi client/client_error.go, aliyungo common/types.go, aliyun-java-sdk-core
// ServerException.java, aliyun-python-sdk-core exceptions.py, Tea for Python tea/exceptions.py, pop-core for Node.js lib/rpc.js.
var forms = []form{
	{find: regex.New(`(?s)\bErrorCode:\s*` + code + `.*?\bMessage:\s*(.*?)(?:\s*\b(?:RespHeaders|AccessDeniedDetail):|$)`)},
	{find: regex.New(`(?s)\bSDKError:.*?\bCode:\s*` + code + `.*?\bMessage:\s*(.*?)(?:\s*(?:\brequest id:|\bData:|\bDetail:)|$)`)},
	{find: regex.New(`(?s)\b(?:Client|Server|Throttling|AlibabaCloud)Error:\s+Name:[^\n]*\s+Code:\s*` + code + `()`)},
	{find: regex.New(`(?s)\bAliyun API Error:.*?\bCode:\s*` + code + `\s+Message:\s*(.*)`)},
	{find: regex.New(`(?s)Error\{.*?\bRequestI[dD]:.*?\bCode:\s*"` + code + `".*?\bMessage:\s*"((?:[^"\\]|\\.)*)"`)},
	{find: regex.New(`(?s)\berrorCode:"` + code + `".*?\bmessage:"([^"]*)"`)},
	{find: regex.New(`(?s)\bHTTP Status:\s*\d+\s+Error:\s*` + code + `\s+(.*?)\s*(?:\bRequestID:|$)`)},
	{find: regex.New(`\bError:\s*` + code + `\s+(code: \d{3}, .*?)\s*\brequest id:`)},
	{find: regex.New(`(?s)\w+Exception:\s+Error:\s*` + code + `\s+(.*?)\s*(?:\brequest id:|\bResponse:|$)`), vendor: true},
	{find: regex.New(`\bResponseError:\s+` + code + `:\s+(code: \d+, .*?)\s*(?:\brequest id:|$)`), vendor: true},
	{find: regex.New(`(?s)\b` + code + `Error:\s+(.*?)\s+URL:\s+https?:`), vendor: true},
	{find: regex.New(`(?s)Exception:\s+()(code: \d+, .*?)\s*(?:\brequest id:|$)`), vendor: true},
	{find: regex.New(`()\b(code: \d{3}, [^\n]*?)\s*\brequest id:`)},
	{find: regex.New(`\b(?:Server|Client)Exception:\s+` + code + `\s*:\s+([^\n]*?)\s*(?:\bRequestId\b|$|\n)`), vendor: true},
}

var otherClouds = regex.New(`(?i)amazonaws|arn:aws|\baws\b|azure|googleapi|tencent|huawei|volcengine|openstack|baidu`)

var vendor = regex.New(`(?i)aliyun|alibaba|alicloud|\bTea\.|\btea[A-Z]|darabonba`)

var (
	boxOpens   = regex.New(`╷$`)
	errorOpens = regex.New(`(?:SDK\.(?:Server|Client)Error|\b(?:SDK|Client|Server|Throttling|AlibabaCloud)Error:|\[SDK [\w-]+ ERROR\]:?)$|` +
		`^(?:\x60*\$ )?aliyun \w+ |(?:com\.aliyun|darabonba|Aliyun\.Acs|^ResponseError: )\S*|^\{ \[\w|^alicloud:\w+:\w|` +
		`^\w*[Ee]rror: \d+ errors? occurred:$|^Error: \[ERROR\] terraform-provider`)
	traceOpens = regex.New(`^Traceback \(most recent call last\):$`)
	errorLine  = regex.New(`^\W*(?:(?:ErrorCode|Recommend|RequestI[dD]|Message|RespHeaders|AccessDeniedDetail|StatusCode|Code|Data|Detail|` +
		`Name|HostId)\s*:` +
		`|SDK\.(?:Server|Client)Error|SDKError:|Caused by:|ERROR: SDK)|^[\s}│]`)
	otherLine = regex.New(`^\s*(?:Normal|Warning)\s+[A-Z]|^[IWEF]\d{4} |Error syncing load balancer`)
)

// goesOn returns a function that reports which lines belong to the error that a line begins; nil if it begins none.
func goesOn(line string) func(string) (more, last bool) {
	switch {
	case boxOpens().MatchString(line):
		return until("╵")
	case traceOpens().MatchString(line):
		return func(line string) (bool, bool) { return line != "", line != "" && line[0] != ' ' && line[0] != '\t' }
	case errorOpens().MatchString(line):
		return func(line string) (bool, bool) {
			return errorLine().MatchString(line) && !otherLine().MatchString(line), false
		}
	}
	return nil
}

func toolError(text string) (Text, bool) {
	if wrapper().MatchString(text) || strings.Contains(text, "[SDKError] API:") {
		return Text{}, false // the controller's own words
	}
	if otherClouds().MatchString(text) && !vendor().MatchString(text) {
		return Text{}, false
	}
	if n := strings.Index(text, "<Error>"); n >= 0 {
		var body struct{ Code, Message string }
		if xml.Unmarshal([]byte(text[n:]), &body) == nil && body.Code != "" {
			return answered(body.Code, body.Message, text), true
		}
	}
	kind := SDK
	switch {
	case ofTool().MatchString(text):
		kind = Tool
	case ofCLI().MatchString(text):
		kind = CLI
	}
	text = strings.NewReplacer("│", "", `\n`, "\n").Replace(text)
	for _, f := range forms {
		if f.vendor && !vendor().MatchString(text) {
			continue
		}
		if m := f.find().FindStringSubmatch(text); m != nil {
			t := answered(m[1], m[2], text)
			t.Kind = kind
			return t, true
		}
	}
	return Text{}, false
}

var (
	ofTool = regex.New(`terraform-provider-|\balicloud_\w+\.\w+|\balicloud:\w+:`)
	ofCLI  = regex.New(`(?m)^(?:\W*\$ )?aliyun \w+ |^ERROR: `)
)

// answered returns an API's answer in the classifier's form. Other products' codes and texts may be the same, but mean something else.
func answered(code, message, text string) Text {
	said := "Message: " + strings.Join(strings.Fields(message), " ")
	if code != "" {
		said = "ErrorCode: " + code + ", " + said
	}
	return Text{Kind: API, Input: event.Input{Message: said}, Why: otherProduct(text)}
}

// asked matches the ECS and VPC calls that the controller makes for a Service, which only read. Others can fail with the same words for
// other reasons.
var asked = regex.New(`\b(?:call |API: |Action=|aliyun (?:ecs|vpc) )Describe\w+`)

var named = []func() *regexp.Regexp{
	regex.New(`alicloud_([a-z]+)`),
	regex.New(`alicloud:([a-z]+)[:/]`),
	regex.New(`(?m)^(?:\W*\$ )?aliyun ([a-z]+) `),
	regex.New(`(?i)\b([a-z]+)(?:-[a-z0-9-]+)?(?:\.[a-z0-9-]+)*\.aliyuncs\.com`),
	regex.New(`(?i)\bproduct=([a-z]+)`),
}

// otherProduct returns "" if the error may be a load balancer's.
func otherProduct(text string) string {
	for _, find := range named {
		other := ""
		for _, m := range find().FindAllStringSubmatch(text, -1) {
			switch other = strings.ToLower(m[1]); other {
			case "slb", "nlb":
				return ""
			case "ecs", "vpc":
				if asked().MatchString(text) {
					return ""
				}
			}
		}
		if other != "" {
			return "The error is of the product " + other + ", and not of a load balancer."
		}
	}
	return ""
}
