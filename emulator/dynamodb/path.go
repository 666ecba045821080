package dynamodb

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// path is a document path: an attribute name, then members and indexes.
type path []step

type step struct {
	name  string
	index int // when list
	list  bool
}

func (p path) String() string {
	var parts []string
	for _, s := range p {
		if s.list {
			parts = append(parts, "["+strconv.Itoa(s.index)+"]")
		} else {
			parts = append(parts, s.name)
		}
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// get finds what the path names; ok is false when it is not there.
func (p path) get(it item) (v value, ok bool) {
	v, ok = it[p[0].name]
	for _, s := range p[1:] {
		if !ok {
			return
		}
		v, ok = s.of(v)
	}
	return
}

func (s step) of(v value) (value, bool) {
	switch {
	case s.list && v.kind == kindL && s.index < len(v.list):
		return v.list[s.index], true
	case !s.list && v.kind == kindM:
		w, ok := v.m[s.name]
		return w, ok
	}
	return value{}, false
}

// set puts w at the path of an item the caller owns; containers on the way
// are copied. An index past the end of a list appends.
func (p path) set(it item, w value) error {
	if len(p) == 1 {
		it[p[0].name] = w
		return nil
	}
	v, ok := it[p[0].name]
	if !ok {
		return errBadPath()
	}
	v, err := setIn(v, p[1:], w)
	it[p[0].name] = v
	return err
}

func errBadPath() error {
	return invalid("The document path provided in the update expression is invalid for update")
}

func setIn(v value, p path, w value) (value, error) {
	s := p[0]
	if s.list != (v.kind == kindL) || !s.list && v.kind != kindM {
		return v, errBadPath()
	}
	if len(p) > 1 {
		in, ok := s.of(v)
		if !ok {
			return v, errBadPath()
		}
		var err error
		if w, err = setIn(in, p[1:], w); err != nil {
			return v, err
		}
	}
	if !s.list {
		v.m = maps.Clone(v.m)
		v.m[s.name] = w
		return v, nil
	}
	v.list = slices.Clone(v.list)
	if s.index < len(v.list) {
		v.list[s.index] = w
	} else {
		v.list = append(v.list, w)
	}
	return v, nil
}

// remove deletes what the path names; a last step that is not there is no
// error, a container on the way that is not there is one.
func (p path) remove(it item) error {
	if len(p) == 1 {
		delete(it, p[0].name)
		return nil
	}
	v, ok := it[p[0].name]
	if !ok {
		return errBadPath()
	}
	v, err := removeIn(v, p[1:])
	it[p[0].name] = v
	return err
}

func removeIn(v value, p path) (value, error) {
	s := p[0]
	if s.list != (v.kind == kindL) || !s.list && v.kind != kindM {
		return v, errBadPath()
	}
	in, ok := s.of(v)
	if len(p) > 1 {
		if !ok {
			return v, errBadPath()
		}
		in, err := removeIn(in, p[1:])
		if err != nil {
			return v, err
		}
		return setIn(v, p[:1], in)
	}
	if !ok {
		return v, nil
	}
	if s.list {
		v.list = slices.Delete(slices.Clone(v.list), s.index, s.index+1)
	} else {
		v.m = maps.Clone(v.m)
		delete(v.m, s.name)
	}
	return v, nil
}

// clash says how two paths of one expression get in each other's way: one is
// a prefix of the other ("overlap"), or they take one container for both a
// map and a list ("conflict").
func (p path) clash(q path) string {
	for i := range min(len(p), len(q)) {
		switch {
		case p[i].list != q[i].list:
			return "conflict"
		case p[i] != q[i]:
			return ""
		}
	}
	return "overlap"
}

// clashing finds the first pair that clashes. Paths are few.
func clashing(paths []path) error {
	for i, p := range paths {
		for _, q := range paths[:i] {
			if how := q.clash(p); how != "" {
				return invalidPaths(how, q, p)
			}
		}
	}
	return nil
}

type pathError string

func (e pathError) Error() string { return string(e) }

func invalidPaths(how string, p, q path) error {
	return pathError("Two document paths " + how + " with each other; must remove or rewrite one of these paths; path one: " + p.String() + ", path two: " + q.String())
}

// comparePaths orders list indexes by number, for removal from the back and
// for projection in order.
func comparePaths(p, q path) int {
	return slices.CompareFunc(p, q, func(a, b step) int {
		if a.list && b.list {
			return a.index - b.index
		}
		return strings.Compare(a.name, b.name)
	})
}

// project keeps what the paths name. Elements picked from one list stay in
// their order and close up, as the service answers them.
func project(it item, paths []path) item {
	out := item{}
	if !slices.ContainsFunc(paths, func(p path) bool { return len(p) > 1 }) {
		for _, p := range paths {
			if v, ok := it[p[0].name]; ok {
				out[p[0].name] = v
			}
		}
		return out
	}
	for _, g := range group(paths) {
		if v, ok := it[g.step.name]; ok {
			if v, ok = pick(v, g.rest); ok {
				out[g.step.name] = v
			}
		}
	}
	return out
}

type pathGroup struct {
	step step
	rest []path
}

// group gathers paths by their first step, in order of index.
func group(paths []path) []pathGroup {
	var gs []pathGroup
	for _, p := range slices.SortedFunc(slices.Values(paths), comparePaths) {
		if n := len(gs); n > 0 && gs[n-1].step == p[0] {
			gs[n-1].rest = append(gs[n-1].rest, p[1:])
			continue
		}
		gs = append(gs, pathGroup{p[0], []path{p[1:]}})
	}
	return gs
}

func pick(v value, paths []path) (value, bool) {
	if len(paths) == 1 && len(paths[0]) == 0 {
		return v, true
	}
	out := value{kind: v.kind}
	if v.kind == kindM {
		out.m = item{}
	}
	found := false
	for _, g := range group(paths) {
		in, ok := g.step.of(v)
		if ok {
			in, ok = pick(in, g.rest)
		}
		switch {
		case !ok:
			continue
		case g.step.list:
			out.list = append(out.list, in)
		default:
			out.m[g.step.name] = in
		}
		found = true
	}
	return out, found
}
