package cpuload

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// The files, without the leading slash as package fs wants them. Which counters are right is what the Java KCL decides by the platform it finds
// (docs/reference/kcl.md 2.2): the control group's in ECS and EKS, the host's on EC2. Here the files tell.
const (
	groupRoot   = "sys/fs/cgroup"
	groupOfSelf = "proc/self/cgroup"
	hostStat    = "proc/stat"
)

func read(files fs.FS, now time.Time) (sample, error) {
	for _, try := range []func(fs.FS, time.Time) (sample, bool, error){version2, version1} {
		if s, ours, err := try(files, now); ours {
			return s, err
		}
	}
	text, err := fs.ReadFile(files, hostStat)
	if err != nil {
		return sample{}, err
	}
	used, total, err := parseStat(string(text))
	return sample{of: "host", used: used, total: total, at: now}, err
}

// version2 reads the group's own directory. A group that is no limit and no container's is left out: its processors are the host's.
func version2(files fs.FS, now time.Time) (s sample, ours bool, err error) {
	self, err := fs.ReadFile(files, groupOfSelf)
	if err != nil {
		return sample{}, false, nil //nolint:nilerr // no control groups here
	}
	name, found := parseGroup(string(self))
	if !found {
		return sample{}, false, nil
	}
	dir := path.Join(groupRoot, name)
	if _, err := fs.Stat(files, dir); err != nil { // seen from outside of the container's namespace
		dir = groupRoot
	}
	limit, err := fs.ReadFile(files, path.Join(dir, "cpu.max"))
	if err != nil {
		return sample{}, false, nil //nolint:nilerr // the root's group is the host
	}
	processors, err := parseMax(string(limit))
	if err == nil && processors == 0 {
		if dir != groupRoot {
			return sample{}, false, nil
		}
		processors, err = cpuset(files, path.Join(dir, "cpuset.cpus.effective"))
	}
	if err != nil {
		return sample{}, true, err
	}
	stat, err := fs.ReadFile(files, path.Join(dir, "cpu.stat"))
	if err != nil {
		return sample{}, true, err
	}
	used, err := parseUsage(string(stat))
	return sample{of: dir, used: used, processors: processors, at: now}, true, err
}

// version1 reads what a container finds mounted. The root of the host's hierarchy has no quota.
func version1(files fs.FS, now time.Time) (s sample, ours bool, err error) {
	quota, err := number(files, groupRoot+"/cpu/cpu.cfs_quota_us")
	if errors.Is(err, fs.ErrNotExist) {
		return sample{}, false, nil
	}
	if err != nil {
		return sample{}, true, err
	}
	var processors float64
	if quota > 0 {
		period, err := number(files, groupRoot+"/cpu/cpu.cfs_period_us")
		if err != nil || period <= 0 {
			return sample{}, true, fmt.Errorf("period of the quota: %v (%w)", period, err)
		}
		processors = quota / period
	} else if processors, err = cpuset(files, groupRoot+"/cpuset/cpuset.effective_cpus"); err != nil {
		return sample{}, true, err
	}
	nanoseconds, err := number(files, groupRoot+"/cpuacct/cpuacct.usage")
	return sample{of: "cpuacct", used: nanoseconds / 1e9, processors: processors, at: now}, true, err
}

func cpuset(files fs.FS, name string) (float64, error) {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return 0, err
	}
	n, err := parseSet(string(text))
	return float64(n), err
}

func number(files fs.FS, name string) (float64, error) {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
}
