package event

import (
	"strings"
	"time"
)

func hostile() []string {
	big := func(s string) string { return strings.Repeat(s, 1<<20/len(s)) }
	texts := []string{
		big("a"), big(" "), big("\xff"), big("世"), big("["), big("data: {"), big("respheaders: map["), big("code: "), big("code:x"),
		big("message: "), big("https://"), big("[SDKError] "), big("Error syncing load balancer ["), big("alicloud: "),
		big("the quota of "), big("(combined from similar events): "), big("DryRun:"), big("Signature="), big("LTAI"), big("eyJ"),
		big("bearer "), big("://a@"), big("token='"), big("-----BEGIN PRIVATE KEY-----"), big("authorization: a "), big(`\"`), big("STS.a"),
		// Text behind a mark without a match is searched again behind the next mark.
		big("authorization:a,"), big("authorization:a;"), big("authorization=a,"), big("authorization=,"), big("authorization:a_ "), big(`authorization:"",`),
		big("authorization: a\n"), big("authorization:[],"), big("authorization: basic,"), big("authorization%3da&"), big("authorization: "),
		big("signature:"), big("signature=,"), big("signature = "), big("signature%3d%26"), big(`signature="`), big("xsignature:a"), big(`"token":`),
		big("token=,"), big("token=''"), big(`token=\"`), big("token=["), big("/token': a"), big("accesskeysecret"), big("bearer aaaaaaa "), big("LTAI5t7."),
		big("STS.aaaaaaaaaaaaaaaaaaaaaaaa."), "STS." + big("a"), big("eyJ."), big("eyJaaaaaaaaa/"), big("://"), big("x://a"), "://" + big("a"),
		big("-----begin"), big("-----BEGIN PUBLIC KEY-----"), "signature" + big(" "), big("signature") + big(" "),
		"x " + big("token:"), "x " + big("secret:"), "x " + big("apikey:"), "x " + big("credential:"), "x " + big("token: ["),
		// The same for the classifier.
		big("failed to ensure load balancer for service : "), "error syncing load balancer: " + big("failed to ensure load balancer for service "),
		big("error syncing load balancer [["), big(`"code":"a`), big("code=a."), big("errorcode: "), big("got=["), big("data: map[{"), big("https://a.aliyuncs.com:"),
		big("http://100.100.100.200/"), big("sdkerror:"), big("message:., "), big("is forbidden: user "), big(`\"\n`), big("dryrun: "), big("error deleting:"),
		big("got ] data: }"), big("，"), big("\u200b"),
		"\xff\xfe", "\x00", "", "[", "data: {", "got [", "code:", "Error syncing load balancer [", "%", "\\",
	}
	return texts
}

func within(limit time.Duration, f func()) (time.Duration, bool) {
	least := time.Hour
	for range 20 {
		begin := time.Now()
		f()
		if least = min(least, time.Since(begin)); least <= limit*slowdown {
			return least, true
		}
	}
	return least, false
}

// The tests of the shipped table, which imports this package, use these.
var (
	Hostile = hostile
	Within  = within
)
