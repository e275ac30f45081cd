package sim

import (
	"context"
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/billing"
	"github.com/lbremedy/lbremedy/test/sim/core"
	"github.com/lbremedy/lbremedy/test/sim/cs"
	"github.com/lbremedy/lbremedy/test/sim/ecs"
	"github.com/lbremedy/lbremedy/test/sim/nlb"
	"github.com/lbremedy/lbremedy/test/sim/quotas"
	"github.com/lbremedy/lbremedy/test/sim/ram"
	"github.com/lbremedy/lbremedy/test/sim/slb"
	"github.com/lbremedy/lbremedy/test/sim/support"
	"github.com/lbremedy/lbremedy/test/sim/vpc"
)

var byVersion = func() map[string]*core.Product {
	m := map[string]*core.Product{}
	for _, p := range []*core.Product{
		slb.Product(), nlb.Product(), vpc.Product(), ecs.Product(), ram.Product(), ram.STS(), cs.Product(), quotas.Product(), support.Product(), billing.Product(),
	} {
		m[p.Version] = p
		for name, a := range p.Actions {
			a.Name = name
			if a.RAM == nil {
				a.RAM = []string{p.Name + ":" + name}
			}
		}
	}
	return m
}()

// Actions returns all supported actions by their RAM names, sorted.
func Actions() []string {
	var names []string
	for _, p := range byVersion {
		for _, a := range p.Actions {
			names = append(names, a.RAM[0])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

const maxBody = 1 << 20

// ServeHTTP serves a request of the OpenAPI.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.inHand++
	c.mu.Unlock()
	defer c.done()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	tooLarge := errors.As(err, new(*http.MaxBytesError))
	if err != nil && !tooLarge {
		panic(http.ErrAbortHandler)
	}
	read := rpc
	switch auth := r.Header.Get("Authorization"); {
	case strings.HasPrefix(auth, core.ACS3):
		read = acs3
	case r.URL.Path != "/" || strings.HasPrefix(auth, "acs "):
		read = roa
	}
	in := read(r, body)
	if tooLarge {
		in.bad = core.Fail(http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", "The request body is larger than %d bytes.", maxBody)
	}
	in.locate(r.Host)
	call := Call{Action: in.actionName, Params: in.params, At: c.now(), RequestID: core.RequestID()}
	if in.product != nil {
		call.Product = in.product.Name
	}
	f := c.meet(in, &call)
	f.before(c, r, call)
	out, bad := f.refusal(in.product)
	if bad == nil {
		out, bad = c.answer(in, &call, f != nil && f.FailJob)
		call.Done = bad == nil
	}
	b := c.encode(in, &call, out, bad)
	f.after(c, &call)
	c.mu.Lock()
	c.record(call)
	c.mu.Unlock()
	h := w.Header()
	h.Set("Content-Type", "application/json;charset=utf-8")
	if in.xml {
		h.Set("Content-Type", "text/xml;charset=utf-8")
	}
	h.Set("x-acs-request-id", call.RequestID)
	w.WriteHeader(call.Status)
	_, _ = w.Write(f.garble(b))
}

func (c *Cloud) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inHand--; c.inHand == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// Idle waits until no request is in progress. Requests take effect even if their client is gone, so call it after stopping a client.
func (c *Cloud) Idle(ctx context.Context) error {
	c.mu.Lock()
	if c.inHand == 0 {
		c.mu.Unlock()
		return nil
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait until the cloud is idle: %w", ctx.Err())
	}
}

type incoming struct {
	product    *core.Product // nil: unknown
	action     *core.Action  // nil: unknown
	actionName string
	params     core.Params
	key        string
	token      string
	signature  string
	text       string // signed text
	suffix     string // of the secret
	sha256     bool   // signed with ACS3-HMAC-SHA256 instead of HMAC-SHA1
	open       bool   // unsigned, and needs no signature
	xml        bool   // requested format is XML
	region     string // empty: not specified
	stamp      time.Time
	nonce      string
	bad        *core.Failure // parse error
}

func rpc(r *http.Request, body []byte) *incoming {
	in := &incoming{params: core.Params{}, suffix: "&"}
	all, err := url.ParseQuery(r.URL.RawQuery)
	if err == nil && strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		var form url.Values
		form, err = url.ParseQuery(string(body))
		maps.Copy(all, form)
	}
	if err != nil {
		in.bad = core.Fail(http.StatusBadRequest, "InvalidParameter", "The request cannot be read.")
		return in
	}
	in.product = byVersion[all.Get("Version")]
	in.actionName = all.Get("Action")
	in.key, in.token, in.nonce = all.Get("AccessKeyId"), all.Get("SecurityToken"), all.Get("SignatureNonce")
	in.signature = all.Get("Signature")
	format := strings.ToUpper(all.Get("Format"))
	in.xml = format != "JSON" // the gateway's default
	if a := in.product.Action(in.actionName); a != nil && a.Open && in.key == "" {
		in.open = true
	}
	in.stamp, err = time.Parse("2006-01-02T15:04:05Z", all.Get("Timestamp"))
	var text strings.Builder
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if k == "Signature" {
			continue
		}
		if text.Len() > 0 {
			text.WriteByte('&')
		}
		text.WriteString(core.Escape(k) + "=" + core.Escape(all.Get(k)))
		if !common[k] {
			in.params[k] = all.Get(k)
		}
	}
	in.text = r.Method + "&%2F&" + core.Escape(text.String())
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodPost:
		in.bad = core.Fail(http.StatusMethodNotAllowed, "UnsupportedHTTPMethod", "This http method is not supported.")
	case in.actionName == "":
		in.bad = core.Missing("Action")
	case all.Get("Version") == "":
		in.bad = core.Missing("Version")
	case in.product == nil:
		in.bad = core.Fail(http.StatusNotFound, "InvalidVersion", "Specified parameter Version is not valid.")
	case in.product.Action(in.actionName) == nil:
		in.bad = core.Fail(http.StatusNotFound, "InvalidAction.NotFound", "Specified api is not found, please check your url and method.")
	case format != "" && format != "JSON" && format != "XML":
		in.bad = core.Invalid("Format")
	case in.key == "" && !in.open:
		in.bad = core.Missing("AccessKeyId")
	case in.signature == "" && !in.open:
		in.bad = core.Missing("Signature")
	case in.nonce == "" && !in.open:
		in.bad = core.Missing("SignatureNonce")
	case all.Get("SignatureMethod") != "HMAC-SHA1" && !in.open:
		in.bad = core.Fail(http.StatusBadRequest, "InvalidParameter.SignatureMethod", "Specified signature method is not supported.")
	case err != nil:
		in.bad = core.Fail(http.StatusBadRequest, "InvalidTimeStamp.Format", "Specified time stamp or date value is not well formatted.")
	default:
		in.action = in.product.Action(in.actionName)
	}
	return in
}

// common are the parameters about the caller rather than the action.
var common = func() map[string]bool {
	m := map[string]bool{}
	for _, k := range []string{
		"AccessKeyId", "Action", "Format", "SecurityToken", "Signature", "SignatureMethod", "SignatureNonce",
		"SignatureType", "SignatureVersion", "Timestamp", "Version", "BearerToken",
	} {
		m[k] = true
	}
	return m
}()

func roa(r *http.Request, body []byte) *incoming {
	in := &incoming{params: core.Params{}, token: r.Header.Get("x-acs-security-token"), nonce: r.Header.Get("x-acs-signature-nonce")}
	for k, v := range r.URL.Query() {
		in.params[k] = v[0]
	}
	if len(body) > 0 {
		in.params["body"] = string(body)
	}
	in.product = byVersion[r.Header.Get("x-acs-version")]
	in.actionName = r.Header.Get("x-acs-action")
	in.text = roaText(r)
	var ok bool
	in.key, in.signature, ok = strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "acs "), ":")
	stamp, err := http.ParseTime(r.Header.Get("Date"))
	in.stamp = stamp
	sum := md5.Sum(body)
	switch md := r.Header.Get("Content-MD5"); {
	case in.product == nil:
		in.bad = core.Fail(http.StatusNotFound, "InvalidVersion", "Specified parameter Version is not valid.")
	case !ok:
		in.bad = core.Missing("Authorization")
	case err != nil:
		in.bad = core.Fail(http.StatusBadRequest, "InvalidTimeStamp.Format", "Specified time stamp or date value is not well formatted.")
	case md != "" && md != base64.StdEncoding.EncodeToString(sum[:]):
		in.bad = core.Fail(http.StatusBadRequest, "ContentMD5NotMatched", "Specified Content-MD5 is not matched with the body.")
	default:
		in.action = in.product.Route(r.Method, r.URL.Path, in.params)
		if in.action == nil {
			in.bad = core.Fail(http.StatusNotFound, "InvalidAction.NotFound", "Specified api is not found, please check your url and method.")
			break
		}
		in.actionName = in.action.Name
	}
	return in
}

// roaText returns the signed text of a ROA request: without empty headers, and with the query unescaped.
func roaText(r *http.Request) string {
	var b strings.Builder
	b.WriteString(r.Method + "\n")
	for _, h := range []string{"Accept", "Content-MD5", "Content-Type", "Date"} {
		if v := r.Header.Get(h); v != "" {
			b.WriteString(v + "\n")
		}
	}
	var acs []string
	for h, v := range r.Header {
		if l := strings.ToLower(h); strings.HasPrefix(l, "x-acs-") {
			acs = append(acs, l+":"+v[0]+"\n")
		}
	}
	slices.Sort(acs)
	b.WriteString(strings.Join(acs, "") + r.URL.Path)
	q := r.URL.Query()
	for i, k := range slices.Sorted(maps.Keys(q)) {
		b.WriteString(string("?&"[min(i, 1)]) + k)
		if v := q.Get(k); v != "" {
			b.WriteString("=" + v)
		}
	}
	return b.String()
}

// answer executes a request with the state locked. The job of a doomed request fails.
func (c *Cloud) answer(in *incoming, call *Call, doomed bool) (any, *core.Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if in.bad != nil {
		return nil, in.bad
	}
	k, bad := c.authenticate(in)
	if bad != nil {
		return nil, bad
	}
	call.Caller = k.Name
	s, bad := c.there(in)
	if bad != nil {
		return nil, bad
	}
	q := &core.Request{Product: in.product, Action: in.action, Params: in.params, Caller: k, State: s.coreState, Now: c.now(), Doomed: doomed}
	s.advance(q.Now)
	out, bad := s.answer(q)
	if bad != nil && q.Product.Words != nil {
		bad = q.Product.Words(bad)
	}
	return out, bad
}

func (s *State) answer(q *core.Request) (any, *core.Failure) {
	if bad := s.quotasState.Throttle(q); bad != nil {
		return nil, bad
	}
	if bad := s.ramState.Authorize(q); bad != nil {
		return nil, bad
	}
	for _, n := range q.Action.Need {
		if !q.Params.Has(n) {
			return nil, core.Missing(n)
		}
	}
	return q.Action.Do(q)
}

func (c *Cloud) authenticate(in *incoming) (*core.Caller, *core.Failure) {
	now := c.now()
	if d := now.Sub(in.stamp); d > core.Skew || d < -core.Skew {
		return nil, core.Fail(http.StatusBadRequest, "InvalidTimeStamp.Expired", "Specified time stamp or date value is expired.")
	}
	if in.open {
		return &Caller{}, nil
	}
	k := c.state.Callers[in.key]
	if k == nil {
		return nil, core.Fail(http.StatusNotFound, "InvalidAccessKeyId.NotFound", "Specified access key is not found.")
	}
	if !in.signed(k.Secret) {
		return nil, core.Fail(http.StatusBadRequest, "SignatureDoesNotMatch",
			"Specified signature is not matched with our calculation. server string to sign is:%s", in.text)
	}
	switch {
	case k.Token != "" && in.token == "":
		return nil, core.Fail(http.StatusBadRequest, "MissingSecurityToken", "SecurityToken is mandatory for this action.")
	case k.Token != in.token:
		return nil, core.Fail(http.StatusBadRequest, "InvalidSecurityToken.MismatchWithAccessKey", "Specified SecurityToken mismatch with the AccessKey.")
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return nil, core.Fail(http.StatusBadRequest, "InvalidSecurityToken.Expired", "Specified SecurityToken is expired.")
	}
	if in.nonce != "" && !c.nonces.first(in.key, in.nonce, now) {
		return nil, core.Fail(http.StatusBadRequest, "SignatureNonceUsed", "Specified signature nonce was used already.")
	}
	return k, nil
}

func (in *incoming) signed(secret string) bool {
	mac, decode := hmac.New(sha1.New, []byte(secret+in.suffix)), base64.StdEncoding.DecodeString
	if in.sha256 {
		mac, decode = hmac.New(sha256.New, []byte(secret)), hex.DecodeString
	}
	_, _ = io.WriteString(mac, in.text)
	got, err := decode(in.signature)
	return err == nil && hmac.Equal(got, mac.Sum(nil))
}

// nonces are hashes of the used nonces of two periods of Skew.
type nonces struct {
	seed    maphash.Seed
	since   time.Time
	now     map[uint64]struct{}
	earlier map[uint64]struct{}
}

func (n *nonces) first(key, nonce string, now time.Time) bool {
	if n.now == nil {
		n.seed = maphash.MakeSeed()
	}
	if n.now == nil || now.Sub(n.since) > 2*core.Skew {
		n.earlier, n.now, n.since = n.now, map[uint64]struct{}{}, now
	}
	h := maphash.String(n.seed, key+" "+nonce)
	_, used := n.now[h]
	_, before := n.earlier[h]
	n.now[h] = struct{}{}
	return !used && !before
}

func (c *Cloud) encode(in *incoming, call *Call, out any, bad *core.Failure) []byte {
	call.Status = http.StatusOK
	if bad != nil {
		call.Status, call.Code = bad.Status, bad.Code
		out = body(bad, in.product, call.RequestID)
	}
	if m, ok := out.(core.Reply); ok && m["RequestId"] == nil {
		m["RequestId"] = call.RequestID
		out = m
	}
	b, err := json.Marshal(out)
	if err != nil {
		panic("sim: an answer that cannot be written: " + err.Error())
	}
	if in.xml {
		root := in.actionName + "Response"
		if bad != nil {
			root = "Error"
		}
		return toXML(root, b)
	}
	return b
}

func body(f *core.Failure, p *core.Product, id string) any {
	recommend := "https://api.aliyun.com/troubleshoot?q=" + url.QueryEscape(f.Code)
	if p != nil && p.Lower && !gateway[f.Code] {
		m := map[string]any{"code": f.Code, "message": f.Message, "requestId": id, "status": f.Status}
		if f.Denied != nil {
			m["accessDeniedDetail"] = f.Denied
		}
		return m
	}
	host := "openapi.aliyuncs.com"
	if p != nil {
		host, recommend = p.Host, recommend+"&product="+p.Name
	}
	m := core.Reply{"RequestId": id, "HostId": host, "Code": f.Code, "Message": f.Message, "Recommend": recommend}
	if f.Denied != nil {
		m["AccessDeniedDetail"] = f.Denied
	}
	return m
}

// gateway are the error codes that the gateway returns before a product sees the request, in the gateway's format.
var gateway = map[string]bool{
	"InvalidVersion": true, "InvalidAction.NotFound": true, "InvalidAccessKeyId.NotFound": true, "SignatureDoesNotMatch": true,
	"SignatureNonceUsed": true, "InvalidTimeStamp.Expired": true, "InvalidTimeStamp.Format": true, "MissingSecurityToken": true,
	"InvalidSecurityToken.MismatchWithAccessKey": true, "InvalidSecurityToken.Expired": true, "ContentMD5NotMatched": true,
	"MissingParameter.Authorization": true, "IncompleteSignature": true, "InvalidRegionId.NotFound": true,
}
