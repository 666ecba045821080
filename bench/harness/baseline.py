#!/usr/bin/env python3
"""Baseline figures of one Kinesis consumer against local emulators: see README.md. Standard library only, Linux only.

baseline.py [options] first|catchup|fleet -- CONSUMER COMMAND with {stream} {app} {worker} {kinesis} {dynamo}
"""
import argparse, base64, bisect, collections, http.client, json, os, shlex, signal, subprocess, sys, threading, time

HZ = os.sysconf("SC_CLK_TCK")
T0 = time.time()


def log(*a):
    print(f"[{time.time()-T0:7.1f}]", *a, flush=True)


def load():
    return " ".join(open("/proc/loadavg").read().split()[:3])


# --- processes -------------------------------------------------------------------------------------------------------

class Proc:
    """A child with its JSON lines, the time each came, and its use of CPU and memory."""
    all = []

    def __init__(self, name, cmd, errfile, env=None):
        self.name, self.lines, self.cpu_at, self.usage = name, [], {}, None
        self.t = time.time()
        self.p = subprocess.Popen(cmd, stdout=subprocess.PIPE, stderr=open(errfile, "ab"), env=env, start_new_session=True)
        Proc.all.append(self)
        self.reader = threading.Thread(target=self._read, daemon=True); self.reader.start()
        self.waiter = threading.Thread(target=self._wait, daemon=True); self.waiter.start()

    def _read(self):
        for raw in self.p.stdout:
            now = time.time()
            try: o = json.loads(raw)
            except ValueError: continue
            if not isinstance(o, dict): continue
            self.lines.append((now, o))
            self.cpu_at.setdefault(o.get("event"), self.cpu())

    def _wait(self):
        _, st, self.usage = os.wait4(self.p.pid, 0)
        self.p.returncode = os.waitstatus_to_exitcode(st)
        self.ended = time.time()

    def alive(self): return self.usage is None

    def first(self, event):
        for t, o in list(self.lines):
            if o.get("event") == event: return t, o
        return None

    def last(self, event):
        for t, o in reversed(list(self.lines)):
            if o.get("event") == event: return t, o
        return None

    def until(self, cond, timeout, step=0.05):
        end = time.time() + timeout
        while time.time() < end:
            if cond(): return True
            if not self.alive(): time.sleep(0.3); return bool(cond())
            time.sleep(step)
        return bool(cond())

    def cpu(self):
        try: f = open(f"/proc/{self.p.pid}/stat").read().rsplit(")", 1)[1].split(); return (int(f[11]) + int(f[12])) / HZ
        except OSError: return float("nan")

    def status(self):
        try: d = dict(l.split(":", 1) for l in open(f"/proc/{self.p.pid}/status") if ":" in l)
        except OSError: return {}
        kb = lambda k: round(int(d[k].split()[0]) / 1024, 1) if k in d else None
        return {"rssMB": kb("VmRSS"), "anonMB": kb("RssAnon"), "peakMB": kb("VmHWM"), "threads": int(d["Threads"])}

    def kill(self, sig=signal.SIGTERM, timeout=30):
        if self.alive():
            try: os.kill(self.p.pid, sig)
            except ProcessLookupError: pass
        self.waiter.join(timeout)
        if self.alive() and sig != signal.SIGKILL: self.kill(signal.SIGKILL, 5); return False
        return True


class Emulators:
    def __init__(self, a):
        b, self.a = a.port, a
        self.kport, self.dport, self.kp, self.dp = b, b + 1, b + 2, b + 3
        self.fer = Proc("ferrokinesis", [a.ferro, "serve", "--port", str(b), "--shard-limit", "1000"], f"{a.out}/ferro.log")
        self.dyn = Proc("dynoxide", [a.dynox, "--host", "127.0.0.1", "--port", str(b + 1)], f"{a.out}/dynox.log")
        self.front = b  # where consumers find Kinesis
        if a.shim:
            self.front = b + 4; self.shim = Proc("shim", [a.shim, "-listen", f"127.0.0.1:{b+4}", "-to", f"http://127.0.0.1:{b}"], f"{a.out}/shim.log")
        self.kcp = Proc("kproxy", [a.countproxy, "-listen", f"127.0.0.1:{self.kp}", "-to", f"http://127.0.0.1:{self.front}"], f"{a.out}/kproxy.log")
        self.dcp = Proc("dproxy", [a.countproxy, "-listen", f"127.0.0.1:{self.dp}", "-to", f"http://127.0.0.1:{b+1}"], f"{a.out}/dproxy.log")
        for port in (b, b + 1, b + 2, b + 3) + ((b + 4,) if a.shim else ()):
            for _ in range(100):
                try: http.client.HTTPConnection("127.0.0.1", port, timeout=2).connect(); break
                except OSError: time.sleep(0.1)
            else: sys.exit(f"nothing listens on {port}; see {a.out}/*.log")
        self.local = threading.local()

    def call(self, target, body, port=None):
        port = port or self.kport
        c = getattr(self.local, f"c{port}", None)
        if c is None: c = http.client.HTTPConnection("127.0.0.1", port, timeout=60); setattr(self.local, f"c{port}", c)
        c.request("POST", "/", json.dumps(body), {"X-Amz-Target": target, "X-Amz-Date": "20260101T000000Z",
            "Content-Type": "application/x-amz-json-1.1" if target[0] == "K" else "application/x-amz-json-1.0",
            "Authorization": "AWS4-HMAC-SHA256 Credential=123456789012/20260101/us-east-1/kinesis/aws4_request, SignedHeaders=host, Signature=0"})
        r = c.getresponse(); data = r.read()
        if r.status != 200: raise RuntimeError(f"{target}: {r.status} {data[:300]}")
        return json.loads(data or b"{}")

    def kinesis(self, op, **body): return self.call("Kinesis_20131202." + op, body)
    def dynamo(self, op, **body): return self.call("DynamoDB_20120810." + op, body, self.dport)

    def create(self, stream, shards):
        self.kinesis("CreateStream", StreamName=stream, ShardCount=shards)
        while self.kinesis("DescribeStreamSummary", StreamName=stream)["StreamDescriptionSummary"]["StreamStatus"] != "ACTIVE": time.sleep(0.05)
        s = self.kinesis("ListShards", StreamName=stream)["Shards"]
        self.keys = [x["HashKeyRange"]["StartingHashKey"] for x in s]
        return len(s)

    def put(self, stream, per_shard, size, tag):
        d = base64.b64encode(b"x" * size).decode()
        for n, h in enumerate(self.keys):
            for i in range(0, per_shard, 500):
                r = self.kinesis("PutRecords", StreamName=stream, Records=[{"Data": d, "PartitionKey": f"{tag}-{n}-{j}", "ExplicitHashKey": h} for j in range(i, min(i + 500, per_shard))])
                if r["FailedRecordCount"]: raise RuntimeError("records refused")

    def counts(self, port, reset=False):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        c.request("GET", "/__reset" if reset else "/__counts"); b = c.getresponse().read()
        return None if reset else json.loads(b)

    def leader(self, app):
        try: i = self.dynamo("GetItem", TableName=app, Key={"leaseKey": {"S": "Leader"}}).get("Item")
        except RuntimeError: return None
        return i and i.get("ownerName", {}).get("S")

    def stop(self):
        for p in (self.kcp, self.dcp, self.fer, self.dyn): p.kill()


class Trickle(threading.Thread):
    """One record a second to each shard, with the key t-<shard>-<n>."""
    def __init__(self, em, stream):
        super().__init__(daemon=True); self.em, self.stream, self.off, self.sent = em, stream, threading.Event(), {}
        self.n = 0
    def run(self):
        d = base64.b64encode(b"y" * 100).decode(); t = time.time()
        while not self.off.is_set():
            now = int(time.time() * 1000)
            self.em.kinesis("PutRecords", StreamName=self.stream, Records=[{"Data": d, "PartitionKey": f"t-{i}-{self.n}", "ExplicitHashKey": h} for i, h in enumerate(self.em.keys)])
            for i in range(len(self.em.keys)): self.sent[f"t-{i}-{self.n}"] = now
            self.n += 1; t += 1; self.off.wait(max(0, t - time.time()))


# --- traces ----------------------------------------------------------------------------------------------------------

class Traces:
    """What user code saw, from the trace files: (ms, worker, shard, sequence, key)."""
    def __init__(self, out): self.out, self.files, self.rows, self.shards = out, {}, [], set()
    def path(self, worker): p = f"{self.out}/trace-{worker}.txt"; self.files.setdefault(worker, [p, 0, b""]); return p
    def poll(self):
        for w, f in self.files.items():
            try:
                with open(f[0], "rb") as h: h.seek(f[1]); b = h.read()
            except OSError: continue
            f[1] += len(b); b = f[2] + b
            whole, _, f[2] = b.rpartition(b"\n")
            for l in whole.split(b"\n"):
                p = l.decode().split()
                if len(p) >= 5: self.shards.add(p[2]); self.rows.append((int(p[0]), w, p[2], p[3] + "." + p[4], p[5] if len(p) > 5 else ""))
    def owners(self, at=None):
        self.poll(); self.rows.sort(); o = {}  # nearly sorted already
        end = len(self.rows) if at is None else bisect.bisect_right(self.rows, (at, "\uffff"))
        for r in reversed(self.rows[:end]):
            if r[2] not in o:
                o[r[2]] = r[1]
                if len(o) == len(self.shards): break
        return o
    def counts(self, workers, at=None):
        c = collections.Counter(self.owners(at).values()); return {w: c.get(w, 0) for w in workers}


def spread(c): return max(c.values()) - min(c.values())


def per_minute(c):
    s = c["seconds"]; ops = collections.Counter(); bad = 0
    for k, v in c["ops"].items(): ops[k.split(" ")[0] + (" (index)" if "(index)" in k else "")] += v["n"]; bad += v["errors"]
    return {"window_s": round(s, 1), **{k: round(n * 60 / s, 1) for k, n in sorted(ops.items(), key=lambda x: -x[1])}, "total": round(sum(ops.values()) * 60 / s, 1), "errors": bad}


# --- the benchmarks --------------------------------------------------------------------------------------------------

class Bench:
    def __init__(self, a):
        self.a = a; os.makedirs(a.out, exist_ok=True); self.em = Emulators(a); self.res = {"name": a.name, "load_before": load()}
        self.env = dict(os.environ, AWS_EC2_METADATA_DISABLED="true", AWS_REGION="us-east-1", AWS_ACCESS_KEY_ID="123456789012", AWS_SECRET_ACCESS_KEY="secret")

    def worker(self, stream, app, worker, *extra, proxied=False):
        k, d = (self.em.kp, self.em.dp) if proxied else (self.em.front, self.em.dport)
        v = dict(stream=stream, app=app, worker=worker, kinesis=f"http://127.0.0.1:{k}", dynamo=f"http://127.0.0.1:{d}")
        cmd = [x.format(**v) for x in self.a.cmd] + [str(x) for x in extra]
        with open(f"{self.a.out}/commands.txt", "a") as f: f.write(shlex.join(cmd) + "\n")
        return Proc(worker, cmd, f"{self.a.out}/{worker}.err", self.env)

    def say(self, key, v): self.res[key] = v; log(self.a.name, key, json.dumps(v)); self.save()
    def save(self): json.dump(self.res, open(f"{self.a.out}/{self.a.bench}.json", "w"), indent=1)

    def first(self):
        """B1: process start to first record, a new application; B1b: again with the same worker id, and with another one."""
        n = 1000
        for run in range(self.a.runs):
            stream, app = f"b1s{run}", f"{self.a.name}b1{run}".replace(".", "-")
            self.em.create(stream, 8); total = 0
            for step, worker in (("new", "w1"), ("same-id", "w1"), ("other-id", "w2")):
                if step in self.a.skip: continue
                self.em.put(stream, n, 200, step); total += 8 * n
                tr = Traces(self.a.out); w = f"{worker}-{step}-{run}"; ld = load()
                p = self.worker(stream, app, worker, "--trace", tr.path(w))
                ok = p.until(lambda: p.first("first-record"), self.a.wait)
                f = p.first("first-record")
                r = {"load": ld, "first_s": round(f[0] - p.t, 2) if f else f"none in {self.a.wait} s", "cpu_s_at_first": p.cpu_at.get("first-record")}
                if ok:
                    got = lambda: (p.last("count") or (0, {"records": 0}))[1]["records"]
                    # a restart also sees again what was not checkpointed
                    r["all_8_shards"] = p.until(lambda: (tr.poll(), len({x[2] for x in tr.rows}))[1] == 8 and got() >= 8 * n, self.a.wait)
                    time.sleep(12)
                    t = time.time(); r["clean_stop"] = p.kill(timeout=40); r["stop_s"] = round(time.time() - t, 1)
                    tr.poll(); seen = {}
                    for x in tr.rows: seen.setdefault(x[2], x[0])
                    r["shards"] = len(seen); r["last_shard_s"] = round(max(seen.values()) / 1000 - p.t, 2)
                    r["records"] = len(tr.rows); r["peakMB"] = round(p.usage.ru_maxrss / 1024) if p.usage else None
                else: p.kill(signal.SIGKILL)
                self.say(f"{step}.{run}", r)

    def catchup(self):
        """B2: records a second and a CPU-second over what lies in 8 shards."""
        n = self.a.per_shard; self.em.create("b2", 8); self.em.put("b2", n, 200, "r"); log("preloaded", 8 * n)
        for run in range(self.a.runs + 1):
            traced = run == self.a.runs; tr = Traces(self.a.out); w = f"w{run}"
            extra = ["--expect", 8 * n] + (["--trace", tr.path(w)] if traced else []); ld = load(); fc = self.em.fer.cpu()
            if traced and os.path.exists(tr.path(w)): os.unlink(tr.path(w))
            p = self.worker("b2", f"{self.a.name}b2{run}".replace(".", "-"), w, *extra)
            p.until(lambda: not p.alive(), self.a.wait, 0.2); whole = not p.alive()
            if not whole: p.kill()
            f, s = p.first("first-record"), p.last("summary"); r = {"load": ld, "finished": whole}
            if f and s:
                span = (s[1]["lastRecordMs"] - f[1]["ms"]) / 1000; cpu = p.usage.ru_utime + p.usage.ru_stime; at1 = p.cpu_at["first-record"]
                r |= {"records": s[1]["records"], "first_s": round(f[0] - p.t, 1), "first_to_last_s": round(span, 2), "records_per_s": round(s[1]["records"] / max(span, .001)),
                      "cpu_s": round(cpu, 2), "cpu_s_before_first": round(at1, 2), "records_per_cpu_s": round(s[1]["records"] / cpu), "records_per_cpu_s_after_first": round(s[1]["records"] / max(cpu - at1, .01)),
                      "emulator_cpu_s": round(self.em.fer.cpu() - fc, 2), "peakMB": round(p.usage.ru_maxrss / 1024)}
            else: r["events"] = [o for _, o in p.lines][-3:]
            if traced: tr.poll(); ids = {(x[2], x[3]) for x in tr.rows}; r |= {"traced": True, "seen": len(tr.rows), "distinct": len(ids), "duplicates": len(tr.rows) - len(ids)}
            self.say(f"catchup.{run}", r)

    def fleet(self):
        """B7, B4, B3, B6, B5 on 64 shards, in that order."""
        a, em = self.a, self.em; S = a.shards; app = f"{a.name}fleet".replace(".", "-"); em.create("fl", S)
        tr = Traces(a.out); alive = {}
        def start(w): alive[w] = self.worker("fl", app, w, "--checkpoint-ms", 5000, "--trace", tr.path(w), proxied=True); return alive[w]
        def balance(key, limit, settle=20):
            t = time.time(); ok = None; hist = []
            while time.time() - t < limit:
                c = tr.counts(alive, (time.time() - 1.5) * 1000); hist.append((round(time.time() - t), dict(c)))
                if sum(c.values()) == S and spread(c) <= 1:
                    ok = ok or time.time()
                    if time.time() - ok > settle: break
                else: ok = None
                time.sleep(1)
            # exact time from the traces: the first second from which the counts stay within 1
            good = None; end = time.time() - 2
            for k in range(int(end - t) + 1):
                c = tr.counts(alive, (t + k) * 1000)
                if sum(c.values()) == S and spread(c) <= 1: good = k if good is None else good
                else: good = None
            mine = list(alive)[-1]; tr.poll(); firsts = [x[0] for x in tr.rows if x[1] == mine and x[0] >= t * 1000]
            self.say(key, {"load": load(), "balanced_s": good if good is not None else f"never in {limit} s", "first_shard_of_new_s": round(min(firsts) / 1000 - t, 1) if firsts else None,
                           "counts": tr.counts(alive), "every_20s": [h for h in hist if h[0] % 20 == 0], "leader": em.leader(app)})
        def lose(key, w, sig, limit):
            tr.poll(); own = tr.owners(); theirs = {s for s, o in own.items() if o == w}; p = alive.pop(w); lead = em.leader(app); sent0 = time.time()
            t = time.time(); os.kill(p.p.pid, sig); seen = {}
            while time.time() - t < limit:
                tr.poll()
                for x in tr.rows:
                    if x[0] >= t * 1000 and x[2] in theirs and x[1] != w and x[2] not in seen: seen[x[2]] = x[0] / 1000 - t
                if len(seen) == len(theirs): break
                time.sleep(0.5)
            time.sleep(12 if sig == signal.SIGTERM else 3); p.kill(signal.SIGKILL if sig == signal.SIGKILL else signal.SIGTERM, 30); tr.poll()
            first = {}; dup = 0
            for x in sorted(tr.rows):
                if (x[2], x[3]) in first:
                    if x[0] >= (t - 1) * 1000: dup += 1
                else: first[(x[2], x[3])] = x[0]
            keys = {x[4] for x in tr.rows}; now = time.time() * 1000
            lost = [k for k, at in list(self.trickle.sent.items()) if self.counted_from <= at < now - 8000 and k not in keys]
            v = sorted(seen.values())
            self.say(key, {"load": load(), "victim": w, "leader": lead, "victim_shards": len(theirs), "taken": len(v), "first_s": round(v[0], 1) if v else None, "median_s": round(v[len(v)//2], 1) if v else None,
                           "last_s": round(v[-1], 1) if len(v) == len(theirs) and v else f"{len(theirs)-len(v)} not taken in {limit} s", "process_ended_s": round(p.ended - t, 1) if p.usage else None,
                           "duplicates": dup, "not_seen": len(lost), "counts": tr.counts(alive)})
        self.trickle = Trickle(em, "fl"); self.trickle.start(); self.counted_from = 0
        w1 = start("w1"); t = w1.t
        def has_all(): time.sleep(0.5); return len([1 for o in tr.owners().values() if o == "w1"]) == S
        ok = w1.until(has_all, a.wait)
        f = w1.first("first-record")
        self.say("ramp", {"first_s": round(f[0] - t, 1) if f else None, "all_s": round(time.time() - t, 1) if ok else f"{len(tr.owners())} of {S} in {a.wait} s"})
        if "b7" not in a.skip:
            self.trickle.off.set(); self.trickle.join(); time.sleep(10)
            for k in range(2):
                em.counts(em.kp, True); em.counts(em.dp, True); c = w1.cpu(); t = time.time(); time.sleep(60)
                self.say(f"b7.{k}", {"load": load(), "cpu_s_per_min": round((w1.cpu() - c) * 60 / (time.time() - t), 2), **w1.status(), "goroutines": (w1.last("count") or (0, {}))[1].get("goroutines"), "kinesis": per_minute(em.counts(em.kp)), "dynamo": per_minute(em.counts(em.dp))})
            k = Trickle(em, "fl"); k.n, k.sent = self.trickle.n, self.trickle.sent; self.trickle = k; k.start(); time.sleep(15)
        if "b4" not in a.skip: start("w2"); balance("b4.second", a.balance)
        if "b3" not in a.skip:
            em.counts(em.kp, True); em.counts(em.dp, True); time.sleep(a.window)
            self.say("b3", {"load": load(), "counts": tr.counts(alive), "dynamo": per_minute(em.counts(em.dp)), "kinesis": per_minute(em.counts(em.kp))})
        if "b4c" not in a.skip: start("w3"); balance("b4.third", a.balance)
        if "b6" not in a.skip: lose("b6", "w3" if "w3" in alive else "w2", signal.SIGTERM, 180); time.sleep(10)
        if "w2" in alive and "b5" not in a.skip: lose("b5.second", "w2", signal.SIGKILL, 240); time.sleep(5)
        if "b5l" not in a.skip:
            start("w4"); balance("b4.fourth", min(a.balance, 180), 5)
            lose("b5.first", "w1", signal.SIGKILL, 300)
        self.trickle.off.set()
        for p in list(alive.values()): p.kill()
        self.save()

def main():
    work = os.environ.get("PEERS_WORK", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "interop", "peers", ".work"))
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--name", default="consumer"); ap.add_argument("--out", required=True); ap.add_argument("--port", type=int, default=21000)
    ap.add_argument("--runs", type=int, default=2); ap.add_argument("--wait", type=int, default=300); ap.add_argument("--skip", default="", type=lambda s: s.split(","))
    ap.add_argument("--shards", type=int, default=64); ap.add_argument("--per-shard", type=int, default=50000); ap.add_argument("--balance", type=int, default=300); ap.add_argument("--window", type=int, default=120)
    ap.add_argument("--ferro", default=os.environ.get("FERRO", "ferrokinesis")); ap.add_argument("--dynox", default=os.environ.get("DYNOX", "dynoxide")); ap.add_argument("--countproxy", default=os.environ.get("COUNTPROXY", f"{work}/bin/countproxy"))
    ap.add_argument("--shim", help="a program started as SHIM -listen ADDR -to URL between the consumer and ferrokinesis (mains/arnshim)")
    ap.add_argument("bench", choices=["first", "catchup", "fleet"])
    argv = sys.argv[1:]; i = argv.index("--") if "--" in argv else len(argv)
    a = ap.parse_args(argv[:i]); a.cmd = argv[i + 1:]
    if not a.cmd: ap.error("a consumer command is needed after --")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the children go too
    try: b = Bench(a); getattr(b, a.bench)()
    finally:
        for p in Proc.all:
            if p.alive(): p.kill(signal.SIGKILL, 5)
    b.res["load_after"] = load(); b.save()


main()
