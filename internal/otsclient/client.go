package otsclient

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/common"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/core"
)

// Config says how to reach an instance.
type Config struct {
	// Endpoint is the URL of the instance, "https://INSTANCE.REGION.ots.aliyuncs.com". Nothing follows the host but a port.
	Endpoint string
	Instance string
	// Credentials are asked for at every request, from several goroutines at once. nil: see FromEnvironment.
	Credentials common.CredentialsProvider
	// Transport carries the requests; nil: one of this client's own. It must not send a request twice.
	Transport http.RoundTripper
	// Timeout bounds each attempt of a call that names none. Default 10 s.
	Timeout time.Duration
}

// Client makes calls of one instance. It is safe for concurrent use, starts no goroutine and makes no call when it is made.
type Client struct {
	config Config
	bad    error     // what is wrong with the config; each call returns it
	idle   sync.Pool // of *line: a client of the SDK serves one call at a time, since the call's context goes through its transport
}

// New makes a client. What is wrong with the config each call says, as core.ErrInvalid.
func New(c Config) *Client {
	c.Endpoint = strings.TrimRight(c.Endpoint, "/") // the SDK joins with "/", and the service refuses "//GetRow"
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	if c.Credentials == nil {
		c.Credentials = FromEnvironment()
	}
	if c.Transport == nil {
		c.Transport = newTransport()
	}
	client := &Client{config: c, bad: c.check()}
	client.idle.New = func() any { return newLine(client.config) }
	return client
}

// newTransport has a connection for each call that wants one: renewals must not wait for readers. It does not inflate, so that checksums are
// those of what was sent.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     25 * time.Second, // the SDK's own
		DisableCompression:  true,
	}
}

func (c *Config) check() error {
	u, err := url.Parse(c.Endpoint)
	if err != nil {
		return fmt.Errorf("endpoint %q: %w: %w", c.Endpoint, err, core.ErrInvalid)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("endpoint %q: expected a URL like https://INSTANCE.REGION.ots.aliyuncs.com, with nothing behind the host: %w", c.Endpoint, core.ErrInvalid)
	case c.Instance == "" || strings.ContainsFunc(c.Instance, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("instance %q: expected the name of a Tablestore instance: %w", c.Instance, core.ErrInvalid)
	}
	return nil
}

// Instance is the name of the instance.
func (c *Client) Instance() string { return c.config.Instance }

// Endpoint is its URL.
func (c *Client) Endpoint() string { return c.config.Endpoint }

// CloseIdle closes the connections that no call uses, where the transport can. The client can be used again.
func (c *Client) CloseIdle() {
	if t, ok := c.config.Transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// FromEnvironment reads TABLESTORE_ACCESS_KEY_ID, TABLESTORE_ACCESS_KEY_SECRET and TABLESTORE_SESSION_TOKEN (may be unset) at each request, as the
// Java SDK 5 names them.
func FromEnvironment() common.CredentialsProvider { return environment{} }

type environment struct{}

func (environment) GetCredentials() common.Credentials {
	return &common.DefaultCredentials{
		AccessKeyID:     os.Getenv("TABLESTORE_ACCESS_KEY_ID"),
		AccessKeySecret: os.Getenv("TABLESTORE_ACCESS_KEY_SECRET"),
		SecurityToken:   os.Getenv("TABLESTORE_SESSION_TOKEN"),
	}
}

var errNoCredentials = errors.New("no credentials")

// credentials hands out what the provider gave when the call began, so that id, secret and token of a request belong together.
type credentials struct{ now common.Credentials }

func (c *credentials) GetCredentials() common.Credentials { return c.now }

// line is a client of the SDK with the transport its calls go through.
type line struct {
	sdk  *tablestore.TableStoreClient
	wire wire
	keys credentials
}

func newLine(c Config) *line {
	l := &line{wire: wire{next: c.Transport}, keys: credentials{&common.DefaultCredentials{}}}
	config := tablestore.NewDefaultTableStoreConfig()
	config.RetryTimes = 0 // a write is sent once, and no sleep is outside of the context
	config.HTTPTimeout.RequestTimeout = 0
	config.Transport = &l.wire
	l.sdk = tablestore.NewClientWithCredentialsProvider(c.Endpoint, c.Instance, &l.keys, config)
	return l
}
