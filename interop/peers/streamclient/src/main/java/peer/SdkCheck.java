package peer;

import com.alicloud.openservices.tablestore.*;
import com.alicloud.openservices.tablestore.model.*;
import com.alicloud.openservices.tablestore.model.condition.*;
import com.alicloud.openservices.tablestore.model.filter.*;
import java.util.*;

/** Calls what the emulator has through the Java SDK, which checks each answer's headers, signature and checksums. Prints a line per call. */
final class SdkCheck {
    private static final String T = "java_check";
    private static int failed;

    private interface Step { Object run() throws Exception; }

    private static void check(String name, Object want, Step s) {
        Object got;
        try {
            got = s.run();
        } catch (TableStoreException e) {
            got = e.getErrorCode() + " " + e.getHttpStatus();
        } catch (Exception e) {
            got = e;
        }
        boolean ok = String.valueOf(want).equals(String.valueOf(got));
        if (!ok) failed++;
        System.out.println((ok ? "ok   " : "FAIL ") + name + (ok ? "" : ": got " + got + ", want " + want));
    }

    private static PrimaryKey key(PrimaryKeyValue id, PrimaryKeyValue n) {
        return PrimaryKeyBuilder.createPrimaryKeyBuilder().addPrimaryKeyColumn("id", id).addPrimaryKeyColumn("n", n).build();
    }

    private static PrimaryKey key(String id, long n) { return key(PrimaryKeyValue.fromString(id), PrimaryKeyValue.fromLong(n)); }

    private static Condition equal(String name, long v) {
        SingleColumnValueCondition one = new SingleColumnValueCondition(name, SingleColumnValueCondition.CompareOperator.EQUAL, ColumnValue.fromLong(v));
        one.setPassIfMissing(false);
        one.setLatestVersionsOnly(true);
        Condition c = new Condition(RowExistenceExpectation.IGNORE);
        c.setColumnCondition(one);
        return c;
    }

    private static String show(Row r) {
        if (r == null) return "none";
        StringJoiner j = new StringJoiner(" ");
        for (PrimaryKeyColumn k : r.getPrimaryKey().getPrimaryKeyColumns()) j.add(k.getValue().toString());
        for (Column c : r.getColumns()) j.add(c.getName() + "=" + c.getValue());
        return j.toString();
    }

    private static String get(SyncClient c, PrimaryKey k) {
        SingleRowQueryCriteria q = new SingleRowQueryCriteria(T, k);
        q.setMaxVersions(1);
        return show(c.getRow(new GetRowRequest(q)).getRow());
    }

    private static String range(SyncClient c, Direction d, int limit) {
        RangeRowQueryCriteria q = new RangeRowQueryCriteria(T);
        PrimaryKey low = key(PrimaryKeyValue.INF_MIN, PrimaryKeyValue.INF_MIN), high = key(PrimaryKeyValue.INF_MAX, PrimaryKeyValue.INF_MAX);
        q.setInclusiveStartPrimaryKey(d == Direction.FORWARD ? low : high);
        q.setExclusiveEndPrimaryKey(d == Direction.FORWARD ? high : low);
        q.setDirection(d);
        q.setMaxVersions(1);
        q.setLimit(limit);
        StringJoiner j = new StringJoiner("|");
        while (true) {
            GetRangeResponse out = c.getRange(new GetRangeRequest(q));
            for (Row r : out.getRows()) j.add(show(r));
            if (out.getNextStartPrimaryKey() == null) return j.toString();
            q.setInclusiveStartPrimaryKey(out.getNextStartPrimaryKey());
        }
    }

    static int run(SyncClient c) {
        check("CreateTable", "ok", () -> {
            TableMeta meta = new TableMeta(T);
            meta.addPrimaryKeyColumn("id", PrimaryKeyType.STRING);
            meta.addPrimaryKeyColumn("n", PrimaryKeyType.INTEGER);
            CreateTableRequest in = new CreateTableRequest(meta, new TableOptions(-1, 1), new ReservedThroughput(0, 0));
            StreamSpecification spec = new StreamSpecification(true, 24);
            spec.addOriginColumnsToGet("v");
            in.setStreamSpecification(spec);
            c.createTable(in);
            return "ok";
        });
        check("CreateTable again", "OTSObjectAlreadyExist 409", () -> c.createTable(new CreateTableRequest(new TableMeta(T) {{ addPrimaryKeyColumn("id", PrimaryKeyType.STRING); }}, new TableOptions(-1, 1))));
        check("ListTable", true, () -> c.listTable().getTableNames().contains(T));
        check("DescribeTable", "true 24 -1 1 [v]", () -> {
            DescribeTableResponse d = c.describeTable(new DescribeTableRequest(T));
            return d.getStreamDetails().isEnableStream() + " " + d.getStreamDetails().getExpirationTime() + " " + d.getTableOptions().getTimeToLive() + " "
                + d.getTableOptions().getMaxVersions() + " " + d.getStreamDetails().getOriginColumnsToGet();
        });
        check("PutRow", "a 1 b=true bin=[0, -1] d=1.5 v=1", () -> {
            RowPutChange p = new RowPutChange(T, key("a", 1));
            p.addColumn("v", ColumnValue.fromLong(1));
            p.addColumn("d", ColumnValue.fromDouble(1.5));
            p.addColumn("b", ColumnValue.fromBoolean(true));
            p.addColumn("bin", ColumnValue.fromBinary(new byte[] {0, (byte) 255}));
            p.setCondition(new Condition(RowExistenceExpectation.EXPECT_NOT_EXIST));
            c.putRow(new PutRowRequest(p));
            return get(c, key("a", 1));
        });
        check("PutRow, row is there", "OTSConditionCheckFail 403", () -> {
            RowPutChange p = new RowPutChange(T, key("a", 1));
            p.setCondition(new Condition(RowExistenceExpectation.EXPECT_NOT_EXIST));
            return c.putRow(new PutRowRequest(p));
        });
        check("GetRow, no row", "none", () -> get(c, key("zz", 1)));
        check("UpdateRow with condition", "a 1 d=1.5 v=2", () -> {
            RowUpdateChange u = new RowUpdateChange(T, key("a", 1));
            u.put("v", ColumnValue.fromLong(2));
            u.deleteColumns("b");
            u.deleteColumns("bin");
            u.deleteColumn("none", 1000);
            u.setCondition(equal("v", 1));
            c.updateRow(new UpdateRowRequest(u));
            return get(c, key("a", 1));
        });
        check("UpdateRow, stale", "OTSConditionCheckFail 403", () -> {
            RowUpdateChange u = new RowUpdateChange(T, key("a", 1));
            u.put("v", ColumnValue.fromLong(3));
            u.setCondition(equal("v", 1));
            return c.updateRow(new UpdateRowRequest(u));
        });
        check("UpdateRow with AND", "a 1 d=1.5 e= v=2", () -> {
            SingleColumnValueCondition v = (SingleColumnValueCondition) equal("v", 2).getColumnCondition();
            SingleColumnValueCondition e = new SingleColumnValueCondition("e", SingleColumnValueCondition.CompareOperator.EQUAL, ColumnValue.fromString(""));
            e.setPassIfMissing(true);
            Condition both = new Condition(RowExistenceExpectation.EXPECT_EXIST);
            both.setColumnCondition(new CompositeColumnValueCondition(CompositeColumnValueCondition.LogicOperator.AND).addCondition(v).addCondition(e));
            RowUpdateChange u = new RowUpdateChange(T, key("a", 1));
            u.put("e", ColumnValue.fromString(""));
            u.setCondition(both);
            c.updateRow(new UpdateRowRequest(u));
            return get(c, key("a", 1));
        });
        check("increment", "[v:12]", () -> {
            RowUpdateChange u = new RowUpdateChange(T, key("a", 1));
            u.increment(new Column("v", ColumnValue.fromLong(10)));
            u.setReturnType(ReturnType.RT_AFTER_MODIFY);
            u.addReturnColumn("v");
            StringJoiner j = new StringJoiner(",", "[", "]");
            for (Column col : c.updateRow(new UpdateRowRequest(u)).getRow().getColumns()) j.add(col.getName() + ":" + col.getValue());
            return j.toString();
        });
        check("BatchWriteRow", "true", () -> {
            BatchWriteRowRequest b = new BatchWriteRowRequest();
            for (int i = 1; i <= 3; i++) b.addRowChange(new RowPutChange(T, key("b", i)).addColumn("v", ColumnValue.fromLong(i)));
            b.addRowChange(new RowDeleteChange(T, key("none", 1)));
            return c.batchWriteRow(b).isAllSucceed();
        });
        check("BatchGetRow", "[b 1 v=1, none]", () -> {
            MultiRowQueryCriteria q = new MultiRowQueryCriteria(T);
            q.addRow(key("b", 1));
            q.addRow(key("b", 9));
            q.setMaxVersions(1);
            BatchGetRowRequest b = new BatchGetRowRequest();
            b.addMultiRowQueryCriteria(q);
            List<String> out = new ArrayList<>();
            for (BatchGetRowResponse.RowResult r : c.batchGetRow(b).getBatchGetRowResult(T)) out.add(r.isSucceed() ? show(r.getRow()) : r.getError().getCode());
            return out;
        });
        check("GetRange", "a 1 d=1.5 e= v=12|b 1 v=1|b 2 v=2|b 3 v=3", () -> range(c, Direction.FORWARD, 2));
        check("GetRange backward", "b 3 v=3|b 2 v=2|b 1 v=1|a 1 d=1.5 e= v=12", () -> range(c, Direction.BACKWARD, 3));
        check("DeleteRow", "none", () -> {
            c.deleteRow(new DeleteRowRequest(new RowDeleteChange(T, key("b", 2))));
            return get(c, key("b", 2));
        });
        check("stream", "[PUT a 1, UPDATE a 1, UPDATE a 1, UPDATE a 1, PUT b 1, PUT b 2, PUT b 3, DELETE none 1, DELETE b 2] before [v=1] [v=2] [v=2] [v=2]", () -> {
            ListStreamRequest ls = new ListStreamRequest(T);
            List<Stream> streams = c.listStream(ls).getStreams();
            DescribeStreamResponse d = c.describeStream(new DescribeStreamRequest(streams.get(0).getStreamId()));
            String shard = d.getShards().get(0).getShardId();
            String it = c.getShardIterator(new GetShardIteratorRequest(streams.get(0).getStreamId(), shard)).getShardIterator();
            List<String> out = new ArrayList<>();
            StringBuilder before = new StringBuilder(" before");
            while (true) {
                GetStreamRecordRequest g = new GetStreamRecordRequest(it);
                g.setLimit(4);
                GetStreamRecordResponse r = c.getStreamRecord(g);
                for (StreamRecord s : r.getRecords()) {
                    StringJoiner j = new StringJoiner(" ");
                    j.add(s.getRecordType().toString());
                    for (PrimaryKeyColumn k : s.getPrimaryKey().getPrimaryKeyColumns()) j.add(k.getValue().toString());
                    out.add(j.toString());
                    if (s.getOriginColumns() != null)
                        for (RecordColumn o : s.getOriginColumns()) before.append(" [").append(o.getColumn().getName()).append("=").append(o.getColumn().getValue()).append("]");
                }
                if (r.getRecords().isEmpty()) return out + before.toString();
                it = r.getNextShardIterator();
            }
        });
        check("iterator by time", "0", () -> {
            Stream st = c.listStream(new ListStreamRequest(T)).getStreams().get(0);
            GetShardIteratorRequest g = new GetShardIteratorRequest(st.getStreamId(), c.describeStream(new DescribeStreamRequest(st.getStreamId())).getShards().get(0).getShardId());
            g.setTimestamp((System.currentTimeMillis() + 1000) * 1000);
            return c.getStreamRecord(new GetStreamRecordRequest(c.getShardIterator(g).getShardIterator())).getRecords().size();
        });
        check("bad iterator", "OTSTrimmedDataAccess 404", () -> c.getStreamRecord(new GetStreamRecordRequest("garbage")));
        check("UpdateTable, stream off", false, () -> {
            UpdateTableRequest u = new UpdateTableRequest(T);
            u.setStreamSpecification(new StreamSpecification(false));
            c.updateTable(u);
            return c.describeTable(new DescribeTableRequest(T)).getStreamDetails().isEnableStream();
        });
        check("unknown call", "OTSParameterInvalid 400", () -> c.sqlQuery(new com.alicloud.openservices.tablestore.model.sql.SQLQueryRequest("select 1")));
        check("DeleteTable", "ok", () -> { c.deleteTable(new DeleteTableRequest(T)); return "ok"; });
        check("DescribeTable, gone", "OTSObjectNotExist 404", () -> c.describeTable(new DescribeTableRequest(T)));
        System.out.println(failed == 0 ? "all ok" : failed + " failed");
        c.shutdown();
        return failed == 0 ? 0 : 1;
    }
}
