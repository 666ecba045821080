package tablestore

import (
	"maps"
	"regexp"
	"slices"

	pb "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"

	"github.com/shardwarden/shardwarden/internal/plainbuffer"
)

var namePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,254}$`)

const (
	defaultDeviation = 86400  // s
	minTTL           = 86400  // s
	maxStreamHours   = 24 * 7 // of records kept, as current pages of the vendor say
)

func createTable(w *work, in *pb.CreateTableRequest) (message, error) {
	meta := in.GetTableMeta()
	name := meta.GetTableName()
	if !namePattern.MatchString(name) {
		return nil, invalid("Invalid table name: '%s'.", name)
	}
	if in.GetSseSpec().GetEnable() {
		return nil, notHere("encryption (sse_spec)")
	}
	if len(in.GetIndexMetas())+len(meta.GetIndexMeta()) > 0 {
		return nil, notHere("secondary indexes (index_metas)")
	}
	if len(in.GetPartitions()) > 0 {
		return nil, notHere("partitions given to CreateTable; use its own split call")
	}
	if in.GetEnableLocalTxn() {
		return nil, notHere("local transactions (enable_local_txn)")
	}
	keys, err := keyColumns(meta.GetPrimaryKey())
	if err != nil {
		return nil, err
	}
	options := &pb.TableOptions{TimeToLive: new(int32(-1)), MaxVersions: new(int32(1)), DeviationCellVersionInSec: new(int64(defaultDeviation))}
	if options, err = mergeOptions(options, in.GetTableOptions()); err != nil {
		return nil, err
	}
	reserved, err := capacity(in.GetReservedThroughput())
	if err != nil {
		return nil, err
	}
	if err := checkStreamSpec(in.GetStreamSpec(), keys); err != nil {
		return nil, err
	}
	if w.tables[name] != nil {
		return nil, fail("OTSObjectAlreadyExist", "Requested table already exists.")
	}
	t := &table{
		instance: w.name, name: name, keys: keys, defined: meta.GetDefinedColumn(), options: options, reserved: reserved, raised: w.now.Unix(),
		ready: w.now.Add(w.config.CreateDelay),
		parts: []partition{{from: plainbuffer.Value{Kind: plainbuffer.InfMin}}},
	}
	w.tables[name] = t
	if in.GetStreamSpec().GetEnableStream() {
		w.openStream(t, in.GetStreamSpec())
	}
	return &pb.CreateTableResponse{}, nil
}

func keyColumns(schema []*pb.PrimaryKeySchema) ([]keyColumn, error) {
	if len(schema) < 1 || len(schema) > maxKeyColumns {
		return nil, invalid("The number of primary key columns must be in range: [1, %d].", maxKeyColumns)
	}
	var keys []keyColumn
	for i, c := range schema {
		kind, ok := kindOfKeyType[c.GetType()]
		if !ok {
			return nil, invalid("%v is an invalid type for the primary key.", c.GetType())
		}
		if !namePattern.MatchString(c.GetName()) {
			return nil, invalid("Invalid column name: '%s'.", c.GetName())
		}
		if slices.ContainsFunc(keys, func(k keyColumn) bool { return k.name == c.GetName() }) {
			return nil, invalid("Duplicated primary key name: '%s'.", c.GetName())
		}
		auto := c.Option != nil
		if auto && (i == 0 || kind != plainbuffer.Integer) {
			return nil, invalid("AUTO_INCREMENT is for INTEGER columns of the primary key other than the first; '%s' is not one.", c.GetName())
		}
		if auto && slices.ContainsFunc(keys, func(k keyColumn) bool { return k.auto }) {
			return nil, invalid("A table can have one AUTO_INCREMENT column; '%s' is another.", c.GetName())
		}
		keys = append(keys, keyColumn{c.GetName(), kind, auto})
	}
	return keys, nil
}

// mergeOptions gives the options with what a request sets of them.
func mergeOptions(have, set *pb.TableOptions) (*pb.TableOptions, error) {
	out := &pb.TableOptions{
		TimeToLive: have.TimeToLive, MaxVersions: have.MaxVersions, DeviationCellVersionInSec: have.DeviationCellVersionInSec,
		BloomFilterType: have.BloomFilterType, BlockSize: have.BlockSize,
	}
	if set == nil {
		return out, nil
	}
	if set.AllowUpdate != nil && !set.GetAllowUpdate() {
		return nil, notHere("tables without updates (allow_update false)")
	}
	if set.GetUpdateFullRow() {
		return nil, notHere("update_full_row")
	}
	if ttl := set.TimeToLive; ttl != nil {
		if *ttl != -1 && *ttl < minTTL {
			return nil, invalid("Invalid time to live: %d; it is -1, or %d seconds and more.", *ttl, minTTL)
		}
		out.TimeToLive = ttl
	}
	if n := set.MaxVersions; n != nil {
		if *n < 1 {
			return nil, invalid("Invalid max versions: %d.", *n)
		}
		out.MaxVersions = n
	}
	if n := set.DeviationCellVersionInSec; n != nil {
		if *n < 1 {
			return nil, invalid("Invalid deviation of cell versions: %d.", *n)
		}
		out.DeviationCellVersionInSec = n
	}
	if set.BloomFilterType != nil {
		out.BloomFilterType = set.BloomFilterType
	}
	if set.BlockSize != nil {
		out.BlockSize = set.BlockSize
	}
	return out, nil
}

func capacity(in *pb.ReservedThroughput) (*pb.CapacityUnit, error) {
	read, write := in.GetCapacityUnit().GetRead(), in.GetCapacityUnit().GetWrite()
	if read < 0 || write < 0 {
		return nil, invalid("Invalid capacity unit: read %d, write %d.", read, write)
	}
	return &pb.CapacityUnit{Read: new(read), Write: new(write)}, nil
}

func checkStreamSpec(spec *pb.StreamSpecification, keys []keyColumn) error {
	if !spec.GetEnableStream() {
		return nil
	}
	if h := spec.GetExpirationTime(); h < 1 || h > maxStreamHours {
		return invalid("Invalid stream expiration time: %d; it is 1 to %d hours.", h, maxStreamHours)
	}
	for _, name := range spec.GetColumnsToGet() {
		if name == "" || slices.ContainsFunc(keys, func(k keyColumn) bool { return k.name == name }) {
			return invalid("Invalid column of a stream's columns_to_get: '%s'.", name)
		}
	}
	return nil
}

func updateTable(w *work, in *pb.UpdateTableRequest) (message, error) {
	t, err := w.table(in.GetTableName())
	if err != nil {
		return nil, err
	}
	if in.ReservedThroughput == nil && in.TableOptions == nil && in.StreamSpec == nil {
		return nil, invalid("No operation is specified in UpdateTable.")
	}
	options, err := mergeOptions(t.options, in.GetTableOptions())
	if err != nil {
		return nil, err
	}
	if err := checkStreamSpec(in.GetStreamSpec(), t.keys); err != nil {
		return nil, err
	}
	if in.ReservedThroughput != nil {
		reserved, err := capacity(in.GetReservedThroughput())
		if err != nil {
			return nil, err
		}
		t.reserved, t.raised = reserved, w.now.Unix()
	}
	t.options = options
	for _, r := range t.rows { // fewer versions may be kept from now on
		for i := range r.columns {
			c := &r.columns[i]
			c.versions = c.versions[:min(len(c.versions), int(options.GetMaxVersions()))]
		}
	}
	switch spec := in.GetStreamSpec(); {
	case spec == nil:
	case !spec.GetEnableStream():
		w.closeStream(t)
	case t.stream == nil:
		w.openStream(t, spec)
	default:
		t.stream.hours, t.stream.origin = spec.GetExpirationTime(), spec.GetColumnsToGet()
	}
	return &pb.UpdateTableResponse{ReservedThroughputDetails: t.throughput(), TableOptions: t.options, StreamDetails: t.streamDetails()}, nil
}

func (t *table) throughput() *pb.ReservedThroughputDetails {
	return &pb.ReservedThroughputDetails{CapacityUnit: t.reserved, LastIncreaseTime: new(t.raised)}
}

func (t *table) streamDetails() *pb.StreamDetails {
	if t.stream == nil {
		return &pb.StreamDetails{EnableStream: new(false)}
	}
	return &pb.StreamDetails{
		EnableStream: new(true), StreamId: new(t.stream.id), ExpirationTime: new(t.stream.hours),
		LastEnableTime: new(t.stream.created), ColumnsToGet: t.stream.origin,
	}
}

func describeTable(w *work, in *pb.DescribeTableRequest) (message, error) {
	t, err := w.table(in.GetTableName())
	if err != nil {
		return nil, err
	}
	meta := &pb.TableMeta{TableName: new(t.name), DefinedColumn: t.defined}
	for _, k := range t.keys {
		meta.PrimaryKey = append(meta.PrimaryKey, k.schema())
	}
	status := pb.TableStatus_ACTIVE
	if w.now.Before(t.ready) {
		status = pb.TableStatus_LOADING
	}
	return &pb.DescribeTableResponse{
		TableMeta: meta, ReservedThroughputDetails: t.throughput(), TableOptions: t.options, TableStatus: &status, StreamDetails: t.streamDetails(),
	}, nil
}

func listTable(w *work, _ *pb.ListTableRequest) (message, error) {
	return &pb.ListTableResponse{TableNames: slices.Sorted(maps.Keys(w.tables))}, nil
}

func deleteTable(w *work, in *pb.DeleteTableRequest) (message, error) {
	t, err := w.table(in.GetTableName())
	if err != nil {
		return nil, err
	}
	w.closeStream(t)
	delete(w.tables, t.name)
	return &pb.DeleteTableResponse{}, nil
}
