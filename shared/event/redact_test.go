package event

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lbremedy/lbremedy/test/corpus"
)

const (
	testKey    = "LTAI5tQnKxyZ9abcdEFGhijk"
	testSecret = "t0PsEcReT8qwertyuiop"
	testSeed   = "SUAIO3FHUX5PNV2LQIIP7TZ3N4L7TX3W53MQGEIVYFIGA635OZCKEYHFLM" // of the documentation of nkeys
	testJWT    = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlLXg_-1"
)

func TestRedact(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"nothing", "Message: The account is arrearage.", "Message: The account is arrearage."},
		{"empty", "", ""},
		{"a signed URL",
			`Post "https://slb.aliyuncs.com/?AccessKeyId=` + testKey +
				`&Action=X&SecurityToken=CAIS%2Bx%3D%3D&Signature=ab%2Fc%3D&SignatureMethod=HMAC-SHA1&SignatureNonce=1": dial tcp: i/o timeout`,
			`Post "https://slb.aliyuncs.com/?AccessKeyId=***&Action=X&SecurityToken=***&Signature=***&SignatureMethod=HMAC-SHA1&SignatureNonce=1": dial tcp: ` +
				`i/o timeout`},
		{"a path that ends in a name of secrets",
			`Put "http://100.100.100.200/latest/api/token": EOF, {"token":"b"}`, `Put "http://100.100.100.200/latest/api/token": EOF, {"token":"***"}`},
		{"a string to sign",
			"string to sign is:GET&%2F&AccessKeyId%3D" + testKey + "%26Action%3DX%26SecurityToken%3DCAIS%252Bx%26Version%3D1 end",
			"string to sign is:GET&%2F&AccessKeyId%3D***%26Action%3DX%26SecurityToken%3D***%26Version%3D1 end"},
		{"encoded twice", "SecurityToken%253DCAISx%2526Version", "SecurityToken%253D***%2526Version"},
		{"a bare key ID", "key " + testKey + ", please", "key LTAI***, please"},
		{"lower case", "ltai5tqnkxyz9abc, sts.nux7qexample0123456, myBearer abcd1234efgh", "ltai5tqnkxyz9abc, sts.nux7qexample0123456, myBearer abcd1234efgh"},
		{"a short LTAI", "LTAI5t", "LTAI5t"},
		{"a temporary key ID", "key STS.NUx7Qexample0123456 expired", "key STS.*** expired"},
		{"STS prose", "STS.AssumeRoleWithOIDCProvider", "STS.AssumeRoleWithOIDCProvider"},
		{"a key of the console", "key TMP.3KexampleAbcdef0123 expired", "key TMP.*** expired"},
		{"JSON", `{"AccessKeyId":"` + testKey + `","AccessKeySecret": "` + testSecret + `","n":1}`, `{"AccessKeyId":"***","AccessKeySecret": "***","n":1}`},
		{"JSON in a log", `{\"AccessKeySecret\":\"` + testSecret + `\",\"n\":1}`, `{\"AccessKeySecret\":\"***\",\"n\":1}`},
		{"a Go struct", "{AccessKeyId:" + testKey + " AccessKeySecret:" + testSecret + " StsToken:CAISabc}", "{AccessKeyId:*** AccessKeySecret:*** StsToken:***}"},
		{"a Go header", "map[Authorization:[acs " + testKey + ":c2ln] X-Acs-Security-Token:[CAISabc] X-Acs-Request-Id:[1]]",
			"map[Authorization:[***] X-Acs-Security-Token:[***] X-Acs-Request-Id:[1]]"},
		{"a header", "Authorization: acs " + testKey + ":c2ln= then", "Authorization: acs *** then"},
		{"a header of the third signature", "Authorization: ACS3-HMAC-SHA256 Credential=" + testKey + ",SignedHeaders=host;x-acs-date,Signature=0a1b",
			"Authorization: ACS3-HMAC-SHA256 ***"},
		{"the same with spaces", "Authorization: ACS3-HMAC-SHA256 Credential=" + testKey + ", Signature=0a1b\nHost: x",
			"Authorization: ACS3-HMAC-SHA256 *** Signature=***\nHost: x"},
		{"a header without a scheme", "authorization: c2VjcmV0OnNlY3JldA==", "authorization: ***"},
		{"a header of a strange scheme", "Authorization: Strange c2VjcmV0", "Authorization: ***"},
		{"a quoted header", `"Authorization": "Bearer abc"`, `"Authorization": "***"`},
		{"prose about authorization", "authorization failed", "authorization failed"},
		{"a bearer token", "with Bearer abcd1234efgh, denied", "with Bearer ***, denied"},
		{"bearer prose", "the bearer certificate of a flag-bearer 12345678", "the bearer certificate of a flag-bearer ***"},
		{"a web token", "token is " + testJWT + ".", "token is ***"},
		{"a web token in a URL", "?jwt%3D" + testJWT + "&x", "?jwt%3D***&x"},
		{"eyJ prose", "heyJude, eyJude", "heyJude, eyJude"},
		{"a diagnosis", "AccessDeniedDetail: map[AuthAction:ecs:X EncodedDiagnosticMessage:AQEAAAAAabc/+= NoPermissionType:ImplicitDeny]",
			"AccessDeniedDetail: map[AuthAction:ecs:X EncodedDiagnosticMessage:*** NoPermissionType:ImplicitDeny]"},
		{"a password in a URL", "nats://user:" + testSecret + "@10.0.0.1:4222 refused", "nats://***@10.0.0.1:4222 refused"},
		{"a URL with an at later", "https://host/a@b and x@y", "https://host/a@b and x@y"},
		{"a password", "password: " + testSecret + "; passwd='a b' password=", "password: ***; passwd='***' password="},
		{"a token", `?token=` + testSecret + `&api_key=a {"token":"b"} client_secret=c`, `?token=***&api_key=*** {"token":"***"} client_secret=***`},
		{"keys in files", `secret_key = "` + testSecret + `", secretKey: ` + testSecret + ` client-key-data: ` + testSecret,
			`secret_key = "***", secretKey: *** client-key-data: ***`},
		{"token prose", "unexpected token: x, ClientToken=u-1, secret: none, the Client Token is processing",
			"unexpected token: x, ClientToken=u-1, secret: none, the Client Token is processing"},
		{"error codes", "ErrorCode: InvalidSecurityToken.Expired, MissingSecurityToken: no, q=InvalidAccessKeyId.NotFound",
			"ErrorCode: InvalidSecurityToken.Expired, MissingSecurityToken: no, q=InvalidAccessKeyId.NotFound"},
		{"a private key", "key -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- done", "key *** done"},
		{"a private key cut off", "-----BEGIN PRIVATE KEY-----\nMIIE", "***"},
		{"a certificate", "-----BEGIN CERTIFICATE-----\nMIIE", "-----BEGIN CERTIFICATE-----\nMIIE"},
		{"an open quote", `AccessKeySecret="` + testSecret, `AccessKeySecret="***`},
		{"a seed of NATS", "nkey: " + testSeed + ", " + testSeed[:57] + " X" + testSeed, "nkey: ***, " + testSeed[:57] + " X" + testSeed},
		{"another in lower case", strings.ToLower(testSeed), strings.ToLower(testSeed)},
		{"an app's secret", `{"appSecret":"` + testSecret + `"} appSecret: abc app_secret=abc`, `{"appSecret":"***"} appSecret: *** app_secret=***`},
		{"a session's token", "SessionToken: abc, sessionToken=abc", "SessionToken: ***, sessionToken=***"},
		{"a ticket", "https://h/x?ticket=abc&y=1 jsapi_ticket=abc, ticket%3Dabc%26y the ticket: 5",
			"https://h/x?ticket=***&y=1 jsapi_ticket=***, ticket%3D***%26y the ticket: 5"},
		{"WeCom's key", "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=693a91f6-7xxx&a=1 a%26key%3Dabc",
			"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=***&a=1 a%26key%3D***"},
		{"other keys", "key=shop/web, monkey=1, ?monkey=1", "key=shop/web, monkey=1, ?monkey=1"},
		{"a hook of Slack", `Post "https://hooks.slack.com/services/T0/B0/xyz": EOF`, `Post "https://hooks.slack.com/***": EOF`},
		{"YAML", "users:\n- user:\n    token: abc\n  - secret: abc\ntoken: abc", "users:\n- user:\n    token: ***\n  - secret: ***\ntoken: ***"},
		{"YAML in a log", `users:\n    token: abc\n`, `users:\n    token: ***\n`},
		{"YAML in a line", "the token: 0a1b2c3d4e5f6a7b8c, secret: lbremedy-nats-exporter-2026", "the token: ***, secret: lbremedy-nats-exporter-2026"},
		{"a long value", "the token: a/" + strings.Repeat("b-", 300) + ", secret: [" + strings.Repeat("no ", 200) + "] token: [" + strings.Repeat("no ", 200),
			"the token: ***, secret: [***] token: [***"},
		{"no longer than a sentence", "unexpected token: [" + strings.Repeat("no ", 100) + "]", "unexpected token: [" + strings.Repeat("no ", 100) + "]"},
		{"an empty value", `Signature=&x AccessKeySecret="" Authorization: `, `Signature=&x AccessKeySecret="" Authorization: `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Redact(tt.in)
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if again := Redact(got); again != got {
				t.Errorf("once %s\ntwice %s", got, again)
			}
		})
	}
}

func TestRedactIsBounded(t *testing.T) {
	const limit = 200 * time.Millisecond // for a megabyte; quadratic time would take minutes
	for _, text := range hostile() {
		if took, ok := within(limit, func() { Redact(text) }); !ok {
			t.Errorf("%.40q… took %v, more than %v", text, took, limit)
		}
	}
}

func TestAbridge(t *testing.T) {
	rows := corpus.Rows(t)
	var long strings.Builder
	for i := 0; long.Len() < 1<<20; i++ {
		long.WriteString(rows[i%len(rows)].Message + " password=" + testSecret + ", 世 ")
		for _, s := range []string{rows[i%len(rows)].Message, long.String()} {
			if i%997 != 0 && len(s) > 2*window+1<<10 {
				continue // most of the long ones
			}
			if got, want := Abridge(s), Cut(Redact(s)); got != want {
				t.Fatalf("%d bytes, %.80q…: got\n%s\nwant\n%s", len(s), s, got, want)
			}
		}
	}
	fill := strings.Repeat("a b ", 1<<18)
	for name, s := range map[string]string{
		"a secret in what is left out":      fill + " password=" + testSecret + " " + fill,
		"one that the beginning cuts":       fill[:headPart-20] + " password=" + testSecret + strings.Repeat("s", 4*window) + fill,
		"one that the window cuts":          fill[:window-20] + " password=" + testSecret + " " + fill,
		"a key that the window cuts":        strings.Repeat("password='"+fill[:8000]+"',", 5)[:window-8] + testSecret[:4] + "LTAI" + testSecret + fill,
		"one that the end cuts":             fill + "password='" + strings.Repeat("s", 16<<10) + testSecret + "'",
		"an end of secrets":                 fill + strings.Repeat("password='"+testSecret+strings.Repeat("s", 10_000)+"',", 3),
		"userinfo that the window cuts":     strings.Repeat("password='"+fill[:8000]+"',", 4) + fill[:window-4*8012-30] + "nats://u:" + testSecret + "@h " + fill,
		"nothing but a secret":              "password='" + fill + testSecret + fill,
		"nothing but a secret with its end": "password='" + fill + testSecret + fill + "'",
	} {
		got := Abridge(s)
		if strings.Contains(got, testSecret) || len(got) > MaxMessage || !utf8.ValidString(got) {
			t.Errorf("%s: got %d bytes:\n%s", name, len(got), got)
		}
		if again := Abridge(got); again != got {
			t.Errorf("%s: abridging again changes it:\n%s\n%s", name, got, again)
		}
	}
}

func FuzzRedact(f *testing.F) {
	for _, l := range corpus.Rows(f)[:50] {
		f.Add(l.Message)
	}
	for _, s := range []string{
		"Authorization: acs a:b", `{"AccessKeyId":"` + testKey + `"}`, "a%3D" + testJWT, "SecurityToken%3Da%26", "x://a:b@c",
		"bearer abcd1234efgh", "-----BEGIN PRIVATE KEY-----", `token='a`, `\"signature\" : \"x`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := Redact(s)
		if twice := Redact(once); twice != once {
			t.Errorf("%q: once %q, twice %q", s, once, twice)
		}
		if utf8.ValidString(s) && !utf8.ValidString(once) {
			t.Errorf("%q became invalid: %q", s, once)
		}
		for _, secret := range []string{"?Signature=", "&AccessKeyId=", " password: ", "SecurityToken%3D"} {
			if got := Redact(s + "\n" + secret + testSecret); strings.HasSuffix(got, testSecret) {
				t.Errorf("%q kept the secret: %q", s, got)
			}
		}
	})
}

func TestCut(t *testing.T) {
	long := strings.Repeat("世", MaxMessage)
	for _, tt := range []struct {
		name, in string
		same     bool
	}{
		{"short", "The account is arrearage.", true},
		{"empty", "", true},
		{"just fits", strings.Repeat("x", MaxMessage), true},
		{"one too many", strings.Repeat("x", MaxMessage) + "y", false},
		{"runes", long, false},
		{"bytes that are no text", strings.Repeat("\x80", 2*MaxMessage), false},
		{"invalid", "a\xffb", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Cut(tt.in)
			if (got == tt.in) != tt.same {
				t.Errorf("got %q", got)
			}
			if len(got) > MaxMessage || !utf8.ValidString(got) {
				t.Errorf("got %d bytes, valid UTF-8: %v", len(got), utf8.ValidString(got))
			}
			if again := Cut(got); again != got {
				t.Error("cutting again changes it")
			}
		})
	}
	if got := Cut(strings.Repeat("a", 100_000) + "the end"); !strings.HasPrefix(got, "aaa") || !strings.HasSuffix(got, "the end") || !strings.Contains(got, gap) {
		t.Errorf("got %.20s…%s", got, got[len(got)-20:])
	}
	if got := Cut(long); strings.ContainsRune(got, '?') {
		t.Error("a rune is cut in two")
	}
}
