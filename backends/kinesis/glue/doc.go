// Package glue decodes records whose producers registered their schema in the AWS Glue Schema Registry: Avro, JSON and Protobuf, plain or
// compressed.
//
//	source := kinesis.New(cfg, "orders", kinesis.Decode(glue.New(cfg)))
//
// Such a record begins with 18 bytes: 3, then 0 or 5 (compressed with zlib), then the id of the schema version, by which the schema is asked
// for (glue:GetSchemaVersion) and kept. Its Native becomes a [*Message] and its Data the payload without these bytes, decompressed, as the
// Java KCL gives it. Records that do not begin so are left alone.
//
// Producing and validating are not done here: JSON is not checked against its schema, as in Java, and Avro is read by the schema it was
// written with.
package glue
