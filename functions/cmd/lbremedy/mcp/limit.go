package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/semaphore"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
)

const (
	atOnce    = 8               // concurrent calls
	patience  = 2 * time.Minute // timeout of one call
	mostAsked = 256 << 10       // limit of a request in bytes
	mostText  = 8 << 10         // limit of one text of an answer in bytes
	mostList  = 100
	mostAll   = 32 << 10 // limit of all texts of an answer in bytes of JSON
)

type server struct {
	p     *cli.Program
	free  *semaphore.Weighted
	whole sync.Mutex // held by the one call that reads the whole account: it shares the account's API limits with the controller
}

// program returns the program for one call: in English, and without output into the protocol.
func (s *server) program() *cli.Program {
	own := *s.p.Reads(http.Header{"Accept-Language": {"en"}})
	own.In, own.Out, own.Err, own.Terminal = strings.NewReader(""), io.Discard, io.Discard, func(any) int { return 0 }
	own.Output = "wide" // reports include everything
	return &own
}

var (
	errBusy  = errors.New("too many calls are under way: wait for an answer before the next call")
	errLong  = fmt.Errorf("the call has taken %s and was ended: ask for less, such as fewer checks", patience)
	errWhole = errors.New("another call reads the whole cluster: wait for its answer before the next call")
)

// limit refuses calls beyond the limit, ends those that take too long, and converts errors of a call to answers.
func (s *server) limit(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if method != "tools/call" && method != "resources/read" {
			return next(ctx, method, req)
		}
		if !s.free.TryAcquire(1) {
			return nil, errBusy
		}
		defer s.free.Release(1)
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		result, err := next(ctx, method, req)
		if ctx.Err() == context.DeadlineExceeded {
			return nil, errLong
		}
		if call, ok := result.(*sdk.CallToolResult); ok && call != nil && call.IsError {
			var told failure
			for _, c := range call.Content {
				if text, ok := c.(*sdk.TextContent); ok {
					told.Error += text.Text
				}
			}
			call.StructuredContent, call.Content = nil, []sdk.Content{&sdk.TextContent{Text: written(told)}}
		}
		var refused *jsonrpc.Error // it quotes the call
		if errors.As(err, &refused) {
			err = &jsonrpc.Error{Code: refused.Code, Message: (&cutter{remaining: mostText}).text(refused.Message)}
		}
		return result, err
	}
}

// A failure is the data of a call that failed. It may quote texts of others.
type failure struct {
	Error string `json:"error"`
}

// written returns the JSON of an answer with this data.
func written[T any](data T) string {
	out := answered[T]{Data: data}
	out.Cut = bound(&out.Data)
	text, _ := json.Marshal(out) // of texts, numbers, lists and structs
	return string(text)
}

func said(err error) error { return errors.New(say.Of(err).String()) }

type cutter struct {
	remaining      int // bytes
	texts, entries int // number of cuts
}

// bound shortens a value through its pointer, and says what it has cut, or "".
func bound(value any) string {
	c := cutter{remaining: mostAll}
	c.value(reflect.ValueOf(value).Elem())
	if c.texts+c.entries == 0 {
		return ""
	}
	return fmt.Sprintf("The answer was too long: %d texts are cut (they end with …), and %d list entries are left out. Ask for less at once.", c.texts, c.entries)
}

func (c *cutter) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(c.text(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			c.value(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			c.value(v.Field(i))
		}
	case reflect.Slice:
		n := 0
		for ; n < min(v.Len(), mostList) && c.remaining > 0; n++ {
			c.value(v.Index(n))
		}
		if c.entries += v.Len() - n; v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0)) // JSON shows nil as null
		}
		v.SetLen(n)
	}
}

func (c *cutter) text(text string) string {
	text = strings.TrimSpace(command.Clean(event.Redact(strings.ToValidUTF8(text, "?"))))
	short, most := text, max(0, min(mostText, c.remaining))
	for size(short) > most {
		short = strings.ToValidUTF8(short[:len(short)*most/(size(short)+1)], "")
	}
	if c.remaining -= size(short); short != text {
		c.texts++
		short += "…"
	}
	return short
}

func size(text string) int {
	data, _ := json.Marshal(text) // of a string
	return len(data) - len(`""`)
}
