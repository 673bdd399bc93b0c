package proc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc: 100 to the second on every Linux.
const tick = 10 * time.Millisecond

// Supported returns nil where this machine can be measured.
func Supported() error {
	if _, err := stat(os.Getpid()); err != nil {
		return fmt.Errorf("processes are measured through /proc, as Linux has it: %w", err)
	}
	return nil
}

// CPU returns the user and system time of a process and all below it.
func CPU(pid int) time.Duration {
	var sum time.Duration
	for _, p := range tree(pid) {
		if fields, err := stat(p); err == nil {
			sum += ticks(fields[utime]) + ticks(fields[stime])
		}
	}
	return sum
}

// Memory returns the resident memory of a process and all below it, in bytes; pages that several share count once.
func Memory(pid int) int64 {
	var sum int64
	for _, p := range tree(pid) {
		sum += proportional(p)
	}
	return sum
}

// Busy returns the time that all CPUs of this machine have worked for anybody.
func Busy() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var sum time.Duration
	for i, field := range strings.Fields(line) {
		switch i {
		case 1, 2, 3, 6, 7: // user, nice, system, irq, softirq
			sum += ticks(field)
		}
	}
	return sum
}

// Indexes into what stat returns.
const (
	parent = 1
	utime  = 11
	stime  = 12
)

// stat returns the fields of /proc/PID/stat from the third on: the second is a name that may hold anything.
func stat(pid int) ([]string, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= stime {
		return nil, errors.New("short line in /proc")
	}
	return fields, nil
}

func ticks(field string) time.Duration {
	n, err := strconv.ParseInt(field, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(n) * tick
}

// tree returns pid and all processes below it, such as the workers of nginx.
func tree(pid int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for _, entry := range entries {
		p, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if fields, err := stat(p); err == nil {
			above, _ := strconv.Atoi(fields[parent])
			children[above] = append(children[above], p)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

func proportional(pid int) int64 {
	file, err := os.Open("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) >= 2 && fields[0] == "Pss:" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}
