package tablestore

// operations is what the server can do.
var operations map[string]operation

// Operations decode faults' targets, and faults are checked against operations: hence not in the declaration.
func init() {
	operations = map[string]operation{
		"BatchGetRow":      on(batchGetRow),
		"BatchWriteRow":    on(batchWriteRow),
		"CreateTable":      on(createTable),
		"DeleteRow":        on(deleteRow),
		"DeleteTable":      on(deleteTable),
		"DescribeStream":   on(describeStream),
		"DescribeTable":    on(describeTable),
		"GetRange":         on(getRange),
		"GetRow":           on(getRow),
		"GetShardIterator": on(getShardIterator),
		"GetStreamRecord":  on(getStreamRecord),
		"ListStream":       on(listStream),
		"ListTable":        on(listTable),
		"PutRow":           on(putRow),
		"UpdateRow":        on(updateRow),
		"UpdateTable":      on(updateTable),
	}
}
