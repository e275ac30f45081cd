package host

import (
	"context"
	"os"
	"time"

	"github.com/lbremedy/lbremedy/shared/connect"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Config says which cluster, cloud and stream a host works on. The fields from NATS to NATSCA have an environment variable each, which
// FromEnv reads.
type Config struct {
	connect.Config

	NATS      string // LBREMEDY_NATS: nats://host:port, several with commas between
	NATSToken string // LBREMEDY_NATS_TOKEN
	NATSCreds string // LBREMEDY_NATS_CREDS: file with a user's JWT and key
	NATSNKey  string // LBREMEDY_NATS_NKEY: file with a user's seed
	NATSCA    string // LBREMEDY_NATS_CA: file with the server's root certificates

	Who      string        // worker or cli, for the journal
	Watch    time.Duration // how long a run watches for success; zero: 60 s
	Handlers int           // most runs at once; zero: no limit over the classes
}

// FromEnv returns the configuration that the environment gives.
func FromEnv() Config {
	return Config{
		Config: connect.FromEnv(),
		NATS:   os.Getenv("LBREMEDY_NATS"), NATSToken: os.Getenv("LBREMEDY_NATS_TOKEN"), NATSCreds: os.Getenv("LBREMEDY_NATS_CREDS"),
		NATSNKey: os.Getenv("LBREMEDY_NATS_NKEY"), NATSCA: os.Getenv("LBREMEDY_NATS_CA"),
	}
}

// A Connection is what runs of this process share, and what its hands, which are local, reach the cluster and the cloud with.
type Connection struct {
	*engine.Env
	Clients *hand.Clients
}

// Look connects to the cluster and the cloud alone: enough for engine.Look.
func Look(c Config) (*Connection, error) {
	clients, err := c.Clients(step.Decode)
	if err != nil {
		return nil, err
	}
	return &Connection{Clients: clients, Env: &engine.Env{
		Cluster: c.Cluster, Kube: clients.Kube, Hand: clients.Hand,
		Policy: func(context.Context) (remedy.Policy, error) { return remedy.Policy{Mode: remedy.Observe}, nil },
		Decode: step.Decode, Who: c.Who, Watch: c.Watch, Log: c.Log,
	}}, nil
}

// Connect connects to the cluster, the cloud and the stream. It observes until the caller sets a policy.
func Connect(ctx context.Context, c Config) (*Connection, error) {
	env, err := Look(c)
	if err != nil {
		return nil, err
	}
	s, err := c.Stream(ctx)
	if err != nil {
		return nil, err
	}
	env.Stream = s
	return env, nil
}

// Grace is how long runs in hand may go on when a worker is told to end: a run ends by two minutes. The chart gives the Pod
// ten seconds more.
const Grace = 140 * time.Second

// Stream connects to the stream alone.
func (c Config) Stream(ctx context.Context) (*stream.Stream, error) {
	return stream.Connect(ctx, c.stream())
}

func (c Config) stream() stream.Config {
	return stream.Config{
		URL: c.NATS, Token: c.NATSToken, Creds: c.NATSCreds, NKey: c.NATSNKey, CA: c.NATSCA,
		Name: "lbremedy " + c.Who, Handlers: c.Handlers, Grace: Grace, Log: c.Log,
	}
}
