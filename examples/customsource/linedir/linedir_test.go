package linedir_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/examples/customsource/linedir"
)

// dir is a directory with the files named.
func dir(t testing.TB, files map[string]string) linedir.Source {
	t.Helper()
	d := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(d, name), text)
	}
	return linedir.Source{Dir: d, Poll: time.Millisecond}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func appendTo(t testing.TB, s linedir.Source, shard, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(s.Dir, shard+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err2 := f.Close(); err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
}

func open(t testing.TB, s core.StreamSource, shard string, at core.Position) core.ShardReader {
	t.Helper()
	r, err := s.Open(t.Context(), core.Shard{ID: core.ShardID(shard)}, at)
	if err != nil {
		t.Fatalf("Open(%s, %s): %v", shard, at, err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// next reads one page: its lines, and the page.
func next(t testing.TB, r core.ShardReader) ([]string, *core.Page) {
	t.Helper()
	p, err := r.Next(t.Context())
	if err != nil {
		t.Fatalf("Next: %v", err)
	}
	var out []string
	for _, rec := range p.Records {
		out = append(out, rec.Key+"|"+string(rec.Data))
	}
	return out, p
}

// all reads until nothing comes.
func all(t testing.TB, r core.ShardReader) (out []string, last *core.Page) {
	t.Helper()
	for {
		lines, p := next(t, r)
		if out = append(out, lines...); p.End || len(lines) == 0 {
			return out, p
		}
	}
}

func wantLines(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, c := range []struct {
		name, text string
		closed     bool
		want       []string
	}{
		{"keys and data", "a\t1\nb\t2\n", false, []string{"a|1", "b|2"}},
		{"no key", "just text\n", false, []string{"|just text"}},
		{"tabs in the data", "a\t1\t2\n", false, []string{"a|1\t2"}},
		{"an empty line is a record", "\n\na\t\n", false, []string{"|", "|", "a|"}},
		{"carriage returns are data", "a\t1\r\n", false, []string{"a|1\r"}},
		{"an incomplete line waits", "a\t1\nb\t", false, []string{"a|1"}},
		{"an incomplete line of a closed file", "a\t1\nb\t", true, []string{"a|1", "b|"}},
		{"nothing", "", false, nil},
		{"nothing, closed", "", true, nil},
		{"lines longer than a page", "a\t" + long + "\nb\t" + long + "\nc\t1\n", true, []string{"a|" + long, "b|" + long, "c|1"}},
	} {
		for _, page := range []int{1, 7, 64, 0} {
			t.Run(fmt.Sprint(c.name, ", pages of ", page), func(t *testing.T) {
				s := dir(t, map[string]string{"x.log": c.text})
				s.PageBytes = page
				if c.closed {
					write(t, filepath.Join(s.Dir, "x.closed"), "")
				}
				got, last := all(t, open(t, s, "x", core.FromHorizon))
				wantLines(t, "lines", got, c.want...)
				if last.End != c.closed {
					t.Errorf("end: %v, want %v", last.End, c.closed)
				}
			})
		}
	}
}

// Behind each record reading goes on with the next, whatever pages were like.
func TestResumeBehindEachLine(t *testing.T) {
	for _, end := range []string{"\n", ""} {
		s := dir(t, map[string]string{"x.log": "a\t1\n\nccc\t333\nd\t4" + end, "x.closed": ""})
		want := []string{"a|1", "|", "ccc|333", "d|4"}
		r := open(t, s, "x", core.FromHorizon)
		_, p := next(t, r)
		for i, rec := range p.Records {
			got, last := all(t, open(t, s, "x", core.Position{Token: rec.Sequence}))
			wantLines(t, fmt.Sprint("behind line ", i), got, want[i+1:]...)
			if !last.End {
				t.Error("the file is closed, and no end comes")
			}
		}
	}
}

func TestFollowing(t *testing.T) {
	s := dir(t, map[string]string{"x.log": "a\t1\n"})
	r := open(t, s, "x", core.FromHorizon)
	lines, _ := next(t, r)
	wantLines(t, "at first", lines, "a|1")
	lines, _ = next(t, r)
	wantLines(t, "nothing new", lines)
	appendTo(t, s, "x", "b\t")
	lines, _ = next(t, r)
	wantLines(t, "half a line", lines)
	appendTo(t, s, "x", "2\nc\t3\nd")
	lines, p := next(t, r)
	wantLines(t, "the rest of it", lines, "b|2", "c|3")
	appendTo(t, s, "x", "\t4\n")
	write(t, filepath.Join(s.Dir, "x.closed"), "y\nz\n")
	lines, last := next(t, r)
	wantLines(t, "the last, before the end", lines, "d|4")
	if !last.End || len(last.Children) != 2 || last.Children[0].ID != "y" || !slices.Equal(last.Children[0].Parents, []core.ShardID{"x"}) {
		t.Errorf("the end: %+v, want children y and z of x", last)
	}
	wantLines(t, "after a stop in the midst", first(all(t, open(t, s, "x", core.Position{Token: p.Records[0].Sequence}))), "c|3", "d|4")

	y := open(t, s, "y", core.FromHorizon) // named, and has no file yet
	wantLines(t, "a file that is not there yet", first(next(t, y)))
	appendTo(t, s, "y", "e\t5\n")
	wantLines(t, "and then is", first(next(t, y)), "e|5")
}

func first(lines []string, _ *core.Page) []string { return lines }

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := dir(t, map[string]string{"x.log": ""})
		s.Poll = time.Second
		r := open(t, s, "x", core.FromHorizon)
		began := time.Now()
		for range 10 {
			next(t, r)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("ten looks at a file with nothing new took %v, want 10s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		began = time.Now()
		if _, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 500*time.Millisecond {
			t.Errorf("a context that ends: %v after %v", err, time.Since(began))
		}
		time.AfterFunc(500*time.Millisecond, func() { _ = r.Close() })
		if _, err := r.Next(t.Context()); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("Close while it waits: %v, want fs.ErrClosed", err)
		}
	})
}

func TestShards(t *testing.T) {
	s := dir(t, map[string]string{
		"a.log": "", "a.closed": "c", "b.log": "", "b.closed": "c\n", "c.log": "", "d.log": "", "d.closed": "", "notes.txt": "", ".log": "", "later.closed": "",
	})
	t0 := time.Now().Add(-time.Hour)
	for name, at := range map[string]time.Time{"a": t0, "b": t0.Add(time.Minute), "d": t0.Add(2 * time.Minute), "later": t0.Add(9 * time.Minute)} {
		if err := os.Chtimes(filepath.Join(s.Dir, name+".closed"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(s.Dir, "sub.log"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		open core.Position
		want string
	}{
		{"all", core.Position{}, "a b c d later"},
		{"horizon", core.FromHorizon, "a b d later"},
		{"latest", core.FromLatest, "c"},
		{"before all", core.From(t0.Add(-time.Hour)), "a b d later"},
		{"one parent closed", core.From(t0.Add(30 * time.Second)), "b d later"},
		{"both closed", core.Position{Anchor: core.Latest, Time: t0.Add(90 * time.Second)}, "c d later"},
	} {
		got, err := s.Shards(t.Context(), c.open)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		var ids []string
		for _, sh := range got {
			ids = append(ids, string(sh.ID))
			if sh.Closed != (sh.ID != "c") {
				t.Errorf("%s: shard %s closed: %v", c.name, sh.ID, sh.Closed)
			}
			if sh.ID == "c" && !slices.Equal(sh.Parents, []core.ShardID{"a", "b"}) {
				t.Errorf("%s: parents of c %v, want a and b", c.name, sh.Parents)
			}
		}
		if strings.Join(ids, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.name, ids, c.want)
		}
	}
	_, last := next(t, open(t, s, "a", core.FromHorizon))
	if !last.End || len(last.Children) != 1 || !slices.Equal(last.Children[0].Parents, []core.ShardID{"a", "b"}) {
		t.Errorf("a ends with %+v, want child c of a and b", last)
	}
}

func TestLatest(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for name, text := range map[string]string{"a\t1\n": "", "a\t1\nhalf": " a line", "half": " a line", "": "", "a\t1\n" + long: "", long: ""} {
		s := dir(t, map[string]string{"x.log": name})
		at, err := s.Resolve(t.Context(), core.Shard{ID: "x"}, core.FromLatest)
		if err != nil {
			t.Fatal(err)
		}
		appendTo(t, s, "x", text+"\nnew\n")
		got, _ := all(t, open(t, s, "x", at))
		if n := len(got); n == 0 || got[n-1] != "|new" || slices.Contains(got, "a|1") {
			t.Errorf("file of %d bytes: %d lines after Latest, want those that were not complete then", len(name), n)
		}
	}
	s := dir(t, map[string]string{"x.closed": "y"})
	if at, err := s.Resolve(t.Context(), core.Shard{ID: "y"}, core.FromLatest); err != nil || at.Token != "0" {
		t.Errorf("a file that is not there yet: %v, %v; want 0", at, err)
	}
}

func TestIdentity(t *testing.T) {
	s := dir(t, nil)
	var wg sync.WaitGroup
	ids := make([]core.StreamID, 8)
	for i := range ids {
		wg.Go(func() {
			info, err := s.Describe(t.Context())
			if err != nil {
				t.Error(err)
			}
			ids[i] = info.ID
		})
	}
	wg.Wait()
	if slices.Sort(ids); ids[0] == "" || ids[0] != ids[7] {
		t.Errorf("eight that describe it at once get %v", ids)
	}
	if left, _ := filepath.Glob(filepath.Join(s.Dir, ".stream-id.*")); len(left) > 0 {
		t.Errorf("drafts are left: %v", left)
	}
	if err := os.RemoveAll(s.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Describe(t.Context()); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("no directory: %v, want ErrNotFound", err)
	}
	if err := os.Mkdir(s.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if again, err := s.Describe(t.Context()); err != nil || again.ID == ids[0] {
		t.Errorf("the directory made again: %v, %v; want another id", again.ID, err)
	}
}

// Each mistake has an error that says what and where.
func TestBadInput(t *testing.T) {
	at := func(token string) core.Position { return core.Position{Token: token} }
	for _, c := range []struct {
		name  string
		files map[string]string
		do    func(t *testing.T, s linedir.Source) error
		want  error
		says  string
	}{
		{"no directory", nil, func(t *testing.T, s linedir.Source) error {
			s.Dir += "x"
			_, err := s.Shards(t.Context(), core.Position{})
			return err
		}, core.ErrNotFound, "list shards"},
		{"no file", nil, openAt(core.FromHorizon), core.ErrNotFound, "x.log"},
		{"a name that leads away", map[string]string{"x.log": ""}, func(t *testing.T, s linedir.Source) error {
			_, err := s.Open(t.Context(), core.Shard{ID: "../x"}, core.FromHorizon)
			return err
		}, core.ErrInvalid, `"../x"`},
		{"a token that is no number", map[string]string{"x.log": "a\n"}, openAt(at("495")), core.ErrTrimmed, "495"},
		{"a token of another kind", map[string]string{"x.log": "a\n"}, openAt(at("shard-1")), core.ErrInvalid, `"shard-1"`},
		{"a token below the file", map[string]string{"x.log": "a\n"}, openAt(at("-1")), core.ErrInvalid, `"-1"`},
		{"a token in a line", map[string]string{"x.log": "abc\n"}, openAt(at("2")), core.ErrInvalid, "byte 2"},
		{"a token behind the file", map[string]string{"x.log": "abc\n"}, openAt(at("5")), core.ErrTrimmed, "byte 5"},
		{"a token of a file that is gone", map[string]string{"x.closed": ""}, openAt(at("5")), core.ErrTrimmed, "byte 5"},
		{"a start at a time", map[string]string{"x.log": "a\n"}, openAt(core.From(time.Now())), core.ErrInvalid, "AT_TIMESTAMP"},
		{"latest, not resolved", map[string]string{"x.log": "a\n"}, openAt(core.FromLatest), core.ErrInvalid, "LATEST"},
		{"a listing at a token", nil, func(t *testing.T, s linedir.Source) error {
			_, err := s.Shards(t.Context(), at("5"))
			return err
		}, core.ErrInvalid, "5"},
		{"a marker that names itself", map[string]string{"x.closed": "x"}, list, core.ErrInvalid, "x.closed"},
		{"a marker that leads away", map[string]string{"x.closed": "../y"}, list, core.ErrInvalid, `"../y"`},
		{"a marker that names one twice", map[string]string{"x.closed": "y\ny"}, list, core.ErrInvalid, `"y"`},
		{"three parents", map[string]string{"a.closed": "x", "b.closed": "x", "c.closed": "x"}, list, core.ErrInvalid, "[a b c]"},
		{"a ring of markers", map[string]string{"a.closed": "b", "b.closed": "c", "c.closed": "a"}, list, core.ErrInvalid, "goes on in itself"},
		{"an empty id", map[string]string{".stream-id": "\n"}, func(t *testing.T, s linedir.Source) error {
			_, err := s.Describe(t.Context())
			return err
		}, core.ErrInvalid, ".stream-id"},
		{"a line that is too long", map[string]string{"x.log": "a\n" + strings.Repeat("x", 100) + "\n"}, func(t *testing.T, s linedir.Source) error {
			s.MaxLine, s.PageBytes = 50, 20
			r := open(t, s, "x", core.FromHorizon)
			wantLines(t, "the line before it", first(next(t, r)), "|a")
			_, err := r.Next(t.Context())
			return err
		}, core.ErrInvalid, "byte 2"},
		{"a file that was cut", map[string]string{"x.log": "a\nb\n"}, func(t *testing.T, s linedir.Source) error {
			r := open(t, s, "x", core.FromHorizon)
			next(t, r)
			write(t, filepath.Join(s.Dir, "x.log"), "a\n")
			_, err := r.Next(t.Context())
			return err
		}, core.ErrTrimmed, "was cut"},
		{"a file that was replaced", map[string]string{"x.log": "a\nb\n"}, func(t *testing.T, s linedir.Source) error {
			r := open(t, s, "x", core.FromHorizon)
			next(t, r)
			write(t, filepath.Join(s.Dir, "new"), "c\nd\ne\n")
			if err := os.Rename(filepath.Join(s.Dir, "new"), filepath.Join(s.Dir, "x.log")); err != nil {
				t.Fatal(err)
			}
			_, err := r.Next(t.Context())
			return err
		}, core.ErrInvalid, "was replaced"},
		{"a file that was removed", map[string]string{"x.log": "a\n"}, func(t *testing.T, s linedir.Source) error {
			r := open(t, s, "x", core.FromHorizon)
			next(t, r)
			if err := os.Remove(filepath.Join(s.Dir, "x.log")); err != nil {
				t.Fatal(err)
			}
			_, err := r.Next(t.Context())
			return err
		}, core.ErrNotFound, "x.log"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := dir(t, c.files)
			err := c.do(t, s)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %q, want %q that says %s", err, c.want, c.says)
			}
		})
	}
}

func openAt(at core.Position) func(*testing.T, linedir.Source) error {
	return func(t *testing.T, s linedir.Source) error {
		_, err := s.Open(t.Context(), core.Shard{ID: "x"}, at)
		return err
	}
}

func list(t *testing.T, s linedir.Source) error {
	_, err := s.Shards(t.Context(), core.Position{})
	return err
}

func TestCompare(t *testing.T) {
	ascending := []core.Position{core.FromHorizon, {Token: "0"}, {Token: "9"}, {Token: "10"}, core.AtShardEnd}
	for i, a := range ascending {
		for j, b := range ascending {
			if got := (linedir.Source{}).Compare(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("Compare(%s, %s) = %d", a, b, got)
			}
		}
	}
}

// A file that grows by odd pieces while it is read, and is closed in the midst: every line once, in order.
func TestReadingWhileItIsWritten(t *testing.T) {
	s := dir(t, map[string]string{"x.log": ""})
	s.PageBytes = 50
	var text strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&text, "k\t%d\n", i)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		dice := rand.New(rand.NewPCG(1, 2))
		for rest := text.String(); rest != ""; {
			n := min(1+dice.IntN(40), len(rest))
			appendTo(t, s, "x", rest[:n])
			rest = rest[n:]
		}
		write(t, filepath.Join(s.Dir, "x.closed"), "")
	})
	r := open(t, s, "x", core.FromHorizon)
	n := 0
	for {
		lines, p := next(t, r)
		for _, l := range lines {
			if want := fmt.Sprint("k|", n); l != want {
				t.Fatalf("line %s, want %s", l, want)
			}
			n++
		}
		if n%7 == 0 && len(lines) > 0 { // a new reader goes on where the last stood
			r = open(t, s, "x", core.Position{Token: p.Records[len(lines)-1].Sequence})
		}
		if p.End {
			break
		}
	}
	if wg.Wait(); n != 2000 {
		t.Errorf("%d lines, want 2000", n)
	}
}
