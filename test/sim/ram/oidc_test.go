package ram_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/sts"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/vpc"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

func TestOIDC(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	simtest.Check(t, err)
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	simtest.Check(t, err)
	const subject = "system:serviceaccount:kube-system:lbremedy"
	c := sim.New(t, &sim.World{
		OIDCProviders: []sim.OIDCProvider{{Name: "ack-rrsa", Issuer: "https://issuer", Key: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))}},
		Policies:      []sim.Policy{{Name: "p", Versions: simtest.Policy(`{"Effect":"Allow","Action":["slb:Describe*","vpc:*"],"Resource":"*"}`)}},
		Roles:         []sim.Role{{Name: "lbremedy", Policies: []string{"p"}, OIDC: []sim.OIDCTrust{{Provider: "ack-rrsa", Subject: subject}}}, {Name: "other"}},
	})
	part := func(v any) string { return base64.RawURLEncoding.EncodeToString([]byte(simtest.Text(t, v))) }
	token := func(edit func(map[string]any)) string {
		t.Helper()
		said := map[string]any{"iss": "https://issuer", "sub": subject, "aud": []string{"sts.aliyuncs.com"}, "iat": time.Now().Unix(), "exp": time.Now().
			Add(time.Hour).Unix()}
		edit(said)
		body := part(map[string]any{"alg": "ES256"}) + "." + part(said)
		sum := sha256.Sum256([]byte(body))
		r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
		simtest.Check(t, err)
		signature := make([]byte, 64)
		r.FillBytes(signature[:32])
		s.FillBytes(signature[32:])
		return body + "." + base64.RawURLEncoding.EncodeToString(signature)
	}
	same := func(map[string]any) {}
	forged := strings.Split(token(func(m map[string]any) { m["sub"] = "system:serviceaccount:shop:web" }), ".")
	forged[1] = strings.Split(token(same), ".")[1]
	account := c.Snapshot().AccountID
	assume := func(role, provider, token, limit string) (int, string, sim.Credentials) {
		t.Helper()
		resp, err := http.PostForm("http://"+c.Addr()+"/?Version=2015-04-01&Action=AssumeRoleWithOIDC&Format=JSON&Timestamp="+time.Now().UTC().
			Format("2006-01-02T15:04:05Z"), url.Values{
			"RoleArn": {"acs:ram::" + account + ":role/" + role}, "OIDCProviderArn": {"acs:ram::" + account + ":oidc-provider/" + provider},
			"OIDCToken": {token}, "RoleSessionName": {"pod"}, "DurationSeconds": {"900"}, "Policy": {limit},
		})
		simtest.Check(t, err)
		defer func() { _ = resp.Body.Close() }()
		var out struct {
			Code        string
			Credentials struct{ AccessKeyId, AccessKeySecret, SecurityToken string }
		}
		simtest.Check(t, json.NewDecoder(resp.Body).Decode(&out))
		return resp.StatusCode, out.Code, sim.Credentials{AccessKeyID: out.Credentials.AccessKeyId, Secret: out.Credentials.AccessKeySecret,
			Token: out.Credentials.SecurityToken}
	}
	for _, tt := range []struct {
		name, role, provider, token, code string
		status                            int
	}{
		{"good", "lbremedy", "ack-rrsa", token(same), "", 200},
		{"no such provider", "lbremedy", "none", token(same), "AuthenticationFail.NoPermission", 401},
		{"no such role", "none", "ack-rrsa", token(same), "EntityNotExist.Role", 404},
		{"not trusted", "other", "ack-rrsa", token(same), "AuthenticationFail.NoPermission", 401},
		{"another pod", "lbremedy", "ack-rrsa", token(func(m map[string]any) { m["sub"] = "system:serviceaccount:shop:web" }),
			"AuthenticationFail.NoPermission", 401},
		{"another issuer", "lbremedy", "ack-rrsa", token(func(m map[string]any) { m["iss"] = "https://other" }), "AuthenticationFail.NoPermission", 401},
		{"audience", "lbremedy", "ack-rrsa", token(func(m map[string]any) { m["aud"] = "kubernetes" }), "AuthenticationFail.OIDCToken.AudienceNotMatch", 401},
		{"expired", "lbremedy", "ack-rrsa", token(func(m map[string]any) { m["exp"] = 1 }), "AuthenticationFail.OIDCToken.Expired", 401},
		{"signature", "lbremedy", "ack-rrsa", strings.Join(forged, "."), "AuthenticationFail.OIDCToken.InvalidSignature", 401},
		{"no token", "lbremedy", "ack-rrsa", "", "AuthenticationFail.OIDCToken.Invalid", 401},
		{"two parts", "lbremedy", "ack-rrsa", "a.b", "AuthenticationFail.OIDCToken.Invalid", 401},
		{"algorithm", "lbremedy", "ack-rrsa", part(map[string]any{"alg": "none"}) + "." + part(map[string]any{}) + ".", "AuthenticationFail.OIDCToken.Invalid", 401},
	} {
		status, code, _ := assume(tt.role, tt.provider, tt.token, "")
		if status != tt.status || code != tt.code {
			t.Errorf("%s: got %d %s, want %d %s", tt.name, status, code, tt.status, tt.code)
		}
	}
	_, _, k := assume("lbremedy", "ack-rrsa", token(same), "")
	_, err = simtest.Dial(t, c, k, slb.NewClientWithOptions).DescribeLoadBalancers(slb.CreateDescribeLoadBalancersRequest())
	simtest.Check(t, err)
	_, err = simtest.Dial(t, c, k, vpc.NewClientWithOptions).DescribeVpcs(vpc.CreateDescribeVpcsRequest())
	simtest.Check(t, err)
	me, err := simtest.Dial(t, c, c.Client("x", "sts:*"), sts.NewClientWithOptions).GetCallerIdentity(sts.CreateGetCallerIdentityRequest())
	if err != nil || me.AccountId != account {
		t.Errorf("got %+v, %v", me, err)
	}

	_, _, k = assume("lbremedy", "ack-rrsa", token(same), `{"Version":"1","Statement":[{"Effect":"Allow","Action":"vpc:*","Resource":"*"}]}`)
	_, err = simtest.Dial(t, c, k, vpc.NewClientWithOptions).DescribeVpcs(vpc.CreateDescribeVpcsRequest())
	simtest.Check(t, err)
	_, err = simtest.Dial(t, c, k, slb.NewClientWithOptions).DescribeLoadBalancers(slb.CreateDescribeLoadBalancersRequest())
	simtest.Refused(t, err, "Forbidden.RAM", 403)
	if status, code, _ := assume("lbremedy", "ack-rrsa", token(same), "{"); status != 400 || code != "InvalidParameter.PolicyGrammar" {
		t.Errorf("a bad policy: got %d %s", status, code)
	}
}
