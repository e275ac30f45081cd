package host

import (
	"context"
	"time"

	"github.com/lbremedy/lbremedy/shared/connect"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Config says on which cluster, cloud and stream a host works.
type Config struct {
	connect.Config

	NATS      string // nats://host:port, several separated by commas
	NATSToken string
	NATSCreds string // file with a user's JWT and key
	NATSNKey  string // file with a user's seed
	NATSCA    string // file with the server's root certificates

	Who      string        // worker or cli, for the record
	Watch    time.Duration // how long a run watches for success; zero: 60 s
	Handlers int           // most runs at once; zero: no limit across the classes
}

// A Connection is what this process's runs share, and its local hands' clients.
type Connection struct {
	*engine.Env
	Clients *hand.Clients
	Assumed error // why the policy in force is unknown, and observe mode assumed; nil: it is known
}

// ConnectReads connects only to the cluster and the cloud: enough for engine.Look.
func ConnectReads(c Config) (*Connection, error) {
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

// Grace is how long runs may go on after a worker is asked to end: a run ends within two minutes. The chart gives the Pod 10 s more.
const Grace = 140 * time.Second

// Stream connects only to the stream.
func (c Config) Stream(ctx context.Context) (*stream.Stream, error) {
	return stream.Connect(ctx, c.stream())
}

func (c Config) stream() stream.Config {
	return stream.Config{
		URL: c.NATS, Token: c.NATSToken, Creds: c.NATSCreds, NKey: c.NATSNKey, CA: c.NATSCA,
		Name: "lbremedy " + c.Who, Handlers: c.Handlers, Grace: Grace, Log: c.Log,
	}
}
