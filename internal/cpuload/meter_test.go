package cpuload

import (
	"maps"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

func files(text map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, s := range text {
		m[name] = &fstest.MapFile{Data: []byte(s)}
	}
	return m
}

const (
	container = "0::/\n"
	service   = "0::/system.slice/worker.service\n"
	hostIdle  = "cpu  100 0 50 800 40 0 5 5 0 0\ncpu0 1 2 3\n"
	hostBusy  = "cpu  160 0 80 850 50 0 5 5 60 0\ncpu0 1 2 3\n" // 90 used of 150
)

// What ten seconds were like, by the files before and after.
func TestAverage(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after map[string]string
		percent       float64
		ok            bool
	}{
		{"version 2, a quota of one and a half",
			map[string]string{"proc/self/cgroup": container, "sys/fs/cgroup/cpu.max": "150000 100000\n", "sys/fs/cgroup/cpu.stat": "usage_usec 1000000\nuser_usec 1\n"},
			map[string]string{"sys/fs/cgroup/cpu.stat": "usage_usec 4000000\nuser_usec 1\n"}, 20, true},
		{"version 2, a container without a quota",
			map[string]string{"proc/self/cgroup": container, "sys/fs/cgroup/cpu.max": "max 100000\n", "sys/fs/cgroup/cpuset.cpus.effective": "0-1,4,6-7\n", "sys/fs/cgroup/cpu.stat": "usage_usec 0\n"},
			map[string]string{"sys/fs/cgroup/cpu.stat": "usage_usec 25000000\n"}, 50, true},
		{"version 2, a service with a quota",
			map[string]string{"proc/self/cgroup": service, "sys/fs/cgroup/system.slice/worker.service/cpu.max": "200000 100000", "sys/fs/cgroup/system.slice/worker.service/cpu.stat": "usage_usec 0\n", "proc/stat": hostIdle},
			map[string]string{"sys/fs/cgroup/system.slice/worker.service/cpu.stat": "usage_usec 5000000\n"}, 25, true},
		{"version 2, a service without: the host counts",
			map[string]string{"proc/self/cgroup": service, "sys/fs/cgroup/system.slice/worker.service/cpu.max": "max 100000", "sys/fs/cgroup/system.slice/worker.service/cpu.stat": "usage_usec 0\n", "proc/stat": hostIdle},
			map[string]string{"proc/stat": hostBusy}, 60, true},
		{"version 2, the group's name is that of outside",
			map[string]string{"proc/self/cgroup": "0::/kubepods/pod1\n", "sys/fs/cgroup/cpu.max": "100000 100000", "sys/fs/cgroup/cpu.stat": "usage_usec 0\n"},
			map[string]string{"sys/fs/cgroup/cpu.stat": "usage_usec 1000000\n"}, 10, true},
		{"version 1, a quota of two",
			map[string]string{"proc/self/cgroup": "4:cpu,cpuacct:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n", "sys/fs/cgroup/cpuacct/cpuacct.usage": "0\n"},
			map[string]string{"sys/fs/cgroup/cpuacct/cpuacct.usage": "8000000000\n"}, 40, true},
		{"version 1, no quota",
			map[string]string{"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpuset/cpuset.effective_cpus": "3\n", "sys/fs/cgroup/cpuacct/cpuacct.usage": "0\n"},
			map[string]string{"sys/fs/cgroup/cpuacct/cpuacct.usage": "1000000000\n"}, 10, true},
		{"the host", map[string]string{"proc/stat": hostIdle}, map[string]string{"proc/stat": hostBusy}, 60, true},
		{"more than may be", map[string]string{"proc/self/cgroup": container, "sys/fs/cgroup/cpu.max": "100000 100000", "sys/fs/cgroup/cpu.stat": "usage_usec 0\n"},
			map[string]string{"sys/fs/cgroup/cpu.stat": "usage_usec 10100000\n"}, 100, true},
		{"counters that began anew", map[string]string{"proc/stat": hostBusy}, map[string]string{"proc/stat": hostIdle}, 0, false},
		{"no such files", nil, nil, 0, false},
		{"a line that is none", map[string]string{"proc/stat": "intr 5"}, nil, 0, false},
		{"a quota of nothing", map[string]string{"proc/self/cgroup": container, "sys/fs/cgroup/cpu.max": "0 100000", "sys/fs/cgroup/cpu.stat": "usage_usec 0\n", "proc/stat": hostIdle}, nil, 0, false},
		{"no usage", map[string]string{"proc/self/cgroup": container, "sys/fs/cgroup/cpu.max": "100000 100000", "sys/fs/cgroup/cpu.stat": "nothing 0\n"}, nil, 0, false},
		{"a set that is none", map[string]string{"proc/self/cgroup": container, "sys/fs/cgroup/cpu.max": "max 100000", "sys/fs/cgroup/cpuset.cpus.effective": "0-x", "sys/fs/cgroup/cpu.stat": "usage_usec 0\n"}, nil, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := files(c.before)
				m := NewOf(f)
				if v, ok := m.Average(); ok {
					t.Errorf("%v%% with nothing to compare", v)
				}
				time.Sleep(10 * time.Second)
				maps.Copy(f, files(c.after))
				v, ok := m.Average()
				if v < c.percent-0.001 || v > c.percent+0.001 || ok != c.ok {
					t.Errorf("%v%% %v, want %v%% %v", v, ok, c.percent, c.ok)
				}
				if v, ok := m.Average(); ok {
					t.Errorf("%v%% of no time", v)
				}
			})
		})
	}
}

// Readings too close leave the comparison where it was.
func TestReadingsTooClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := files(map[string]string{"proc/stat": "cpu 0 0 0 0 0"})
		m := NewOf(f)
		m.Average()
		for range 3 {
			time.Sleep(300 * time.Millisecond)
			if _, ok := m.Average(); ok {
				t.Error("an average of less than a second")
			}
		}
		time.Sleep(300 * time.Millisecond)
		f["proc/stat"] = &fstest.MapFile{Data: []byte("cpu 30 0 0 90 0")}
		if v, ok := m.Average(); !ok || v != 25 {
			t.Errorf("%v%% %v, want 25%%", v, ok)
		}
	})
}
