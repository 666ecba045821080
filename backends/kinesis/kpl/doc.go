// Package kpl opens the aggregated records of the Kinesis Producer Library (KPL): containers that hold many user records in one record of the
// stream. Package kinesis uses it by default; it stands by itself for those who read a stream in another way.
//
// A container is the four bytes F3 89 9A C2, a protobuf message, and the MD5 of that message (aggregation-format.md of the KPL). What comes
// out of one is what class AggregatorUtil of the Java KCL makes of it, except where that loses user records: docs/kinesis-kpl.md.
package kpl
