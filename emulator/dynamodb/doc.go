// Package dynamodb is an in-process DynamoDB for lease tables.
//
// A [Server] is an [http.Handler] that speaks the service's own wire protocol
// (JSON 1.0, X-Amz-Target DynamoDB_20120810, checksummed answers, typed
// errors), so that unmodified SDKs of any language work against it. It keeps
// everything in memory, starts no goroutine of its own, and takes its time
// from [time.Now] alone, so that it can live inside a testing/synctest bubble.
//
// It is the smallest server that holds lease tables fully: tables with global
// secondary indexes, item reads and conditional writes by expression and by
// the legacy parameters the Java clients still send, scans, queries, batches
// and transactions. Whatever it does not do it refuses by name
// (UnknownOperationException, or ValidationException naming the parameter);
// nothing is half done in silence.
//
// What it has beyond the service are faults on demand ([Fault]): throttling,
// denied permissions, lost connections before and after a write took effect,
// writes that take effect late, small pages, and stale eventually consistent
// reads ([Config.EventualLag]).
package dynamodb
