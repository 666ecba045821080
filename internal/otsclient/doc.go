// Package otsclient is the one place where the Go SDK of Tablestore is called. The SDK knows no contexts, sleeps between retries that
// nothing can end, sends writes twice, dies on answers that lack a field, and looks at no checksum (docs/reference/tablestore.md 1.4, 1.8,
// 1.9). Here each call has a context, is sent once unless it says otherwise, comes back with an error of package core's kinds, and has its
// answer compared with the checksum that the service sends along.
package otsclient
