package tablestore

import (
	"bytes"

	pb "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"

	"github.com/shardwarden/shardwarden/internal/plainbuffer"
)

const (
	maxBatchWrite = 200
	maxBatchRead  = 100
)

func batchWriteRow(w *work, in *pb.BatchWriteRowRequest) (message, error) {
	if in.TransactionId != nil || in.GetIsAtomic() {
		return nil, notHere("atomic batches and local transactions (is_atomic, transaction_id)")
	}
	count := 0
	for _, tb := range in.GetTables() {
		count += len(tb.GetRows())
	}
	if count < 1 || count > maxBatchWrite {
		return nil, invalid("The number of rows of BatchWriteRow is %d; it must be in range: [1, %d].", count, maxBatchWrite)
	}
	if err := duplicates(in); err != nil {
		return nil, err
	}
	out := &pb.BatchWriteRowResponse{}
	for _, tb := range in.GetTables() {
		answers := &pb.TableInBatchWriteRowResponse{TableName: tb.TableName}
		out.Tables = append(out.Tables, answers)
		t, err := w.open(tb.GetTableName())
		for _, r := range tb.GetRows() {
			var done written
			rowErr := err
			if rowErr == nil {
				if f := w.rowFault(tb.GetTableName(), keyTexts(r.GetRowChange())); f != nil {
					rowErr = f
				} else {
					done, rowErr = w.write(t, write{r.GetType(), r.GetRowChange(), r.GetCondition(), r.GetReturnContent()}, w.stampFor(t))
				}
			}
			a := &pb.RowInBatchWriteRowResponse{IsOk: new(rowErr == nil)}
			if rowErr != nil {
				a.Error = rowError(rowErr)
			} else {
				a.Consumed, a.Row = done.consumed, done.row
			}
			answers.Rows = append(answers.Rows, a)
		}
	}
	return out, nil
}

// duplicates refuses a batch that changes one row twice where one of the changes has a condition.
func duplicates(in *pb.BatchWriteRowRequest) error {
	for _, tb := range in.GetTables() {
		type use struct{ times, conditions int }
		seen := map[string]*use{}
		for _, r := range tb.GetRows() {
			var row plainbuffer.Row
			if plainbuffer.DecodeRow(r.GetRowChange(), &row) != nil {
				continue // this row's own error
			}
			k := string(plainbuffer.Encode(plainbuffer.Row{PrimaryKey: row.PrimaryKey}))
			u := seen[k]
			if u == nil {
				u = &use{}
				seen[k] = u
			}
			u.times++
			if r.GetCondition().GetRowExistence() != pb.RowExistenceExpectation_IGNORE || len(r.GetCondition().GetColumnCondition()) > 0 {
				u.conditions++
			}
			if u.times > 1 && u.conditions > 0 {
				return invalid("Duplicated rows with conditions in BatchWriteRow on table '%s'.", tb.GetTableName())
			}
		}
	}
	return nil
}

func rowError(err error) *pb.Error {
	e := asAPIError(err)
	return &pb.Error{Code: new(e.code), Message: new(e.message)}
}

func batchGetRow(w *work, in *pb.BatchGetRowRequest) (message, error) {
	count := 0
	for _, tb := range in.GetTables() {
		count += len(tb.GetPrimaryKey())
	}
	if count < 1 || count > maxBatchRead {
		return nil, invalid("The number of rows of BatchGetRow is %d; it must be in range: [1, %d].", count, maxBatchRead)
	}
	out := &pb.BatchGetRowResponse{}
	for _, tb := range in.GetTables() {
		s, err := newSelection(tb, tb.StartColumn, tb.EndColumn)
		if err != nil {
			return nil, err
		}
		for _, token := range tb.GetToken() {
			if len(bytes.TrimRight(token, "\x00")) > 0 {
				return nil, invalid("Invalid token.") // none is ever given
			}
		}
		answers := &pb.TableInBatchGetRowResponse{TableName: tb.TableName}
		out.Tables = append(out.Tables, answers)
		t, tableErr := w.open(tb.GetTableName())
		for _, k := range tb.GetPrimaryKey() {
			a := &pb.RowInBatchGetRowResponse{}
			answers.Rows = append(answers.Rows, a)
			rowErr := tableErr
			if rowErr == nil {
				if f := w.rowFault(tb.GetTableName(), keyTexts(k)); f != nil {
					rowErr = f
				} else {
					a.Row, a.Consumed, rowErr = w.getOne(t, k, s)
				}
			}
			a.IsOk = new(rowErr == nil)
			if rowErr != nil {
				a.Error = rowError(rowErr)
			}
		}
	}
	return out, nil
}
