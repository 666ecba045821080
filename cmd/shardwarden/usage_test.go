package main

import (
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	consume := "consume kinesis --stream s --app a "
	changes := "consume tablestore --instance i --table t --status-table s --endpoint http://127.0.0.1:1 "
	tests := []struct {
		name, args string
		status     int
		stdout     string // parts, separated by |
		stderr     string
	}{
		{"nothing", "", 2, "", "Usage: shardwarden COMMAND"},
		{"help", "help", 0, "demo|consume kinesis|tablestore|emulator kinesis|version", ""},
		{"help of a command", "help demo", 0, "--sabotage|Examples:", ""},
		{"--help", "--help", 0, "Usage:", ""},
		{"unknown command", "konsume", 2, "", `no command "konsume"`},
		{"version", "version", 0, "shardwarden |go1", ""},
		{"--version", "--version", 0, "shardwarden ", ""},
		{"version with a flag", "version --x", 2, "", "unknown flag: --x"},

		{"demo --help", "demo --help", 0, "--backend|--shards|--workers|--records|--kills|--reshards|--seed|--sabotage|Examples:", ""},
		{"demo, numbers", "demo --shards 0 --workers -1 --records 0 --kills -1", 2, "", "--shards is 0|--workers is -1|--records is 0|--kills is -1|See: shardwarden demo --help"},
		{"demo, backend", "demo --backend kafka", 2, "", `--backend is "kafka": must be kinesis, tablestore or memory`},
		{"demo, sabotage", "demo --sabotage explode", 2, "", `--sabotage is "explode": must be one of skip, repeat, reorder, early-child`},
		{"demo, nothing to sabotage", "demo --sabotage early-child --reshards 0", 2, "", "without a split"},
		{"demo, no number", "demo --records many", 2, "", `"many"|--records`},
		{"demo, argument", "demo kinesis", 2, "", `unexpected argument "kinesis"`},

		{"consume nothing", "consume", 2, "", "Say one of kinesis, tablestore"},
		{"consume something else", "consume kafka --stream s", 2, "", `"kafka" cannot be consumed|it is one of kinesis, tablestore`},
		{"consume --help", "consume kinesis --help", 0,
			"--stream|--app|--region|--endpoint-url|--dynamodb-endpoint-url|--worker-id|--from|--lease-duration|--checkpoint-interval|--max|--idle-exit|--events|--text|--fan-out|--consumer|--or-poll|--layout|--never-lead|Examples:", ""},
		{"consume --help without a backend", "consume --help", 0, "consume kinesis --help|consume tablestore --help", ""},
		{"consume, all missing", "consume kinesis", 2, "", "--stream is missing|--app is missing"},
		{"consume, from", consume + "--from yesterday", 2, "", `--from is "yesterday": must be trim-horizon, latest, or a time`},
		{"consume, durations", consume + "--lease-duration 0s --checkpoint-interval -1s --idle-exit 0s", 2, "",
			"--lease-duration is 0s: must be above zero|--checkpoint-interval is -1s|--idle-exit is 0s"},
		{"consume, max", consume + "--max 0", 2, "", "--max is 0: must be at least 1"},
		{"consume, endpoint", consume + "--endpoint-url localhost:4567 --dynamodb-endpoint-url ftp://x", 2, "",
			`--endpoint-url is "localhost:4567": must be a URL|--dynamodb-endpoint-url is "ftp://x"`},
		{"consume, fan-out", consume + "--consumer c", 2, "", "--consumer goes with --fan-out"},
		{"consume, or poll", consume + "--or-poll", 2, "", "--or-poll goes with --fan-out"},
		{"consume, layout", consume + "--layout kcl4", 2, "", `--layout is "kcl4": must be native, auto, kcl2, kcl3-tables or kcl3-single`},
		{"consume, never lead", consume + "--never-lead", 2, "", "--never-lead goes with --layout auto"},
		{"consume, side tables", consume + "--metrics-table m", 2, "", "--metrics-table goes with --layout auto"},
		{"consume, no duration", consume + "--lease-duration 5", 2, "", "--lease-duration"},
		{"consume, unknown flag", consume + "--follow", 2, "", "unknown flag: --follow|See: shardwarden consume kinesis --help"},
		{"consume, no region", consume, 1, "", "no region: say --region, or set AWS_REGION"},
		{"consume, events", consume + "--region us-east-1 --endpoint-url http://127.0.0.1:1 --events /no/such/folder/file", 1, "", "--events: open /no/such/folder/file"},

		{"consume tablestore --help", "consume tablestore --help", 0,
			"--instance|--table|--status-table|--endpoint|--with-java|--worker-id|--from|--lease-duration|--checkpoint-interval|--max|--idle-exit|--events|--text|Examples:|TABLESTORE_ACCESS_KEY_ID", ""},
		{"consume tablestore, all missing", "consume tablestore", 2, "", "--instance is missing|--table is missing|--status-table is missing|--endpoint is missing"},
		{"consume tablestore, endpoint", "consume tablestore --instance i --table t --status-table s --endpoint shop.cn-hangzhou", 2, "",
			`--endpoint is "shop.cn-hangzhou": must be a URL|See: shardwarden consume tablestore --help`},
		{"consume tablestore, tables", changes + "--table t", 2, "", "--table t is given twice"},
		{"consume tablestore, tables in one", changes + "--table a,b", 2, "", `--table is "a,b": must be the name of one table`},
		{"consume tablestore, the leases' table", changes + "--table s", 2, "", "--table and --status-table are both s"},
		{"consume tablestore, Java", changes + "--with-java 0s", 2, "", "--with-java is 0s: must be the lease duration of the Java workers"},
		{"consume tablestore, shorter leases in Java", changes + "--with-java 5s", 2, "", "LeaseDuration is 10s: must not be above|5s"},
		{"consume tablestore, a key on the command line", changes + "--access-key x", 2, "", "unknown flag: --access-key"},

		{"leases nothing", "leases", 2, "", "Say one of list, describe, watch, export, release, rewind, move, migrate"},
		{"leases something else", "leases drop", 2, "", `leases "drop": say one of list, describe`},
		{"leases --help", "leases --help", 0, "list|describe|watch|export|release|rewind|move|migrate|Examples:", ""},
		{"leases list --help", "leases list --help", 0, "--app|--table|--status-table|--instance|--endpoint|--observe|--json|--stream|--lag|Examples:", ""},
		{"leases describe --help", "leases describe --help", 0, "Usage: shardwarden leases describe KEY [flags]|Examples:", ""},
		{"leases watch --help", "leases watch --help", 0, "--every|--silent-after|--checkpoints|--once|--json|Examples:", ""},
		{"leases export --help", "leases export --help", 0, "--app|Examples:", ""},
		{"leases release --help", "leases release --help", 0, "leases release [KEY] [flags]|--worker|--yes|Examples:", ""},
		{"leases rewind --help", "leases rewind --help", 0, "--to|--force|--yes|SEQUENCE|Examples:", ""},
		{"leases move --help", "leases move --help", 0, "--to|--force|--yes|Examples:", ""},
		{"leases list, which table", "leases list", 2, "", "which lease table? Say --app (DynamoDB), or --status-table|See: shardwarden leases list --help"},
		{"leases list, two tables", "leases list --app a --status-table b", 2, "", "say one of the two"},
		{"leases list, half a table", "leases list --status-table b", 2, "", "--instance, --endpoint missing"},
		{"leases list, an address", "leases list --app a --endpoint-url localhost", 2, "", `--endpoint-url is "localhost": must be a URL`},
		{"leases list, an argument", "leases list shard-1 --app a", 2, "", `unexpected argument "shard-1": everything is said with flags`},
		{"leases describe, which", "leases describe --app a", 2, "", "which lease? Say the id of its shard"},
		{"leases describe, two", "leases describe a b --app a", 2, "", `unexpected argument "b" behind a`},
		{"leases watch, pace", "leases watch --app a --every 0s", 2, "", "--every is 0s"},
		{"leases release, which", "leases release --app a", 2, "", "which lease? Say its KEY, or --worker, and not both"},
		{"leases release, two", "leases release shard-1 --worker w --app a", 2, "", "and not both"},
		{"leases rewind, where", "leases rewind shard-1 --app a --to yesterday", 2, "", `--to is "yesterday": must be trim-horizon, latest, a time`},
		{"leases rewind, nowhere", "leases rewind shard-1 --app a", 2, "", "--to is missing"},
		{"leases move, to whom", "leases move shard-1 --app a", 2, "", "--to is missing"},
		{"leases, no region", "leases list --app abc", 1, "", "no region: say --region"},
		{"leases migrate --help", "leases migrate --help", 0, "--to|--app|--stream|--region|--endpoint-url|--watch|--yes|kcl2|kcl3|single-table|Examples:", ""},
		{"leases migrate, all missing", "leases migrate", 2, "", "--to is missing|--app is missing"},
		{"leases migrate, of which stream", "leases migrate --to multi-stream --app a", 2, "", "--stream is missing"},
		{"leases migrate, a stream too many", "leases migrate --to kcl3 --app a --stream s", 2, "", "--stream goes with --to multi-stream"},
		{"leases migrate, to what", "leases migrate --to one-stream --app a --stream s --watch 0s", 2, "", `--to is "one-stream": must be multi-stream, kcl2, kcl3 or single-table|--watch is 0s`},
		{"leases migrate, no region", "leases migrate --to multi-stream --app abc --stream s", 1, "", "no region: say --region"},

		{"doctor nothing", "doctor", 2, "", "doctor for what? Say kinesis"},
		{"doctor something else", "doctor kafka", 2, "", "doctor for what? Say kinesis"},
		{"doctor --help", "doctor kinesis --help", 0, "--stream|--app|--table|--coordinator-table|--lease-duration|--worker-id|--observe|--no-probes|--json|Exit status|Examples:", ""},
		{"doctor, all missing", "doctor kinesis", 2, "", "--stream is missing|--app is missing|See: shardwarden doctor kinesis --help"},
		{"doctor, durations", "doctor kinesis --stream s --app a --observe -1s --lease-duration 0s", 2, "", "--observe must not be below 0|--lease-duration is 0s"},
		{"doctor, no region", "doctor kinesis --stream s --app abc", 1, "", "no region: say --region"},

		{"emulator --help", "emulator --help", 0, "--addr|--latency|--throttle|--seed|Examples:", ""},
		{"emulator, which", "emulator", 2, "", "Say one of kinesis, dynamodb, tablestore, all"},
		{"emulator, unknown", "emulator sqs", 2, "", `no emulator "sqs"`},
		{"emulator, flags", "emulator all --addr nowhere --latency -1s --throttle 2 --region mars", 2, "",
			`--addr is "nowhere": must be host:port|--latency is -1s|--throttle is 2: must be between 0 and 1|--region is "mars"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, nil, strings.Fields(tt.args)...)
			stdout := strings.Join(p.rest(), "\n")
			p.wantExit(tt.status)
			for part := range strings.SplitSeq(tt.stdout, "|") {
				if !strings.Contains(stdout, part) {
					t.Errorf("stdout lacks %q:\n%s", part, stdout)
				}
			}
			for part := range strings.SplitSeq(tt.stderr, "|") {
				if !strings.Contains(p.errors.String(), part) {
					t.Errorf("stderr lacks %q:\n%s", part, p.errors)
				}
			}
			if tt.status == 2 && stdout != "" {
				t.Errorf("stdout of a mistake: %q", stdout)
			}
			if strings.Contains(p.errors.String(), "goroutine ") {
				t.Errorf("a panic:\n%s", p.errors)
			}
		})
	}
}
