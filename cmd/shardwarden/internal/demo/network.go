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
	wg   sync.WaitGroup
}

var errNetworkDown = errors.New("network is down")

func newNetwork(base http.RoundTripper) *network {
	return &network{base: base, cut: make(chan struct{}), down: make(chan struct{})}
}

// sever cuts the network.
func (n *network) sever() { n.once[0].Do(func() { close(n.cut) }) }

// close fails what hangs, and waits for calls whose answers were lost.
func (n *network) close() {
	n.once[1].Do(func() { close(n.down) })
	n.wg.Wait()
}

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

// RoundTrip is a call over HTTP.
func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := n.pass(r.Context()); err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	type answer struct {
		*http.Response
		error
	}
	ctx, cancel := context.WithCancel(r.Context())
	got := make(chan answer, 1)
	n.wg.Go(func() {
		resp, err := n.base.RoundTrip(r.WithContext(ctx))
		got <- answer{resp, err}
	})
	select {
	case a := <-got:
		if a.error != nil {
			cancel()
			return nil, a.error
		}
		a.Body = &cutBody{a.Body, n, ctx, cancel}
		return a.Response, nil
	case <-n.cut:
		// The service may have done what was asked; this worker never hears of it.
		err := n.pass(r.Context())
		cancel()
		if a := <-got; a.error == nil {
			a.Body.Close()
		}
		return nil, err
	}
}

// cutBody is the body of an answer; what has not been read by the time of the cut is lost.
type cutBody struct {
	io.ReadCloser
	network *network
	ctx     context.Context
	cancel  context.CancelFunc
}

func (b *cutBody) Read(p []byte) (int, error) {
	if err := b.network.pass(b.ctx); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}

func (b *cutBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}
