package cpuload

import (
	"fmt"
	"strconv"
	"strings"
)

// parseGroup finds the group of version 2 in /proc/self/cgroup: the line "0::/path".
func parseGroup(text string) (name string, found bool) {
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return name, true
		}
	}
	return "", false
}

// parseMax is cpu.max, "quota period" in microseconds, as processors; 0: no limit ("max").
func parseMax(text string) (float64, error) {
	f := strings.Fields(text)
	if len(f) != 2 {
		return 0, fmt.Errorf("cpu.max is %.40q: expected a quota and a period", text)
	}
	period, err := strconv.ParseFloat(f[1], 64)
	if err != nil || period <= 0 {
		return 0, fmt.Errorf("cpu.max is %.40q: the period is no number above 0", text)
	}
	if f[0] == "max" {
		return 0, nil
	}
	quota, err := strconv.ParseFloat(f[0], 64)
	if err != nil || quota <= 0 {
		return 0, fmt.Errorf("cpu.max is %.40q: the quota is no number above 0", text)
	}
	return quota / period, nil
}

// parseUsage is the processor time in cpu.stat, in seconds.
func parseUsage(text string) (float64, error) {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, "usage_usec "); ok {
			us, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
			return us / 1e6, err
		}
	}
	return 0, fmt.Errorf("cpu.stat has no usage_usec: %.40q", text)
}

// parseSet counts the processors of a list such as "0-3,7".
func parseSet(text string) (int, error) {
	n := 0
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		from, to, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(from)
		b := a
		if err == nil && isRange {
			b, err = strconv.Atoi(to)
		}
		if err != nil || a < 0 || b < a {
			return 0, fmt.Errorf("set of processors %.40q: %.20q is neither a number nor a range", text, part)
		}
		n += b - a + 1
	}
	return n, nil
}

// parseStat is the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal, and guest times, which user and nice contain.
// Idle and waiting processors are not used.
func parseStat(text string) (used, total float64, err error) {
	line, _, _ := strings.Cut(text, "\n")
	f := strings.Fields(line)
	if len(f) < 5 || f[0] != "cpu" {
		return 0, 0, fmt.Errorf("/proc/stat begins with %.40q: expected the times of all processors", text)
	}
	for i, v := range f[1:min(len(f), 9)] {
		t, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("/proc/stat: %.40q is no time", v)
		}
		total += t
		if i != 3 && i != 4 {
			used += t
		}
	}
	return used, total, nil
}
