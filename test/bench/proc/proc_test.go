package proc

import (
	"os"
	"testing"
)

func TestProcessesCostSomething(t *testing.T) {
	if err := Supported(); err != nil {
		t.Skip(err)
	}
	for began := CPU(os.Getpid()); CPU(os.Getpid()) == began; { // until it has cost a tick
		if t.Context().Err() != nil {
			t.Fatal("no CPU time")
		}
	}
	if Memory(os.Getpid()) == 0 || Busy() == 0 {
		t.Errorf("memory %d, busy %v; want more than nothing", Memory(os.Getpid()), Busy())
	}
}

func TestProcessThatIsGoneCostsNothing(t *testing.T) {
	const none = 1 << 30
	if CPU(none) != 0 || Memory(none) != 0 {
		t.Error("a process that does not exist costs something")
	}
}
