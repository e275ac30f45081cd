package nats_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	accounts "github.com/lbremedy/lbremedy/infra/nats"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/ledger"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/nats"
)

const (
	class = "tag-missing"
	mine  = "c1"
	other = "C1-b_2" // another cluster of the same account
	uid   = "7f0c1c52-0f3c-4a8e-9d0e-0a1b2c3d4e5f"
)

var streams = []string{stream.Failed, stream.Cases, stream.Dead, "KV_lbremedy"}

// A site is a NATS that two clusters share, with a message in each stream that a request can ask for.
type site struct {
	*testing.T
	*nats.Installation
	engine  *stream.Stream
	js      jetstream.JetStream // the engine's
	pending jetstream.Msg       // delivered to the engine, but not acknowledged
}

func set(t *testing.T, conf string) *site {
	t.Helper()
	s := &site{T: t, Installation: nats.InstallWith(t, conf, mine, other)}
	s.engine = s.As(accounts.Engine)
	if _, err := s.engine.Setup(t.Context(), []string{class}, stream.Settings{Clusters: []string{mine, other}}); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.js, err = jetstream.New(s.Plain(accounts.Engine)); err != nil {
		t.Fatal(err)
	}
	for _, subject := range subjects() {
		for _, data := range []string{"+ACK", "+TERM", "{}"} { // streams that keep one message keep the last
			if _, err := s.js.Publish(t.Context(), subject, []byte(data)); err != nil {
				t.Fatalf("%s: %v", subject, err)
			}
		}
	}
	c, err := s.js.Consumer(t.Context(), stream.Failed, stream.ConsumerOf(other, class))
	if err != nil {
		t.Fatal(err)
	}
	if s.pending, err = c.Next(); err != nil {
		t.Fatal(err)
	}
	return s
}

func subjects() []string {
	var all []string
	for _, cluster := range []string{mine, other} {
		all = append(all, event.FailedSubject(cluster, class, uid), event.CaseSubject(cluster, uid, class), event.KeptSubject(cluster, uid, class),
			"lbremedy.dead.failed."+cluster+"."+class+"."+uid, "lbremedy.dead.exporter."+cluster)
		for _, key := range []string{"policy." + cluster, "control." + cluster, "budget." + cluster, event.StateKey(cluster, uid), "engine." + cluster + ".e1",
			"progress." + cluster, "ledger." + cluster + ".e1", event.CountKey(cluster)} {
			all = append(all, "$KV.lbremedy."+key)
		}
	}
	return append(all, "$KV.lbremedy.policy", "$KV.lbremedy.control", "$KV.lbremedy.claim.target.slb/lb-1")
}

// state returns what users may not change, comparably: messages with positions, consumers' progress, and settings, without the subjects in own.
func (s *site) state(own []string) map[string]string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	all := map[string]string{}
	names := s.js.StreamNames(ctx)
	for name := range names.Name() {
		of, err := s.js.Stream(ctx, name)
		s.must(err)
		info := of.CachedInfo()
		settings, err := json.Marshal(info.Config)
		s.must(err)
		all[name] = string(settings)
		s.must(s.engine.Each(ctx, name, ">", time.Time{}, func(m stream.Message) error {
			if !slices.ContainsFunc(own, func(filter string) bool { return matches(filter, m.Subject) }) {
				all[fmt.Sprint(name, " ", m.Sequence)] = m.Subject + " " + string(m.Data)
			}
			return nil
		}))
		consumers := of.ListConsumers(ctx)
		for c := range consumers.Info() {
			all[name+" "+c.Name] = fmt.Sprint(c.AckFloor.Stream, c.NumAckPending, c.NumRedelivered, c.Delivered.Stream, c.Config.FilterSubject)
		}
		s.must(consumers.Err())
	}
	s.must(names.Err())
	return all
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func matches(filter, subject string) bool {
	want, got := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, token := range want {
		if token == ">" {
			return len(got) > i
		}
		if i >= len(got) || token != "*" && token != got[i] {
			return false
		}
	}
	return len(want) == len(got)
}

func (s *site) targets() []string {
	all := append(subjects(), s.pending.Reply(), "$JS.API.STREAM.PURGE.CASES", "$JS.API.STREAM.DELETE.FAILED", "$JS.API.STREAM.CREATE.X",
		"$JS.API.CONSUMER.DELETE.FAILED."+stream.ConsumerOf(other, class), "$JS.API.CONSUMER.MSG.NEXT.FAILED."+stream.ConsumerOf(other, class),
		"$JS.FC.FAILED.x.y")
	return append(all, "_R_."+uid, "_GR_.x.y."+event.FailedSubject(other, class, uid))
}

type request struct {
	subject string
	data    []byte
}

func requests(services []stream.Service) []request {
	var all []request
	for _, of := range services {
		var to []string
		switch {
		case strings.HasPrefix(of.Subject, "$JS.API.CONSUMER.INFO."):
			to = []string{strings.TrimSuffix(of.Subject, "*") + stream.ConsumerOf(mine, class), strings.TrimSuffix(of.Subject, "*") + stream.ConsumerOf(other, class)}
		case strings.HasSuffix(of.Subject, ".>"):
			for _, subject := range subjects() {
				to = append(to, strings.TrimSuffix(of.Subject, ">")+subject)
			}
		case strings.Contains(of.Subject, "*"):
			parts := strings.Split(of.Subject, ".")
			for i, literal := len(parts)-1, []string{uid, class}; i >= 0 && parts[i] == "*"; i-- {
				parts[i], literal = literal[0], literal[1:]
			}
			to = []string{strings.Join(parts, "."), of.Subject} // a filter may be requested too
			if strings.HasPrefix(of.Subject, "$JS.API.DIRECT.") && strings.Contains(of.Subject, "ledger") {
				to[0] = strings.TrimSuffix(of.Subject, "*") + "e1"
			}
		default:
			to = []string{of.Subject}
		}
		bodies := []string{"", "+TERM"}
		if of.Many {
			bodies = append(bodies, `{"seq":1}`, `{"seq":2,"batch":5}`, `{"multi_last":["lbremedy.>","$KV.>"]}`,
				`{"last_by_subj":"$KV.lbremedy.progress.`+mine+`"}`, `{"last_by_subj":"`+event.FailedSubject(mine, class, uid)+`"}`)
		}
		for _, subject := range to {
			for _, body := range bodies {
				all = append(all, request{subject, []byte(body)})
			}
		}
	}
	return all
}

func (s *site) settle(conn *natsgo.Conn) {
	s.Helper()
	s.must(conn.FlushTimeout(time.Minute))
	for range 2 { // a stored answer is a message of its own, behind which the second request waits
		for _, name := range streams {
			_, err := s.js.Stream(s.Context(), name)
			s.must(err)
			_, err = s.engine.Last(s.Context(), name, ">")
			s.must(err)
		}
		for _, subject := range []string{
			"lbremedy.dead.settled", "$KV.lbremedy.settled", event.CaseSubject("settled", uid, class), event.FailedSubject("settled", class, uid),
		} {
			_, err := s.js.Publish(s.Context(), subject, nil)
			s.must(err)
		}
	}
}

func unsettled(state map[string]string) map[string]string {
	maps.DeleteFunc(state, func(_, what string) bool { return strings.Contains(what, "settled") })
	return state
}

func differences(before, after map[string]string) []string {
	var all []string
	for k, v := range after {
		if before[k] != v {
			all = append(all, fmt.Sprintf("%s is %q, and was %q", k, v, before[k]))
		}
	}
	for k, v := range before {
		if _, ok := after[k]; !ok {
			all = append(all, fmt.Sprintf("%s is gone, and was %q", k, v))
		}
	}
	slices.Sort(all)
	return all
}

type part struct {
	user     string
	services []stream.Service
	own      []string // subjects that it may store
}

func parts() []part {
	own := func(services []stream.Service) []string {
		var all []string
		for _, s := range services {
			if !strings.HasPrefix(s.Subject, "$JS.") {
				all = append(all, s.Subject)
			}
		}
		return all
	}
	exporter, console := stream.ForExporter(mine), stream.ForConsole()
	return []part{{accounts.Exporter(mine), exporter, own(exporter)}, {accounts.Console, console, own(console)}}
}

// attack sends each request with each target as the reply subject, by a client and a bare connection, and returns the forbidden changes.
func (s *site) attack(p part) []string {
	s.Helper()
	before := s.state(p.own)
	conn := s.Plain(p.user)
	for _, r := range requests(p.services) {
		for _, reply := range s.targets() {
			s.must(conn.PublishMsg(&natsgo.Msg{Subject: r.subject, Reply: reply, Data: r.data}))
		}
	}
	s.settle(conn)
	for _, subject := range s.targets() {
		if slices.ContainsFunc(p.own, func(filter string) bool { return matches(filter, subject) }) {
			continue
		}
		s.must(conn.PublishMsg(&natsgo.Msg{Subject: subject, Reply: conn.NewInbox(), Data: []byte("+TERM")}))
	}
	s.settle(conn)
	bare := s.bare(p.user)
	for _, r := range requests(p.services) {
		for _, header := range headers() {
			bare.send(r.subject, event.FailedSubject(other, class, uid), header, r.data)
		}
	}
	bare.flush()
	s.settle(conn)
	return differences(before, unsettled(s.state(p.own)))
}

// headers returns header blocks that might make the server send something elsewhere, or store it differently.
func headers() []string {
	var all []string
	target := event.FailedSubject(other, class, uid)
	for _, fields := range [][]string{
		{"Nats-Trace-Dest: " + target}, {"Nats-Trace-Dest: " + target, "Nats-Trace-Only: true"}, {"Nats-Trace-Dest: $KV.lbremedy.control"},
		{`Nats-Request-Info: {"acc":"LBREMEDY","svc":"LBREMEDY","user":"x","reply":"` + target + `"}`},
		{`Nats-Request-Info: {"acc":"LBREMEDY"}`, `Nats-Request-Info: {"acc":"SYSTEM","svc":"LBREMEDY"}`},
		{"Nats-Rollup: all"}, {"Nats-Rollup: sub"}, {"Nats-Schedule: @every 1s", "Nats-Schedule-Target: " + target},
		{"Nats-Batch-Id: x", "Nats-Batch-Sequence: 1", "Nats-Batch-Commit: 1"}, {"Nats-Subject: " + target, "Nats-Sequence: 1"}, {"Nats-TTL: 1s"},
		{"Nats-Expected-Last-Subject-Sequence: 0", "Nats-Expected-Last-Subject-Sequence-Subject: " + target}, {"Status: 503"},
	} {
		all = append(all, "NATS/1.0\r\n"+strings.Join(fields, "\r\n")+"\r\n\r\n")
	}
	return append(all, "NATS/1.0 503\r\n\r\n")
}

type wire struct {
	*site
	conn  net.Conn
	lines *bufio.Reader
}

func (s *site) bare(user string) *wire {
	s.Helper()
	at, err := url.Parse(s.URL)
	s.must(err)
	conn, err := net.Dial("tcp", at.Host)
	s.must(err)
	s.Cleanup(func() { _ = conn.Close() })
	w := &wire{s, conn, bufio.NewReader(conn)}
	line, err := w.lines.ReadString('\n')
	s.must(err)
	var info struct{ Nonce string }
	s.must(json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info))
	seed, err := os.ReadFile(s.Seed(user))
	s.must(err)
	pair, err := nkeys.FromSeed(seed)
	s.must(err)
	public, err := pair.PublicKey()
	s.must(err)
	signed, err := pair.Sign([]byte(info.Nonce))
	s.must(err)
	_, err = fmt.Fprintf(conn, `CONNECT {"headers":true,"no_responders":true,"echo":true,"protocol":1,"nkey":%q,"sig":%q}`+"\r\n", public,
		base64.RawURLEncoding.EncodeToString(signed))
	s.must(err)
	w.flush()
	return w
}

func (w *wire) send(subject, reply, header string, data []byte) {
	w.Helper()
	_, err := fmt.Fprintf(w.conn, "HPUB %s %s %d %d\r\n%s%s\r\n", subject, reply, len(header), len(header)+len(data), header, data)
	w.must(err)
}

func (w *wire) flush() {
	w.Helper()
	_, err := io.WriteString(w.conn, "PING\r\n")
	w.must(err)
	w.must(w.conn.SetReadDeadline(time.Now().Add(time.Minute)))
	for {
		line, err := w.lines.ReadString('\n')
		w.must(err)
		if strings.HasPrefix(line, "PONG") {
			return
		}
	}
}

// For any message of an exporter or a console, with any reply subject, nothing changes except what an exporter may publish for its own cluster.
func TestNoAnswerIsStored(t *testing.T) {
	for _, p := range parts() {
		t.Run(p.user, func(t *testing.T) {
			s := set(t, string(accounts.Accounts(mine, other)))
			for _, d := range s.attack(p) {
				t.Error(d)
			}
			if _, err := s.As(p.user).Last(t.Context(), stream.Failed, event.FailedSubject(mine, class, uid)); err != nil {
				t.Errorf("it can't read what it may: %v", err)
			}
		})
	}
}

// Permissions alone do not restrict a user of the engine's account: TestNoAnswerIsStored would detect it.
func TestPermissionsAlone(t *testing.T) {
	for _, p := range parts() {
		t.Run(p.user, func(t *testing.T) {
			var may []string
			for _, s := range p.services {
				may = append(may, fmt.Sprintf("%q", s.Subject))
			}
			conf := "include \"keys.conf\"\naccounts {\n"
			for i, user := range accounts.Users(mine, other) {
				switch user {
				case accounts.Engine:
					conf += fmt.Sprintf("  LBREMEDY {jetstream: enabled, users: [{nkey: $%s}, {nkey: $%s, permissions: {publish: {allow: [%s]}}}]}\n",
						accounts.Key(user), accounts.Key(p.user), strings.Join(may, ", "))
				case p.user:
				default:
					conf += fmt.Sprintf("  OTHER%d {users: [{nkey: $%s}]}\n", i, accounts.Key(user))
				}
			}
			conf += "}\n"
			if s := set(t, conf); len(s.attack(p)) == 0 {
				t.Error("nothing is stored: what TestNoAnswerIsStored sends is harmless")
			}
		})
	}
}

func TestNothingIsOverheard(t *testing.T) {
	s := set(t, string(accounts.Accounts(mine, other)))
	var heard []*natsgo.Subscription
	for _, p := range parts() {
		conn := s.Plain(p.user)
		for _, filter := range []string{">", "$JS.>", "$KV.>", "lbremedy.>", "_R_.>", "_INBOX.>"} {
			sub, err := conn.SubscribeSync(filter)
			s.must(err)
			heard = append(heard, sub)
		}
		s.must(conn.Flush())
	}
	neighbour := s.As(accounts.Exporter(other))
	s.must(publish(neighbour, other)(t.Context()))
	s.must(neighbour.Put(t.Context(), event.ProgressKey(other), []byte("17")))
	_, err := s.engine.AppendRecord(t.Context(), other, uid+"1", class, "1", nil, []byte("{}"), 0)
	s.must(err)
	s.must(s.engine.Put(t.Context(), "policy."+mine, []byte("{}")))
	s.must(publish(s.engine, mine)(t.Context()))
	for _, sub := range heard {
		if m, err := sub.NextMsg(50 * time.Millisecond); err == nil {
			t.Errorf("%s: heard %s", sub.Subject, m.Subject)
		}
	}
}

func publish(s *stream.Stream, cluster string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, _, err := s.PublishNewer(ctx, event.FailedSubject(cluster, class, uid), time.Now().String(), nil, []byte("{}"), func(stream.Message) bool { return true })
		return err
	}
}

func tails(s *stream.Stream) func(context.Context) error {
	return func(ctx context.Context) error {
		read := errors.New("it was read")
		if err := s.Tail(ctx, stream.Cases, event.CaseSubjects, 0, func(stream.Message) error { return read }); err != read {
			return cmp.Or(err, ctx.Err())
		}
		return nil
	}
}

func works(user string, s *stream.Stream) map[string]func(context.Context) error {
	if user == accounts.Console {
		return map[string]func(context.Context) error{
			"counts what waits": func(ctx context.Context) error { _, err := s.Queues(ctx, mine); return err },
			"reads the ledger": func(ctx context.Context) error {
				_, err := ledger.Draw(ctx, s, mine, time.Now(), ledger.Late)
				return err
			},
			"measures":    func(ctx context.Context) error { _, err := s.Fills(ctx); return err },
			"reads keys":  func(ctx context.Context) error { _, err := s.Entries(ctx, ">"); return err },
			"reads a key": func(ctx context.Context) error { _, err := s.Get(ctx, "policy"); return err },
			"reads a failure": func(ctx context.Context) error {
				_, err := s.Last(ctx, stream.Failed, event.FailedSubject(mine, class, uid))
				return err
			},
			"reads a record":      func(ctx context.Context) error { _, err := s.Last(ctx, stream.Cases, event.CaseSubjects); return err },
			"follows the journal": tails(s),
			"reads a letter":      func(ctx context.Context) error { _, err := s.Last(ctx, stream.Dead, stream.DeadSubjects); return err },
			"reads all": func(ctx context.Context) error {
				for _, name := range streams {
					n := 0
					if err := s.Each(ctx, name, ">", time.Time{}, func(stream.Message) error { n++; return nil }); err != nil || n < 2 {
						return fmt.Errorf("read %d of %s: %w", n, name, errors.Join(err, errors.New("that is not all")))
					}
				}
				return nil
			},
			"reads the last of many": func(ctx context.Context) error {
				many, err := s.Lasts(ctx, stream.Failed, event.FailedSubject(mine, "*", uid), event.FailedSubject(other, "*", uid))
				if err == nil && len(many) != 2 {
					err = fmt.Errorf("read %d", len(many))
				}
				return err
			},
			"checks the setup": setup(s),
		}
	}
	return map[string]func(context.Context) error{
		"checks the setup": setup(s),
		"publishes":        publish(s, mine),
		"sends a letter": func(ctx context.Context) error {
			return s.Dead(ctx, "it is a test", "exporter."+mine, nil, []byte("x"))
		},
		"keeps its progress": func(ctx context.Context) error { return s.Put(ctx, event.ProgressKey(mine), []byte("17")) },
		"reads its progress": func(ctx context.Context) error {
			if _, err := s.Get(ctx, event.ProgressKey(mine)); !errors.Is(err, stream.ErrNotFound) { // it may have expired
				return err
			}
			return nil
		},
		"forgets its progress": func(ctx context.Context) error { return s.Delete(ctx, event.ProgressKey(mine)) },
		"keeps its page": func(ctx context.Context) error {
			return (ledger.Page{Exporter: "e1", At: time.Now()}).Save(ctx, s, mine)
		},
		"reads its page":         func(ctx context.Context) error { _, err := s.Entry(ctx, "ledger."+mine+".e1"); return err },
		"counts the Services":    func(ctx context.Context) error { return s.Put(ctx, event.CountKey(mine), []byte("{}")) },
		"reads how many it were": func(ctx context.Context) error { _, err := s.Entry(ctx, event.CountKey(mine)); return err },
	}
}

func setup(s *stream.Stream) func(context.Context) error {
	return func(ctx context.Context) error {
		changed, err := s.Setup(ctx, []string{class}, stream.Settings{Clusters: []string{mine}})
		if err == nil && len(changed) > 0 {
			err = fmt.Errorf("it changed %v", changed)
		}
		return err
	}
}

// Each part works with its services, and needs each of them: without any one, a task fails.
func TestServicesNeeded(t *testing.T) {
	for _, p := range parts() {
		for i := range len(p.services) + 1 {
			name, less := "with all", p.services
			if i < len(p.services) {
				name, less = "without "+p.services[i].Subject, slices.Delete(slices.Clone(p.services), i, i+1)
			}
			t.Run(p.user+" "+name, func(t *testing.T) {
				t.Parallel()
				s := set(t, string(accounts.With(p.user, less, mine, other)))
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				failed := 0
				for doing, do := range works(p.user, s.As(p.user)) {
					in := ctx
					if i < len(p.services) {
						var end context.CancelFunc
						in, end = context.WithTimeout(ctx, 700*time.Millisecond) // a refused request has no answer
						defer end()
					}
					err := do(in)
					if err != nil {
						failed++
					}
					if err != nil && i == len(p.services) {
						t.Errorf("it %s: %v", doing, err)
					}
				}
				if i < len(p.services) && failed == 0 {
					t.Error("nothing fails: it is not needed")
				}
			})
		}
	}
}

func TestRefused(t *testing.T) {
	s := set(t, string(accounts.Accounts(mine, other)))
	all := map[string]func(context.Context) error{}
	for _, p := range parts() {
		c := s.As(p.user)
		js, err := jetstream.New(s.Plain(p.user))
		s.must(err)
		for doing, do := range map[string]func(context.Context) error{
			"publishes a failure of another cluster": publish(c, other),
			"writes a record": func(ctx context.Context) error {
				_, err := c.AppendRecord(ctx, mine, uid+"2", class, "1", nil, []byte("{}"), 0)
				return err
			},
			"writes a snapshot": func(ctx context.Context) error { return c.Snapshot(ctx, mine, uid, class, nil, []byte("{}")) },
			"says that a failure is dead": func(ctx context.Context) error {
				return c.Dead(ctx, "it is a test", event.FailedSubject(mine, class, uid), nil, []byte("x"))
			},
			"forgets another cluster's progress": func(ctx context.Context) error { return c.Delete(ctx, event.ProgressKey(other)) },
			"removes a letter":                   func(ctx context.Context) error { _, err := c.Remove(ctx, stream.Dead, 1); return err },
			"consumes": func(ctx context.Context) error {
				got := false
				err := c.Consume(ctx, mine, class, 1, func(context.Context, stream.Message) stream.Reply { got = true; return stream.Reply{} })
				if err == nil && !got {
					err = errors.New("nothing came")
				}
				return err
			},
			"follows the journal": func(ctx context.Context) error { _, err := c.SetupFollower(ctx, "x", mine); return err },
			"makes a consumer": func(ctx context.Context) error {
				_, err := js.CreateConsumer(ctx, stream.Failed, jetstream.ConsumerConfig{Name: "x", DeliverSubject: "$KV.lbremedy.control"})
				return err
			},
			"changes a stream": func(ctx context.Context) error {
				_, err := js.UpdateStream(ctx, jetstream.StreamConfig{Name: stream.Cases, Subjects: []string{"x"}})
				return err
			},
			"makes a stream": func(ctx context.Context) error {
				_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "X", Subjects: []string{"x"}})
				return err
			},
			"removes a stream": func(ctx context.Context) error { return js.DeleteStream(ctx, stream.Cases) },
			"removes a consumer": func(ctx context.Context) error {
				return js.DeleteConsumer(ctx, stream.Failed, stream.ConsumerOf(mine, class))
			},
			"copies the journal": func(ctx context.Context) error { return nats.Backup(ctx, s.URL, stream.Cases, key(s, p.user)) },
			"reads in another way": func(ctx context.Context) error {
				return ask(ctx, s, p.user, "$JS.API.STREAM.MSG.GET.CASES", `{"seq":1}`)
			},
			"asks which there are": func(ctx context.Context) error { return ask(ctx, s, p.user, "$JS.API.STREAM.NAMES", "") },
			"empties a stream":     func(ctx context.Context) error { return ask(ctx, s, p.user, "$JS.API.STREAM.PURGE.CASES", "") },
			"steps a leader down": func(ctx context.Context) error {
				return ask(ctx, s, p.user, "$JS.API.STREAM.LEADER.STEPDOWN.CASES", "")
			},
			"asks the server's own": func(ctx context.Context) error { return ask(ctx, s, p.user, "$SYS.REQ.SERVER.PING", "") },
		} {
			all[p.user+" "+doing] = do
		}
		for _, of := range []string{
			"policy", "policy." + mine, "control", "control." + mine, event.StateKey(mine, uid), "engine." + mine + ".e1",
			"progress." + other, "ledger." + other + ".e1", event.CountKey(other)} {
			all[p.user+" writes "+of] = func(ctx context.Context) error { return c.Put(ctx, of, []byte("{}")) }
		}
	}
	exporter := s.As(accounts.Exporter(mine))
	for doing, of := range map[string][2]string{
		"another cluster's failures": {stream.Failed, event.FailedSubject(other, class, uid)}, "all failures": {stream.Failed, event.FailedSubjects},
		"the journal": {stream.Cases, event.CaseSubjects}, "another cluster's progress": {"KV_lbremedy", "$KV.lbremedy.progress." + other},
		"all keys": {"KV_lbremedy", "$KV.lbremedy.>"}, "the policy": {"KV_lbremedy", "$KV.lbremedy.policy"},
	} {
		all["exporter reads "+doing] = func(ctx context.Context) error { _, err := exporter.Last(ctx, of[0], of[1]); return err }
	}
	all["exporter tails the journal"] = tails(exporter)
	console := s.As(accounts.Console)
	all["console publishes a failure"] = publish(console, mine)
	all["console keeps a progress"] = func(ctx context.Context) error { return console.Put(ctx, event.ProgressKey(mine), []byte("17")) }
	before := s.state(nil)
	nats.Refused(t, all)
	s.settle(s.Plain(accounts.Engine))
	for _, d := range differences(before, unsettled(s.state(nil))) {
		t.Error(d)
	}
	if _, err := stream.Connect(t.Context(), stream.Config{URL: s.URL}); err == nil {
		t.Error("a client without a key was let in")
	}
}

func key(s *site, user string) natsgo.Option {
	s.Helper()
	option, err := natsgo.NkeyOptionFromSeed(s.Seed(user))
	s.must(err)
	return option
}

func ask(ctx context.Context, s *site, user, subject, data string) error {
	conn, err := natsgo.Connect(s.URL, key(s, user))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.RequestWithContext(ctx, subject, []byte(data))
	return err
}

func TestTrusted(t *testing.T) {
	s := set(t, string(accounts.Accounts(mine, other)))
	operator := s.As(accounts.Operator)
	s.must(operator.Put(t.Context(), "control", []byte("{}")))
	if ok, err := operator.Remove(t.Context(), stream.Dead, 1); err != nil || !ok {
		t.Errorf("remove a letter: %v, %v", ok, err)
	}
	s.must(nats.Backup(t.Context(), s.URL, stream.Cases, key(s, accounts.Operator)))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := operator.Consume(ctx, mine, class, 1, func(context.Context, stream.Message) stream.Reply { cancel(); return stream.Reply{} })
	if err != nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("consume: %v", err)
	}
}
