package tablestore

import (
	"net"
	"net/http"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/common"

	"github.com/shardwarden/shardwarden/internal/otsclient"
)

// Instance says where tables are.
type Instance struct {
	// Endpoint is a URL: https://INSTANCE.REGION.ots.aliyuncs.com, or that of an emulator.
	Endpoint string
	// Name is that of the instance.
	Name string
	// Credentials are asked at each request, from several goroutines at once, so they may change. nil: [EnvCredentials].
	Credentials common.CredentialsProvider
}

// EnvCredentials reads TABLESTORE_ACCESS_KEY_ID, TABLESTORE_ACCESS_KEY_SECRET and, for temporary ones, TABLESTORE_SESSION_TOKEN at each
// request, the names that the vendor's Java SDK uses.
func EnvCredentials() common.CredentialsProvider { return otsclient.FromEnvironment() }

// idleConns is enough for the reads that are under way at once: a poll a second must not dial.
const idleConns = 2 * readsAtOnce

func (i Instance) client(s *settings) *otsclient.Client {
	next := s.transport
	if next == nil {
		next = &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			MaxIdleConnsPerHost: idleConns,
			IdleConnTimeout:     25 * time.Second, // the SDK's own
			DisableCompression:  true,
		}
	}
	return otsclient.New(otsclient.Config{
		Endpoint: i.Endpoint, Instance: i.Name, Credentials: i.Credentials, Timeout: s.timeout, Transport: &dated{next: next, clock: &s.clock},
	})
}
