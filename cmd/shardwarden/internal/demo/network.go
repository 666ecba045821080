package demo

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// network is one worker's way to the services. Once it is cut, nothing gets through in either direction and nothing says so: calls hang, and
// answers under way are lost. Everything else of the worker goes on, which is what makes it a zombie and not merely dead.
type network struct {
	base http.RoundTripper // the way there, for services that are called over HTTP
	cut  chan struct{}     // closed: nothing gets through
	down chan struct{}     // closed: hanging calls fail, so that the demo can end
	once [2]sync.Once
}

var errNetworkDown = errors.New("network is down")

func newNetwork(base http.RoundTripper) *network {
	return &network{base: base, cut: make(chan struct{}), down: make(chan struct{})}
}

// sever cuts the network.
func (n *network) sever() { n.once[0].Do(func() { close(n.cut) }) }

// close fails what hangs.
func (n *network) close() { n.once[1].Do(func() { close(n.down) }) }

// pass lets a call through, or hangs.
func (n *network) pass(ctx context.Context) error {
	select {
	case <-n.cut:
	default:
		return nil
	}
	select {
	case <-n.down:
		return errNetworkDown
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// RoundTrip is a call over HTTP. One that is under way at the cut may be carried out; this worker never gets to read the answer.
func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := n.pass(r.Context()); err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	answer, err := n.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = cutBody{answer.Body, n, r.Context()}
	return answer, nil
}

// cutBody is the body of an answer; what has not been read by the time of the cut is lost.
type cutBody struct {
	io.ReadCloser
	network *network
	ctx     context.Context
}

func (b cutBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if lost := b.network.pass(b.ctx); lost != nil {
		return 0, lost
	}
	return n, err
}
