package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/auth"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/auth/credentials"
	sdkerrors "github.com/aliyun/alibaba-cloud-sdk-go/sdk/errors"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/responses"

	"github.com/lbremedy/lbremedy/test/sim"
)

const callTimeout = 20 * time.Second

// An openapi calls the simulated cloud with the SDK of the real controller. The SDK's client is not safe for concurrent use, so
// each call gets its own; they share connections.
type openapi struct {
	addr       string
	region     string
	credential auth.Credential
	transport  *http.Transport
	dry        *precheck // nil: calls are made
	first      bool      // errors have the text of the first generation's library
}

func newOpenAPI(addr, region string, c sim.Credentials) *openapi {
	o := &openapi{
		addr:       addr,
		region:     region,
		credential: credentials.NewAccessKeyCredential(c.AccessKeyID, c.Secret),
		transport:  &http.Transport{MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute},
	}
	if c.Token != "" {
		o.credential = credentials.NewStsTokenCredential(c.AccessKeyID, c.Secret, c.Token)
	}
	return o
}

// call adds the action and the code to an error, as the controller does for most calls.
func (o *openapi) call(ctx context.Context, req requests.AcsRequest, resp responses.AcsResponse) error {
	err := o.raw(ctx, req, resp)
	if refused, ok := errors.AsType[*sdkerrors.ServerError](err); ok && !o.first {
		return &apiError{action: req.GetActionName(), ServerError: refused}
	}
	return err
}

// raw returns the SDK's error unchanged, as the controller does for ECS, VPC and UntagResources: the Event then shows all of it.
func (o *openapi) raw(ctx context.Context, req requests.AcsRequest, resp responses.AcsResponse) error {
	if o.dry != nil {
		if instead, err := o.dry.instead(ctx, req); instead {
			return err
		}
	}
	config := sdk.NewConfig().WithScheme("HTTP").WithTimeout(callTimeout)
	config.Transport = carrier{ctx, o.transport}
	client := &sdk.Client{Domain: o.addr}
	if err := client.InitWithOptions(o.region, config, o.credential); err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	err := client.DoAction(req, resp)
	if refused, ok := errors.AsType[*sdkerrors.ServerError](err); o.first && ok {
		return &apiError{action: req.GetActionName(), ServerError: refused, first: true}
	}
	return err
}

type apiError struct {
	action string
	*sdkerrors.ServerError
	first bool
}

func (e *apiError) Error() string {
	if e.first {
		return fmt.Sprintf("Aliyun API Error: RequestId: %s Status Code: %d Code: %s Message: %s", e.RequestId(), e.HttpStatus(), e.ErrorCode(), e.Message())
	}
	return fmt.Sprintf("%s API: %s, ErrorCode: %s, RequestId: %s, Message: %s", sdkErrorMark, e.action, e.ErrorCode(), e.RequestId(), e.Message())
}

func hasCode(err error, code string) bool {
	var e *apiError
	return errors.As(err, &e) && e.ErrorCode() == code
}

// lastCall bounds a running call after the end: the cloud would execute an abandoned call later.
const lastCall = 2 * time.Second

// A carrier adds the context to requests of the SDK, which has none.
type carrier struct {
	ctx  context.Context
	next http.RoundTripper
}

func (c carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	// The request's own context has the SDK's time-out.
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(c.ctx, func() { time.AfterFunc(lastCall, cancel) })
	resp, err := c.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		stop()
		cancel()
		return nil, err
	}
	resp.Body = body{resp.Body, func() { stop(); cancel() }}
	return resp, nil
}

type body struct {
	io.ReadCloser
	done func()
}

func (b body) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}
