package kinesis

import (
	"context"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// credentials tells apart "there are none" from "they could not be renewed just now": the first is final, the second passes.
type credentials struct {
	aws.CredentialsProvider
	had atomic.Bool
}

// credentialsError is a failure to get credentials, as opposed to a call that was refused.
type credentialsError struct {
	had bool
	err error
}

func (e *credentialsError) Error() string { return e.err.Error() }
func (e *credentialsError) Unwrap() error { return e.err }

func (c *credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	v, err := c.CredentialsProvider.Retrieve(ctx)
	if err != nil {
		return v, &credentialsError{had: c.had.Load(), err: err}
	}
	c.had.Store(true)
	return v, nil
}

// invalidate makes the next call fetch new ones, after the service said that these have run out.
func (c *credentials) invalidate() {
	if i, ok := c.CredentialsProvider.(interface{ Invalidate() }); ok {
		i.Invalidate()
	}
}

// IsCredentialsProvider lets the SDK see through the wrapper.
func (c *credentials) IsCredentialsProvider(target aws.CredentialsProvider) bool {
	return aws.IsCredentialsProvider(c.CredentialsProvider, target)
}
