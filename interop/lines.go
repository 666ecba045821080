package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// readLines reads a pipe to its end and hands over each line with the interval in which it was written: after the pipe was last
// seen empty, before the read that brought it. That needs reads that don't block, since only EAGAIN says "empty".
func readLines(pipe *os.File, line func(text []byte, after, before time.Time)) error {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return err
	}
	var rest []byte
	var restAfter time.Time // of the unfinished line
	buf := make([]byte, 256<<10)
	var empty time.Time // the zero time: not seen empty yet, so nothing is known
	for {
		var n int
		var rerr error
		err := conn.Read(func(fd uintptr) bool {
			asked := time.Now()
			n, rerr = syscall.Read(int(fd), buf)
			switch {
			case errors.Is(rerr, syscall.EAGAIN):
				empty = asked
				return false
			case errors.Is(rerr, syscall.EINTR):
				return false
			}
			return true
		})
		if err == nil {
			err = rerr
		}
		if err != nil {
			return err
		}
		if n == 0 {
			if len(rest) > 0 {
				return fmt.Errorf("the last line was cut: %w", io.ErrUnexpectedEOF)
			}
			return nil
		}
		before := time.Now()
		if len(rest) == 0 {
			restAfter = empty
		}
		rest = append(rest, buf[:n]...)
		for {
			text, more, found := bytes.Cut(rest, []byte{'\n'})
			if !found {
				break
			}
			line(text, restAfter, before)
			rest, restAfter = more, empty
		}
	}
}
