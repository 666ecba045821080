package dynamodb

// operations is all this server can do. Every other operation of the service
// is refused as unknown.
var operations = map[string]func() request{
	"BatchGetItem":              func() request { return new(batchGetItem) },
	"BatchWriteItem":            func() request { return new(batchWriteItem) },
	"CreateTable":               func() request { return new(createTable) },
	"DeleteItem":                func() request { return new(deleteItem) },
	"DeleteTable":               func() request { return new(deleteTable) },
	"DescribeContinuousBackups": func() request { return new(describeContinuousBackups) },
	"DescribeTable":             func() request { return new(describeTable) },
	"DescribeTimeToLive":        func() request { return new(describeTimeToLive) },
	"GetItem":                   func() request { return new(getItem) },
	"ListTables":                func() request { return new(listTables) },
	"ListTagsOfResource":        func() request { return new(listTagsOfResource) },
	"PutItem":                   func() request { return new(putItem) },
	"Query":                     func() request { return new(query) },
	"Scan":                      func() request { return new(scan) },
	"TagResource":               func() request { return new(tagResource) },
	"TransactGetItems":          func() request { return new(transactGetItems) },
	"TransactWriteItems":        func() request { return new(transactWriteItems) },
	"UntagResource":             func() request { return new(untagResource) },
	"UpdateContinuousBackups":   func() request { return new(updateContinuousBackups) },
	"UpdateItem":                func() request { return new(updateItem) },
	"UpdateTable":               func() request { return new(updateTable) },
	"UpdateTimeToLive":          func() request { return new(updateTimeToLive) },
}
