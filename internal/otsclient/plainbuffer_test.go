package otsclient_test

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/internal/otsclient"
)

// The golden blobs of docs/reference/tablestore.md 2.6.
var golden = map[string]string{
	"update":       "75000000 01 03 04 01000000 6b 05 06000000 03 01000000 76 0a 34 02 03 04 0c000000 4c65617365436f756e746572 05 09000000 00 0200000000000000 0a 61 09 aa",
	"least key":    "75000000 01 03 04 01000000 6b 05 01000000 09 0a 5d 09 e5",
	"greatest key": "75000000 01 03 04 01000000 6b 05 01000000 0a 0a 54 09 58",
	"put": "75000000 01 03 04 02000000 6964 05 09000000 00 0100000000000000 0a 0a 02 03 04 01000000 61 05 06000000 03 01000000 78 07" +
		"e803000000000000 0a e8 0b 18000000 0c 13000000 0d 01000000 0e 00c029f73d540500 0f 03000000 09 6c",
	"delete cells": "75000000 01 03 04 02000000 6964 05 09000000 00 0200000000000000 0a 3f 02 03 04 01000000 61 06 01 0a e7 03 04 01000000 62 06 03 07" +
		"e803000000000000 0a 6b 03 04 01000000 63 05 02000000 02 01 07 e803000000000000 0a 47 0b 18000000 0c 13000000 0d 01000000 0e" +
		"01c029f73d540500 0f 00000000 09 79",
	"delete": "75000000 01 03 04 02000000 6964 05 09000000 00 0300000000000000 0a 2c 08 0b 18000000 0c 13000000 0d 01000000 0e 02c029f73d540500 0f 00000000 09 55",
}

func blob(t testing.TB, name string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(golden[name], " ", ""))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return b
}

func TestCheckRows(t *testing.T) {
	for name := range golden {
		good := blob(t, name)
		if err := otsclient.CheckRows(good); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		two := append(bytes.Clone(good), good[4:]...)
		if err := otsclient.CheckRows(two); err != nil {
			t.Errorf("%s twice: %v", name, err)
		}
		for n := 1; n < len(good); n++ {
			if n > 4 && otsclient.CheckRows(good[:n]) == nil {
				t.Errorf("%s: passes with %d of %d bytes", name, n, len(good))
			}
		}
		for i := range good {
			for bit := range 8 {
				bad := bytes.Clone(good)
				bad[i] ^= 1 << bit
				if otsclient.CheckRows(bad) == nil && !unprotected(name, i, good) {
					t.Errorf("%s: passes with bit %d of byte %d (%#x) turned", name, bit, i, good[i])
				}
			}
		}
	}
	if err := otsclient.CheckRows(nil); err != nil {
		t.Errorf("no rows: %v", err)
	}
}

// unprotected: no checksum covers the content of an extension.
func unprotected(name string, i int, good []byte) bool {
	at := bytes.Index(good, []byte{0x0b, 0x18, 0, 0, 0, 0x0c})
	return at >= 0 && i > at+4 && i < len(good)-2
}

// What the SDK writes passes, with every type of value.
func TestCheckRowsOfTheSDK(t *testing.T) {
	c := new(tablestore.UpdateRowChange)
	c.PrimaryKey = new(tablestore.PrimaryKey)
	c.PrimaryKey.AddPrimaryKeyColumn("s", "")
	c.PrimaryKey.AddPrimaryKeyColumn("i", int64(-1))
	c.PrimaryKey.AddPrimaryKeyColumn("b", []byte{})
	c.PrimaryKey.AddPrimaryKeyColumnWithAutoIncrement("auto")
	c.PutColumn("text", "öß")
	c.PutColumn("blob", bytes.Repeat([]byte{0xff}, 300))
	c.PutColumn("float", 1.5)
	c.PutColumn("yes", true)
	c.PutColumnWithTimestamp("then", int64(1), 1000)
	c.DeleteColumn("gone")
	c.DeleteColumnWithTimestamp("one", 7)
	c.IncrementColumn("n", 1)
	if err := otsclient.CheckRows(c.Serialize()); err != nil {
		t.Error(err)
	}
}

func FuzzCheckRows(f *testing.F) {
	for name := range golden {
		f.Add(blob(f, name))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if otsclient.CheckRows(b) == nil && len(b) > 0 && len(b) < 4 {
			t.Errorf("%x passes", b)
		}
	})
}

func BenchmarkCheckRows(b *testing.B) {
	row := blob(b, "update")
	b.SetBytes(int64(len(row)))
	for b.Loop() {
		if err := otsclient.CheckRows(row); err != nil {
			b.Fatal(err)
		}
	}
}
