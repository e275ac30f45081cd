package sim

import (
	"cmp"
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
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// skew is how far a time stamp may be from the present, and how long a nonce is
// remembered: https://www.alibabacloud.com/help/en/sdk/product-overview/rpc-mechanism
const skew = 15 * time.Minute

// A reply is the body of an answer.
type reply map[string]any

// A failure is an error as the OpenAPI answers it.
type failure struct {
	Status  int
	Code    string
	Message string
	Denied  map[string]any // AccessDeniedDetail
}

func (f *failure) Error() string { return f.Code + ": " + f.Message }

func fail(status int, code, format string, args ...any) *failure {
	return &failure{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// A request is a call on its way to its handler.
type request struct {
	product *product
	action  *action
	params  params
	caller  *Caller
	state   *State
	now     time.Time
	doomed  bool // its job fails
}

// A product is a part of the cloud with its own version, table and manners.
type product struct {
	name     string // in RAM actions, such as slb
	version  string
	host     string                  // of the public endpoint, as HostId says it
	regional bool                    // each region has resources of its own
	lower    bool                    // errors are {code, message, requestId}
	refusal  failure                 // what RAM's refusal looks like
	words    func(*failure) *failure // puts a general error into the product's words; nil: they are good
	actions  map[string]*action
}

// An action answers a request. State is locked while it runs.
type action struct {
	name     string // filled from the table's key
	do       func(q *request) (any, *failure)
	path     string                  // of a ROA action, with {} for a segment
	method   string                  // of a ROA action; GET if empty
	need     []string                // parameters without which it is refused
	ram      []string                // RAM actions of which one suffices; <product>:<Action> if nil
	resource func(q *request) string // behind acs:<product>:<region>:<account>:, * if nil
	filtered bool                    // a list that RAM may filter instead of refusing it
	open     bool                    // nobody signs it
}

// byVersion holds what the Cloud speaks; the version tells a product.
var byVersion = func() map[string]*product {
	m := map[string]*product{}
	for _, p := range []*product{slb(), nlb(), vpc(), ecs(), ram(), sts(), cs(), quotas(), workorder(), billing()} {
		m[p.version] = p
		for name, a := range p.actions {
			a.name = name
			if a.ram == nil {
				a.ram = []string{p.name + ":" + name}
			}
		}
	}
	return m
}()

// Actions returns all actions that the Cloud answers, as RAM names them, sorted.
func Actions() []string {
	var names []string
	for _, p := range byVersion {
		for _, a := range p.actions {
			names = append(names, a.ram[0])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// maxBody is more than any request of this API has.
const maxBody = 1 << 20

// ServeHTTP answers one request of the OpenAPI.
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
	case strings.HasPrefix(auth, acs3Scheme):
		read = acs3
	case r.URL.Path != "/" || strings.HasPrefix(auth, "acs "):
		read = roa
	}
	in := read(r, body)
	if tooLarge {
		in.bad = fail(http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", "The request body is larger than %d bytes.", maxBody)
	}
	in.locate(r.Host)
	call := Call{Action: in.actionName, Params: in.params, At: c.now(), RequestID: requestID()}
	if in.product != nil {
		call.Product = in.product.name
	}
	f := c.meet(in, &call)
	f.before(c, r, call)
	out, bad := f.refusal(in.product)
	if bad == nil {
		out, bad = c.answer(in, &call, f != nil && f.FailJob)
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

// done ends a request.
func (c *Cloud) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inHand--; c.inHand == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// Idle waits until no request is being answered. A request takes effect also when its
// client has gone: who has ended a client waits here until nothing of it comes any more.
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

// An incoming is a request as it was read from the wire, before anything is
// believed.
type incoming struct {
	product    *product // nil: unknown
	action     *action  // nil: unknown
	actionName string
	params     params
	key        string
	token      string
	signature  string
	text       string // that the signature is over
	suffix     string // of the secret
	sha256     bool   // the signature is ACS3-HMAC-SHA256, not HMAC-SHA1
	open       bool   // nobody signed it, and nobody needs to
	xml        bool   // the answer is wanted in XML
	region     string // that the request is for; empty: not said
	stamp      time.Time
	nonce      string
	bad        *failure // why it cannot be read
}

// rpc reads a request that says all in its query and form.
func rpc(r *http.Request, body []byte) *incoming {
	in := &incoming{params: params{}, suffix: "&"}
	all, err := url.ParseQuery(r.URL.RawQuery)
	if err == nil && strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		var form url.Values
		form, err = url.ParseQuery(string(body))
		maps.Copy(all, form)
	}
	if err != nil {
		in.bad = fail(http.StatusBadRequest, "InvalidParameter", "The request cannot be read.")
		return in
	}
	in.product = byVersion[all.Get("Version")]
	in.actionName = all.Get("Action")
	in.key, in.token, in.nonce = all.Get("AccessKeyId"), all.Get("SecurityToken"), all.Get("SignatureNonce")
	in.signature = all.Get("Signature")
	format := strings.ToUpper(all.Get("Format"))
	in.xml = format != "JSON" // which is the gateway's default
	if a := in.product.action(in.actionName); a != nil && a.open && in.key == "" {
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
		text.WriteString(escape(k) + "=" + escape(all.Get(k)))
		if !common[k] {
			in.params[k] = all.Get(k)
		}
	}
	in.text = r.Method + "&%2F&" + escape(text.String())
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodPost:
		in.bad = fail(http.StatusMethodNotAllowed, "UnsupportedHTTPMethod", "This http method is not supported.")
	case in.actionName == "":
		in.bad = missing("Action")
	case all.Get("Version") == "":
		in.bad = missing("Version")
	case in.product == nil:
		in.bad = fail(http.StatusNotFound, "InvalidVersion", "Specified parameter Version is not valid.")
	case in.product.action(in.actionName) == nil:
		in.bad = fail(http.StatusNotFound, "InvalidAction.NotFound", "Specified api is not found, please check your url and method.")
	case format != "" && format != "JSON" && format != "XML":
		in.bad = invalid("Format")
	case in.key == "" && !in.open:
		in.bad = missing("AccessKeyId")
	case in.signature == "" && !in.open:
		in.bad = missing("Signature")
	case in.nonce == "" && !in.open:
		in.bad = missing("SignatureNonce")
	case all.Get("SignatureMethod") != "HMAC-SHA1" && !in.open:
		in.bad = fail(http.StatusBadRequest, "InvalidParameter.SignatureMethod", "Specified signature method is not supported.")
	case err != nil:
		in.bad = fail(http.StatusBadRequest, "InvalidTimeStamp.Format", "Specified time stamp or date value is not well formatted.")
	default:
		in.action = in.product.action(in.actionName)
	}
	return in
}

// action returns the action of this name that has no path, or nil.
func (p *product) action(name string) *action {
	if p == nil || p.actions[name] == nil || p.actions[name].path != "" {
		return nil
	}
	return p.actions[name]
}

// common are the parameters that say who is calling, not what is asked.
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

// escape encodes as RFC 3986 says, which is what the signature is over.
func escape(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}

// roa reads a request that is a method on a path.
func roa(r *http.Request, body []byte) *incoming {
	in := &incoming{params: params{}, token: r.Header.Get("x-acs-security-token"), nonce: r.Header.Get("x-acs-signature-nonce")}
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
		in.bad = fail(http.StatusNotFound, "InvalidVersion", "Specified parameter Version is not valid.")
	case !ok:
		in.bad = missing("Authorization")
	case err != nil:
		in.bad = fail(http.StatusBadRequest, "InvalidTimeStamp.Format", "Specified time stamp or date value is not well formatted.")
	case md != "" && md != base64.StdEncoding.EncodeToString(sum[:]):
		in.bad = fail(http.StatusBadRequest, "ContentMD5NotMatched", "Specified Content-MD5 is not matched with the body.")
	default:
		in.action = in.product.route(r.Method, r.URL.Path, in.params)
		if in.action == nil {
			in.bad = fail(http.StatusNotFound, "InvalidAction.NotFound", "Specified api is not found, please check your url and method.")
			break
		}
		in.actionName = in.action.name
	}
	return in
}

// roaText returns what the signature of a ROA request is over: a header that is
// empty has no line, and the query is not encoded.
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

// route finds the action of a method on a path and adds the path's parameters
// as path.0, path.1 and so on. Of two that fit, the one that names more of the
// path is meant.
func (p *product) route(method, path string, in params) *action {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	var best *action
	var found []string
	for _, a := range p.actions {
		pattern := strings.Split(strings.Trim(a.path, "/"), "/")
		if a.path == "" || cmp.Or(a.method, http.MethodGet) != method || len(pattern) != len(segments) {
			continue
		}
		var open []string
		match := true
		for i, s := range pattern {
			if s == "{}" {
				open = append(open, segments[i])
				continue
			}
			match = match && s == segments[i]
		}
		if match && (best == nil || len(open) < len(found)) {
			best, found = a, open
		}
	}
	for i, v := range found {
		in[fmt.Sprintf("path.%d", i)] = v
	}
	return best
}

// answer decides about a request, with the state locked. The job of a doomed
// request fails.
func (c *Cloud) answer(in *incoming, call *Call, doomed bool) (any, *failure) {
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
	q := &request{product: in.product, action: in.action, params: in.params, caller: k, state: s, now: c.now(), doomed: doomed}
	s.advance(q.now)
	out, bad := q.answer()
	if bad != nil && q.product.words != nil {
		bad = q.product.words(bad)
	}
	return out, bad
}

// answer decides about a request of a known caller.
func (q *request) answer() (any, *failure) {
	if bad := q.throttle(); bad != nil {
		return nil, bad
	}
	if bad := q.authorize(); bad != nil {
		return nil, bad
	}
	for _, n := range q.action.need {
		if !q.params.has(n) {
			return nil, missing(n)
		}
	}
	return q.action.do(q)
}

// authenticate finds the caller and checks what it signed.
func (c *Cloud) authenticate(in *incoming) (*Caller, *failure) {
	now := c.now()
	if d := now.Sub(in.stamp); d > skew || d < -skew {
		return nil, fail(http.StatusBadRequest, "InvalidTimeStamp.Expired", "Specified time stamp or date value is expired.")
	}
	if in.open {
		return &Caller{}, nil
	}
	k := c.state.Callers[in.key]
	if k == nil {
		return nil, fail(http.StatusNotFound, "InvalidAccessKeyId.NotFound", "Specified access key is not found.")
	}
	if !in.signed(k.Secret) {
		return nil, fail(http.StatusBadRequest, "SignatureDoesNotMatch",
			"Specified signature is not matched with our calculation. server string to sign is:%s", in.text)
	}
	switch {
	case k.Token != "" && in.token == "":
		return nil, fail(http.StatusBadRequest, "MissingSecurityToken", "SecurityToken is mandatory for this action.")
	case k.Token != in.token:
		return nil, fail(http.StatusBadRequest, "InvalidSecurityToken.MismatchWithAccessKey", "Specified SecurityToken mismatch with the AccessKey.")
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return nil, fail(http.StatusBadRequest, "InvalidSecurityToken.Expired", "Specified SecurityToken is expired.")
	}
	if in.nonce != "" && !c.nonces.first(in.key, in.nonce, now) {
		return nil, fail(http.StatusBadRequest, "SignatureNonceUsed", "Specified signature nonce was used already.")
	}
	return k, nil
}

// signed reports whether the request is signed with this secret.
func (in *incoming) signed(secret string) bool {
	mac, decode := hmac.New(sha1.New, []byte(secret+in.suffix)), base64.StdEncoding.DecodeString
	if in.sha256 {
		mac, decode = hmac.New(sha256.New, []byte(secret)), hex.DecodeString
	}
	_, _ = io.WriteString(mac, in.text)
	got, err := decode(in.signature)
	return err == nil && hmac.Equal(got, mac.Sum(nil))
}

// nonces remembers which nonces were used, as hashes: the last skew and the one
// before.
type nonces struct {
	seed    maphash.Seed
	since   time.Time
	now     map[uint64]struct{}
	earlier map[uint64]struct{}
}

// first reports whether a nonce was not used yet, and uses it.
func (n *nonces) first(key, nonce string, now time.Time) bool {
	if n.now == nil {
		n.seed = maphash.MakeSeed()
	}
	if n.now == nil || now.Sub(n.since) > 2*skew {
		n.earlier, n.now, n.since = n.now, map[uint64]struct{}{}, now
	}
	h := maphash.String(n.seed, key+" "+nonce)
	_, used := n.now[h]
	_, before := n.earlier[h]
	n.now[h] = struct{}{}
	return !used && !before
}

// encode returns the body of an answer and notes in the call what it says.
func (c *Cloud) encode(in *incoming, call *Call, out any, bad *failure) []byte {
	call.Status = http.StatusOK
	if bad != nil {
		call.Status, call.Code = bad.Status, bad.Code
		out = bad.body(in.product, call.RequestID)
	}
	if m, ok := out.(reply); ok && m["RequestId"] == nil {
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

// body returns a failure in the product's form.
func (f *failure) body(p *product, id string) any {
	recommend := "https://api.aliyun.com/troubleshoot?q=" + url.QueryEscape(f.Code)
	if p != nil && p.lower && !gateway[f.Code] {
		m := map[string]any{"code": f.Code, "message": f.Message, "requestId": id, "status": f.Status}
		if f.Denied != nil {
			m["accessDeniedDetail"] = f.Denied
		}
		return m
	}
	host := "openapi.aliyuncs.com"
	if p != nil {
		host, recommend = p.host, recommend+"&product="+p.name
	}
	m := reply{"RequestId": id, "HostId": host, "Code": f.Code, "Message": f.Message, "Recommend": recommend}
	if f.Denied != nil {
		m["AccessDeniedDetail"] = f.Denied
	}
	return m
}

// gateway are the codes of errors that the gateway answers before a product
// sees the request; they have the gateway's form whatever the product's is.
var gateway = map[string]bool{
	"InvalidVersion": true, "InvalidAction.NotFound": true, "InvalidAccessKeyId.NotFound": true, "SignatureDoesNotMatch": true,
	"SignatureNonceUsed": true, "InvalidTimeStamp.Expired": true, "InvalidTimeStamp.Format": true, "MissingSecurityToken": true,
	"InvalidSecurityToken.MismatchWithAccessKey": true, "InvalidSecurityToken.Expired": true, "ContentMD5NotMatched": true,
	"MissingParameter.Authorization": true, "IncompleteSignature": true, "InvalidRegionId.NotFound": true,
}

// requestID returns an ID in the form of the cloud's: a UUID in upper case.
func requestID() string {
	var b [16]byte
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := strings.ToUpper(hex.EncodeToString(b[:]))
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
