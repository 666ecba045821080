package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// latestKCL is the version of the KCL for scenarios that do not compare versions.
const latestKCL = "3.5.1"

// kclPeer builds interop/peers/kclpeer with that version of the KCL, anew where its source has changed, and returns the folder.
func (r *runner) kclPeer(ctx context.Context, version string) (string, error) {
	dir := filepath.Join(r.work, "kclpeer-"+version)
	return dir, r.once("kclpeer "+version, func() error {
		if err := r.have("java", "mvn"); err != nil {
			return err
		}
		source := filepath.Join(r.root, "interop", "peers", "kclpeer")
		if built, err := os.Stat(filepath.Join(dir, "kclpeer.jar")); err == nil {
			newer := false
			for _, f := range []string{"pom.xml", "src/main/java/peer/KclPeer.java"} {
				s, err := os.Stat(filepath.Join(source, f))
				if err != nil {
					return err
				}
				newer = newer || s.ModTime().After(built.ModTime())
			}
			if !newer {
				return nil
			}
		}
		_, err := r.command(ctx, r.root, nil, "mvn", "-q", "-B", "-f", filepath.Join(source, "pom.xml"), "-Dkcl.version="+version, "-DbuildDirectory="+dir, "package")
		return noNetwork(err)
	})
}

// kclCommand is the command that starts a worker of that version. Its log of level INFO is what it writes to stderr.
func (r *runner) kclCommand(ctx context.Context, version string, args ...string) (*exec.Cmd, error) {
	dir, err := r.kclPeer(ctx, version)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(r.root, "interop", "peers", "kclpeer", "run.sh"), args...)
	cmd.Env = append(os.Environ(), "PEERS_WORK="+r.work, "KCL="+dir, "LOG=info")
	return cmd, nil
}

// peerMarks are the events of kclpeer, and of our own worker (worker.go), that tell how far a worker has come with a shard.
var peerMarks = map[string]mark{"initialize": began, "batch-end": batchEnd, "lease-lost": gaveUp, "shutdown-requested": asked, "shard-ended": ended}

// parsePeer reads a line of interop/peers/kclpeer, and of our own worker.
func parsePeer(worker string, text []byte) (delivery, error) {
	if !bytes.HasPrefix(text, []byte(`{"ms":`)) {
		return delivery{}, nil // libraries print too
	}
	var l struct {
		Event, Stream, Shard, Sequence, Key, Error string
		Sub                                        uint64
		Data                                       []byte
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return delivery{}, fmt.Errorf("worker %s wrote %q: %w", worker, text, err)
	}
	d := delivery{worker: worker, stream: l.Stream, shard: l.Shard}
	if m, ok := peerMarks[l.Event]; ok {
		d.mark = m
		return d, nil
	}
	switch l.Event {
	case "record":
	case "checkpoint-failed":
		// Its lease may be gone; whether it may be is judged by what is delivered again.
		return delivery{}, nil
	default:
		return delivery{}, nil
	}
	f := strings.Fields(string(l.Data))
	if len(f) < 2 || f[0] != l.Key {
		return delivery{}, fmt.Errorf("worker %s delivered a record under key %q that nobody put: %q", worker, l.Key, l.Data)
	}
	d.seq, d.sub, d.key, d.id = l.Sequence, l.Sub, l.Key, f[0]+" "+f[1]
	return d, nil
}
