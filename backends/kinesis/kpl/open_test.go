package kpl

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/shardwarden/shardwarden/backends/kinesis/kpl/kpltest"
	"github.com/shardwarden/shardwarden/core"
)

func container(data []byte) *core.Record {
	return &core.Record{Data: data, Key: "a", Sequence: "49590000000000000000000000000000000000000000000000000001", Arrived: 1700000000001}
}

func userRecords(n, size int, hashKeys bool) []kpltest.Record {
	records := make([]kpltest.Record, n)
	for i := range records {
		records[i] = kpltest.Record{Key: fmt.Sprintf("key-%d", i%50), Data: bytes.Repeat([]byte{byte(i)}, size)}
		if hashKeys {
			records[i].HashKey = fmt.Sprint(i % 50)
		}
	}
	return records
}

func TestOpenGivesWhatWasPutIn(t *testing.T) {
	for _, hashKeys := range []bool{false, true} {
		in := userRecords(200, 100, hashKeys)
		c := container(kpltest.Aggregate(in...))
		got, outside, err := new(Opener).Open(nil, c)
		if err != nil || outside != 0 || len(got) != len(in) {
			t.Fatalf("%d records, %d left out, %v", len(got), outside, err)
		}
		for i, r := range got {
			u := r.Native.(*UserRecord)
			if r.Key != in[i].Key || !bytes.Equal(r.Data, in[i].Data) || r.Sub != uint64(i) || r.Sequence != c.Sequence || r.Arrived != c.Arrived ||
				u.HashKey != in[i].HashKey || u.Explicit != hashKeys {
				t.Fatalf("record %d is %+v %+v, put in %+v", i, r, u, in[i])
			}
			if cap(r.Data) != len(r.Data) {
				t.Fatalf("record %d: appending to its data would overwrite the next", i)
			}
		}
	}
}

// A reader opens a container each few hundred bytes, so what is allocated for one counts.
func TestAllocationsPerContainer(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates, and its pools forget")
	}
	for name, c := range map[string]struct {
		hashKeys bool
		most     float64
	}{"keys": {false, 0}, "hash keys": {true, 3}} {
		in := container(kpltest.Aggregate(userRecords(200, 100, c.hashKeys)...))
		o := Opener{Range: &core.HashRange{End: [16]byte{0xff}}}
		records := make([]core.Record, 0, 200)
		n := testing.AllocsPerRun(100, func() {
			var err error
			if records, _, err = o.Open(records[:0], in); err != nil {
				t.Fatal(err)
			}
		})
		if n > c.most {
			t.Errorf("%s: %v allocations for a container of 200, at most %v", name, n, c.most)
		}
	}
}

// What is kept of a record must not change when its page serves another.
func TestNativeOwnsItsMemory(t *testing.T) {
	data := kpltest.Aggregate(kpltest.Record{Key: "k", HashKey: "17", Data: []byte("x")})
	got, _, err := new(Opener).Open(nil, container(data))
	if err != nil {
		t.Fatal(err)
	}
	kept := got[0].Clone()
	clear(data)
	if u := kept.Native.(*UserRecord); u.HashKey != "17" || kept.Key != "k" {
		t.Errorf("the clone is %+v with %+v", kept, u)
	}
}

func TestDataAndKeysAreViews(t *testing.T) {
	data := kpltest.Aggregate(kpltest.Record{Key: "key", Data: []byte("data")})
	got, _, err := new(Opener).Open(nil, container(data))
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		data[i] = '!'
	}
	if got[0].Key != "!!!" || string(got[0].Data) != "!!!!" {
		t.Errorf("%q and %q were copied", got[0].Key, got[0].Data)
	}
}

func TestOpenerForgetsContainers(t *testing.T) {
	var o Opener
	many := make([]kpltest.Record, 2*mostKept)
	for i := range many {
		many[i].Key = fmt.Sprint(i)
	}
	if _, _, err := o.Open(nil, container(kpltest.Aggregate(many...))); err != nil {
		t.Fatal(err)
	}
	if n := max(cap(o.m.keys), cap(o.m.refs), cap(o.keys.texts)); n > mostKept {
		t.Errorf("room for %d entries is kept", n)
	}
	if _, _, err := o.Open(nil, container(kpltest.Aggregate(userRecords(10, 10, true)...))); err != nil {
		t.Fatal(err)
	}
	for _, entry := range o.m.keys[:cap(o.m.keys)] {
		if entry != nil {
			t.Fatal("a view of the container is kept")
		}
	}
	for _, s := range o.keys.texts[:cap(o.keys.texts)] {
		if s != "" {
			t.Fatal("a view of the container is kept")
		}
	}
}

// A million bytes of keys, in as many entries as fit, and as many user records as fit: work and memory stay in proportion.
func TestHugeTables(t *testing.T) {
	entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "")
	body := bytes.Repeat(entry, 500_000)
	last := protowire.AppendVarint([]byte{0x08}, 499_999)
	record := append(last, 0x1a, 0x00)
	body = protowire.AppendBytes(append(body, 0x1a), record)
	got, _, err := new(Opener).Open(nil, container(kpltest.Seal(body)))
	if err != nil || len(got) != 1 {
		t.Fatalf("table of 500,000: %d records, %v", len(got), err)
	}

	one := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), strings.Repeat("k", 1_000_000))
	one = append(one, bytes.Repeat([]byte{0x1a, 4, 0x08, 0, 0x1a, 0}, 1000)...)
	if got, _, err = new(Opener).Open(nil, container(kpltest.Seal(one))); err != nil || len(got) != 1000 || len(got[999].Key) != 1_000_000 {
		t.Fatalf("key of 1,000,000 bytes: %d records, %v", len(got), err)
	}

	tiny := append([]byte{0x0a, 0}, bytes.Repeat([]byte{0x1a, 4, 0x08, 0, 0x1a, 0}, 170_000)...)
	o := Opener{Range: &core.HashRange{Start: [16]byte{0xff}, End: [16]byte{0xff, 0xff}}}
	if got, outside, err := o.Open(nil, container(kpltest.Seal(tiny))); err != nil || len(got) != 0 || outside != 170_000 {
		t.Fatalf("170,000 user records: %d left out, %d records, %v", outside, len(got), err)
	}
}

func TestParseHashKey(t *testing.T) {
	for text, want := range map[string]struct {
		h  hashKey
		ok bool
	}{
		"0": {hashKey{}, true}, "+5": {hashKey{0, 5}, true}, "-0": {hashKey{}, true}, "007": {hashKey{0, 7}, true},
		"18446744073709551616":                    {hashKey{1, 0}, true},
		"340282366920938463463374607431768211455": {hashKey{^uint64(0), ^uint64(0)}, true},
		"340282366920938463463374607431768211456": {}, "3402823669209384634633746074317682114550": {}, "-1": {}, "": {}, "+": {}, "-": {}, "1 ": {}, "0x5": {}, "1e3": {},
	} {
		if h, ok := parseHashKey(text); ok != want.ok || ok && h != want.h {
			t.Errorf("%q is %v, %v; want %v, %v", text, h, ok, want.h, want.ok)
		}
	}
}

// schema is the format's own, for a decoder that shares nothing with ours.
var schema = func() protoreflect.MessageDescriptor {
	field := func(name string, n int32, label descriptorpb.FieldDescriptorProto_Label, typ descriptorpb.FieldDescriptorProto_Type, of string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &n, Label: &label, Type: &typ}
		if of != "" {
			f.TypeName = &of
		}
		return f
	}
	const (
		required = descriptorpb.FieldDescriptorProto_LABEL_REQUIRED
		optional = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
		repeated = descriptorpb.FieldDescriptorProto_LABEL_REPEATED
		text     = descriptorpb.FieldDescriptorProto_TYPE_STRING
		number   = descriptorpb.FieldDescriptorProto_TYPE_UINT64
		data     = descriptorpb.FieldDescriptorProto_TYPE_BYTES
		message  = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	)
	type fields = []*descriptorpb.FieldDescriptorProto
	f, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("kpl.proto"), Syntax: new("proto2"),
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: new("AggregatedRecord"), Field: fields{field("keys", 1, repeated, text, ""), field("hash_keys", 2, repeated, text, ""), field("records", 3, repeated, message, ".Record")}},
			{Name: new("Record"), Field: fields{field("key", 1, required, number, ""), field("hash_key", 2, optional, number, ""), field("data", 3, required, data, ""), field("tags", 4, repeated, message, ".Tag")}},
			{Name: new("Tag"), Field: fields{field("key", 1, required, text, ""), field("value", 2, optional, text, "")}},
		},
	}, nil)
	if err != nil {
		panic(err)
	}
	return f.Messages().ByName("AggregatedRecord")
}()

// FuzzOpen reads the messages of containers with protobuf's own decoder, too.
func FuzzOpen(f *testing.F) {
	for _, file := range files {
		for _, v := range readVectors(f, file) {
			for _, r := range v.Records {
				if IsAggregate(r.Data) && len(r.Data) > 20 {
					f.Add(r.Data[4:len(r.Data)-16], true)
					f.Add(r.Data[4:], false)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, seal bool) {
		data := append(slices.Clone(magic), body...)
		if seal {
			data = kpltest.Seal(body)
		}
		in := container(data)
		o := Opener{}
		got, outside, err := o.Open(nil, in)
		if outside != 0 {
			t.Errorf("%d records left out where there is no range", outside)
		}
		if !seal {
			return
		}
		m := dynamicpb.NewMessage(schema)
		oracle := proto.Unmarshal(body, m)
		if len(body) == 0 || oracle != nil {
			// Of what protobuf itself refuses nothing may be opened, but for what is deeper than it goes.
			if err == nil && len(body) < 10_000 {
				t.Fatalf("opened, though protobuf says: %v", oracle)
			}
			return
		}
		get := func(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
			return m.Get(m.Descriptor().Fields().ByName(name))
		}
		keys, hashKeys, records := get(m, "keys").List(), get(m, "hash_keys").List(), get(m, "records").List()
		if err != nil {
			for i := range records.Len() { // some index or hash key must be to blame
				r := records.Get(i).Message()
				explicit := r.Has(r.Descriptor().Fields().ByName("hash_key"))
				if get(r, "key").Uint() >= uint64(keys.Len()) || explicit && (get(r, "hash_key").Uint() >= uint64(hashKeys.Len()) || !parses(hashKeys.Get(int(get(r, "hash_key").Uint())).String())) {
					return
				}
			}
			t.Fatalf("refused (%v) though nothing is wrong with it", err)
		}
		if len(got) != records.Len() {
			t.Fatalf("%d records, protobuf sees %d", len(got), records.Len())
		}
		for i, g := range got {
			r := records.Get(i).Message()
			if key := text([]byte(keys.Get(int(get(r, "key").Uint())).String())); g.Key != key || !bytes.Equal(g.Data, get(r, "data").Bytes()) {
				t.Fatalf("record %d is %q %q", i, g.Key, g.Data)
			}
		}
		o.Range = &core.HashRange{Start: [16]byte{0x40}, End: [16]byte{0xbf, 0xff}}
		if some, outside, err := o.Open(nil, in); err != nil || len(some)+outside != len(got) {
			t.Fatalf("of %d records %d and %d: %v", len(got), len(some), outside, err)
		}
	})
}

func parses(s string) bool { _, ok := parseHashKey(s); return ok }

func BenchmarkOpen(b *testing.B) {
	for _, c := range []struct {
		name     string
		hashKeys bool
		filter   *core.HashRange
	}{{"keys", false, nil}, {"filtered", false, &core.HashRange{End: [16]byte{0xff}}}, {"hashkeys", true, nil}} {
		b.Run(c.name, func(b *testing.B) {
			in := container(kpltest.Aggregate(userRecords(200, 100, c.hashKeys)...))
			o := Opener{Range: c.filter}
			records := make([]core.Record, 0, 200)
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if records, _, err = o.Open(records[:0], in); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(200*float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
