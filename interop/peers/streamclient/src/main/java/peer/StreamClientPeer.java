package peer;

import com.alicloud.openservices.tablestore.ClientConfiguration;
import com.alicloud.openservices.tablestore.SyncClient;
import com.alicloud.openservices.tablestore.model.*;
import com.aliyun.openservices.ots.internal.streamclient.*;
import com.aliyun.openservices.ots.internal.streamclient.Worker;
import com.aliyun.openservices.ots.internal.streamclient.model.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicLong;

/** A worker of the Tablestore Stream Client that checkpoints each batch; it says what it sees as JSON lines on standard output. */
public final class StreamClientPeer {
    static final long T0 = java.lang.management.ManagementFactory.getRuntimeMXBean().getStartTime();
    static final AtomicLong records = new AtomicLong();
    static final CountDownLatch enough = new CountDownLatch(1);
    static long expect = -1;
    static String worker = "java1";

    static String quote(Object v) {
        StringBuilder b = new StringBuilder("\"");
        for (char c : String.valueOf(v).toCharArray()) {
            if (c == '"' || c == '\\') b.append('\\').append(c);
            else if (c < ' ') b.append(String.format("\\u%04x", (int) c));
            else b.append(c);
        }
        return b.append('"').toString();
    }

    static String json(Object v) {
        if (v instanceof Collection) {
            StringJoiner j = new StringJoiner(",", "[", "]");
            for (Object e : (Collection<?>) v) j.add(json(e));
            return j.toString();
        }
        return v instanceof Number || v instanceof Boolean ? v.toString() : quote(v);
    }

    static synchronized void say(String event, Object... kv) {
        StringBuilder b = new StringBuilder("{\"ms\":").append(System.currentTimeMillis() - T0).append(",\"worker\":").append(quote(worker))
            .append(",\"event\":").append(quote(event));
        for (int i = 0; i + 1 < kv.length; i += 2) b.append(',').append(quote(kv[i])).append(':').append(json(kv[i + 1]));
        System.out.println(b.append('}'));
        System.out.flush();
    }

    /** Columns as name=value, with the cell's time; -name for a deleted column, -name@time for one version. */
    static List<String> columns(List<RecordColumn> in) {
        List<String> out = new ArrayList<>();
        for (RecordColumn c : in) {
            String name = c.getColumn().getName();
            switch (c.getColumnType()) {
                case PUT: out.add(name + "=" + c.getColumn().getValue() + "@" + c.getColumn().getTimestamp()); break;
                case DELETE_ONE_VERSION: out.add("-" + name + "@" + c.getColumn().getTimestamp()); break;
                default: out.add("-" + name);
            }
        }
        return out;
    }

    static final class Processor implements IRecordProcessor {
        private String shard;

        public void initialize(InitializationInput in) {
            shard = in.getShardInfo().getShardId();
            say("initialize", "shard", shard, "parents", in.getShardInfo().getParentShardIds(), "checkpoint", in.getInitialCheckpoint());
        }

        public void processRecords(ProcessRecordsInput in) {
            for (StreamRecord r : in.getRecords()) {
                List<String> key = new ArrayList<>();
                for (PrimaryKeyColumn k : r.getPrimaryKey().getPrimaryKeyColumns()) key.add(k.getValue().toString());
                RecordSequenceInfo s = r.getSequenceInfo();
                List<RecordColumn> before = r.getOriginColumns();
                say("record", "shard", shard, "action", r.getRecordType(), "key", key, "columns", columns(r.getColumns()),
                    "before", columns(before == null ? List.of() : before), "sequence", s.getEpoch() + "/" + s.getTimestamp() + "/" + s.getRowIndex());
            }
            // Always: without a checkpoint at the end of a shard the client's next read fails.
            checkpoint(in.getCheckpointer());
            if (records.addAndGet(in.getRecords().size()) >= expect && expect >= 0) enough.countDown();
        }

        public void shutdown(ShutdownInput in) {
            say("shutdown", "shard", shard, "reason", in.getShutdownReason());
            if (in.getShutdownReason() == ShutdownReason.TERMINATE || in.getShutdownReason() == ShutdownReason.STOLEN) checkpoint(in.getCheckpointer());
        }

        private String last;

        private void checkpoint(IRecordProcessorCheckpointer c) {
            String value = c.getLargestPermittedCheckpointValue();
            if (value.equals(last)) return; // an idle shard is read 36 times a second
            try {
                c.checkpoint(value);
                last = value;
            } catch (Exception e) {
                say("checkpoint-failed", "shard", shard, "error", e);
            }
        }
    }

    static SyncClient client(Map<String, String> o) {
        ClientConfiguration c = new ClientConfiguration();
        return new SyncClient(o.get("endpoint"), o.getOrDefault("id", "x"), o.getOrDefault("secret", "x"), o.getOrDefault("instance", "inst"), c);
    }

    public static void main(String[] args) throws Exception {
        Map<String, String> o = new HashMap<>();
        for (int i = 0; i + 1 < args.length; i += 2) o.put(args[i].replaceFirst("^--", ""), args[i + 1]);
        if (!o.containsKey("endpoint") || args.length % 2 != 0) {
            System.err.println("StreamClientPeer --endpoint URL [--instance inst] [--table T] [--status S] [--worker W] [--seconds 60] [--expect RECORDS]\n"
                + "  [--lease-ms 20000] [--renew-ms 6000] [--take-ms 6000] [--parent-poll-ms 5000] [--sync-ms 10000] [--id x] [--secret x]\n"
                + "  --check true: instead, call everything that the emulator has with the Java SDK");
            System.exit(2);
        }
        SyncClient client = client(o);
        if (o.containsKey("check")) System.exit(SdkCheck.run(client));
        worker = o.getOrDefault("worker", worker);
        expect = Long.parseLong(o.getOrDefault("expect", "-1"));
        ClientConfig cc = new ClientConfig();
        if (o.containsKey("lease-ms")) cc.setLeaseDurationMillis(Long.parseLong(o.get("lease-ms")));
        if (o.containsKey("renew-ms")) cc.setRenewerIntervalMillis(Long.parseLong(o.get("renew-ms")));
        if (o.containsKey("take-ms")) cc.setTakerIntervalMillis(Long.parseLong(o.get("take-ms")));
        if (o.containsKey("parent-poll-ms")) cc.setParentShardPollIntervalMillis(Long.parseLong(o.get("parent-poll-ms")));
        if (o.containsKey("sync-ms")) cc.setSyncShardIntervalMillis(Long.parseLong(o.get("sync-ms")));
        StreamConfig sc = new StreamConfig();
        sc.setOTSClient(client);
        sc.setDataTableName(o.getOrDefault("table", "orders"));
        sc.setStatusTableName(o.getOrDefault("status", "status"));
        ExecutorService pool = Executors.newCachedThreadPool(); // with few threads a child's wait for its parent blocks the parent
        Worker w = new Worker(worker, cc, sc, Processor::new, pool);
        Thread t = new Thread(w, "worker");
        t.start();
        say("start");
        boolean all = enough.await(Long.parseLong(o.getOrDefault("seconds", "60")), TimeUnit.SECONDS);
        boolean died = w.getWorkerStatus() == WorkerStatus.ERROR;
        if (died) say("error", "error", w.getException(), "cause", w.getException() == null ? "" : w.getException().getCause());
        w.shutdown();
        t.join(10_000);
        say("end", "status", w.getWorkerStatus(), "records", records.get());
        client.shutdown();
        pool.shutdownNow();
        System.exit(!died && (all || expect < 0) ? 0 : 1);
    }
}
