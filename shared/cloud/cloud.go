// Package cloud reads and writes Alibaba Cloud, with types that contain only what remedies need. It alone imports alibaba-cloud-sdk-go, and
// only to sign requests. Begin with New, Reader and Writer.
//
//   - Each call makes its own SDK client, which is not safe for several goroutines; connections and rates are shared below it. Our transport
//     keeps the answer and gives the SDK an empty one, because the SDK panics on a numeric code, reads no errors of the container service,
//     retries writes, and turns a missing field into a zero. ProcessCommonRequest also takes no context and reads the whole answer without
//     a limit (sdk/client.go, sdk/responses/response.go of v1.63.107).
//   - A context ends a call at once.
//   - Unknown is not healthy: an answer that is empty or lacks a field on which decisions depend, and a list that does not add up, are errors.
//   - No error text contains an address with its query, a signature, a key or a token.
//   - Reads are tried up to three times where that helps: without it, brief throttling would restart a whole case. Writes are tried once;
//     their callers read again before they repeat them.
//
// Lists contain all pages and are sorted by ID.
package cloud

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/regex"
)

// A Config names the region and the cluster, and how to reach them.
type Config struct {
	// Region is the region's ID, such as "cn-hangzhou". Required.
	Region string
	// ClusterID is the ID of the ACK cluster that CS reads. Required.
	ClusterID string
	// Endpoint is a host:port for all products, such as a simulator; empty: the real endpoints. The Host header still names the real one.
	Endpoint string
	// Scheme is "HTTPS" or empty, or "HTTP", which is allowed only with a loopback Endpoint because requests carry tokens.
	Scheme string
	// Credentials returns the key that signs a call. Nil: DefaultChain.
	Credentials Credentials
	// VPC sends calls to the endpoints inside a VPC.
	VPC bool
	// Rate is the limit of calls a second to each product, with bursts of twice as many. 0: 200; negative: no limit.
	Rate float64
	// Recall is how long looks (see Look) share an answer, since many Services that fail at once ask the same. 0: they share none.
	Recall time.Duration
	// Meter is called for each request, retries included, perhaps concurrently. It may be nil.
	Meter func(Call)
}

// A Call is one request that was made, for metrics.
type Call struct {
	Product   string        // such as "slb"
	Action    string        // such as "DescribeLoadBalancers"
	Code      string        // that of the Error; empty for success
	Status    int           // of HTTP; 0 without an answer
	Duration  time.Duration // from sending to the whole answer
	Throttled bool          // the cloud refused it because of too many calls
	Date      time.Time     // when the cloud answered, by its clock, in seconds; zero if unknown
}

// A Reader reads from Alibaba Cloud and gives no access to a [Writer]. A process shares one, since it keeps connections and counts rates;
// its methods are safe for several goroutines. Each names the grant of shared/grant that it needs, and returns errors of type [*Error].
type Reader struct {
	SLB     SLB     // classic load balancers
	NLB     NLB     // network load balancers
	VPC     VPC     // vSwitches and elastic IP addresses
	ECS     ECS     // network interfaces
	CS      CS      // the ACK cluster
	RAM     RAM     // roles and policies
	STS     STS     // the caller's identity
	Quotas  Quotas  // limits of the account
	Billing Billing // balance of the account
	Tickets Tickets // of Alibaba Cloud's support

	client *client
}

// A Writer writes to Alibaba Cloud. It makes each request once. After ErrUnavailable the write may have happened: read before you repeat it.
type Writer struct {
	SLB     SLBWriter
	NLB     NLBWriter
	RAM     RAMWriter
	Quotas  QuotaWriter
	Tickets TicketWriter
}

// OnWrite returns a Writer that calls tell for each request when it is answered or given up. It shares the rest with w.
func (w *Writer) OnWrite(tell func(event.Call)) *Writer {
	return w.with(func(k *client) { k.onWrite = tell })
}

// Dry returns a Writer that checks its arguments and sends nothing: these APIs have no dry run.
func (w *Writer) Dry() *Writer {
	return w.with(func(k *client) { k.dry = true })
}

func (w *Writer) with(change func(*client)) *Writer {
	if w == nil {
		return nil
	}
	k := *w.SLB.c
	change(&k)
	return k.writer()
}

var (
	regions  = regex.New(`^[a-z]{2}[a-z0-9-]{1,62}$`)
	clusters = regex.New(`^[A-Za-z0-9_-]{1,64}$`)
	hosts    = regex.New(`^[A-Za-z0-9._:\[\]-]+$`)
)

// New returns a Reader and a Writer with the same connections and rates, without a request. The error has a sentence for each mistake in c.
func New(c Config) (*Reader, *Writer, error) {
	if err := c.validate(); err != nil {
		return nil, nil, err
	}
	k := &client{
		Config:   c,
		products: products(),
		base:     connections(),
		limits:   limits(products(), c.Rate),
		patience: tryTimeout,
		pause:    pause,
		recent:   newMemory(c.Recall, recalled),
		sharing:  newSharing(),
	}
	if k.Credentials == nil {
		k.Credentials = DefaultChain()
	}
	return k.reader(), k.writer(), nil
}

func (c *client) writer() *Writer {
	return &Writer{SLB: SLBWriter{c}, NLB: NLBWriter{c}, RAM: RAMWriter{c}, Quotas: QuotaWriter{c}, Tickets: TicketWriter{c}}
}

func limits(of map[string]product, perSecond float64) map[string]*rate.Limiter {
	all := map[string]*rate.Limiter{}
	for name := range of {
		all[name] = limiter(perSecond)
	}
	return all
}

func (c *client) reader() *Reader {
	return &Reader{
		SLB:     SLB{c},
		NLB:     NLB{c},
		VPC:     VPC{c},
		ECS:     ECS{c},
		CS:      CS{c},
		RAM:     RAM{c},
		STS:     STS{c},
		Quotas:  Quotas{c},
		Billing: Billing{c},
		Tickets: Tickets{c},
		client:  c,
	}
}

// Once returns a Reader that makes each request once and reuses its answer, but not an error, for good. It shares the rest with r.
func (r *Reader) Once() *Reader {
	k := *r.client
	k.own = newMemory(0, 0)
	return k.reader()
}

// Session returns a Reader like Once, for one of many looks. Looks share recent answers about the cluster (see Config.Recall); if there are
// many, also the vSwitches of the VPC and a list of the region's load balancers.
func (r *Reader) Session() *Reader {
	once := r.Once()
	if r.client.Recall > 0 {
		once.client.session = &session{shares: map[string]bool{}}
	}
	return once
}

// Limited returns a Reader for many calls: at most this many a second to each product, and fewer to NLB, which allows 20 a second of each of
// its lists (https://www.alibabacloud.com/help/en/slb/network-load-balancer/developer-reference/api-nlb-2022-04-30-quota). A throttled call
// halves the product's rate and is retried for more than a minute, unless the product has refused everything for longer: CLB counts most
// reads by the minute, 3,000 of each
// (https://www.alibabacloud.com/help/en/slb/classic-load-balancer/developer-reference/api-slb-2014-05-15-quota). It shares the rest with r.
func (r *Reader) Limited(perSecond float64) *Reader {
	k := *r.client
	k.limits = limits(k.products, perSecond)
	if lists := rate.NewLimiter(15, 5); k.limits["nlb"].Limit() > lists.Limit() { // leave some to the controller
		k.limits["nlb"] = lists
	}
	k.easing = &easing{at: map[string]time.Time{}, since: map[string]time.Time{}}
	return k.reader()
}

// Region returns the ID of the region.
func (r *Reader) Region() string { return r.client.Region }

// Close closes idle connections, also those of the Writer. Running calls end as usual.
func (r *Reader) Close() { r.client.base.CloseIdleConnections() }

func (c Config) validate() error {
	var mistakes []error
	bad := func(format string, args ...any) { mistakes = append(mistakes, fmt.Errorf(format, args...)) }
	switch {
	case c.Region == "":
		bad("no region is set: name the region of the cluster, such as cn-hangzhou")
	case !regions().MatchString(c.Region):
		bad("region %q is not a region ID such as cn-hangzhou", c.Region)
	}
	switch {
	case c.ClusterID == "":
		bad("no cluster ID is set: name the ID of the ACK cluster")
	case !clusters().MatchString(c.ClusterID):
		bad("cluster ID %q must be 1 to 64 letters, digits, _ and -", c.ClusterID)
	}
	if c.Endpoint != "" && !hostPort(c.Endpoint) {
		bad("endpoint %q must be host:port, such as 127.0.0.1:8080", c.Endpoint)
	}
	switch c.Scheme {
	case "", "HTTPS":
	case "HTTP":
		if !loopback(c.Endpoint) {
			bad("scheme HTTP would send keys in the clear: it is for an endpoint on loopback, such as 127.0.0.1:8080")
		}
	default:
		bad("scheme %q must be HTTPS, or HTTP for an endpoint on loopback", c.Scheme)
	}
	// The SDK reads this when the program starts, and prints whole requests.
	if slices.Contains(strings.Split(os.Getenv("DEBUG"), ","), "sdk") {
		bad("the environment variable DEBUG has sdk in it, which prints keys and signatures: take it out")
	}
	return errors.Join(mistakes...)
}

func hostPort(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" || !hosts().MatchString(s) {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

func loopback(endpoint string) bool {
	host, _, err := net.SplitHostPort(endpoint)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func limiter(perSecond float64) *rate.Limiter {
	switch {
	case perSecond < 0:
		return rate.NewLimiter(rate.Inf, 0)
	case perSecond == 0:
		perSecond = 200
	}
	return rate.NewLimiter(rate.Limit(perSecond), max(1, int(2*perSecond)))
}

// connections returns a pool that closes idle ones early: a frozen function wakes with dead ones, and a write that fails on one may have happened.
func connections() *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       15 * time.Second,
		TLSHandshakeTimeout:   5 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
}

// Credentials returns the key for a call. It is called for each request, concurrently, may choose by ctx, and caches what is expensive to get.
type Credentials func(ctx context.Context) (Key, error)
