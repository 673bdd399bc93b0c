// Command simbackend is a simulated OpenAI-compatible backend whose behaviour is switched while it runs, for the demo, the
// stack and by hand. Package sim describes its endpoints and modes.
//
//	go run ./hack/simbackend --name tower --listen 127.0.0.1:9001
//	curl -X POST '127.0.0.1:9001/mode?mode=busy'
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spillway-dev/spillway/hack/simbackend/sim"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "simbackend:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context) error {
	var config sim.Config
	flag.StringVar(&config.Name, "name", "tower", "name that the answers carry")
	flag.StringVar(&config.Model, "model", "", "model that /v1/models lists (default: the name)")
	flag.IntVar(&config.Tokens, "tokens", 8, "tokens of an answer, unless the request asks for fewer")
	flag.DurationVar(&config.Interval, "interval", 50*time.Millisecond, "time between two tokens")
	flag.DurationVar(&config.SlowDelay, "slow-delay", 3*time.Second, "time to the first token in mode slow")
	flag.DurationVar(&config.RetryAfter, "retry-after", 2*time.Second, "Retry-After in mode refuse, whole seconds")
	mode := flag.String("mode", string(sim.Idle), "mode to start in: "+sim.ModeNames())
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on; port 0 is any free one")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	parsed, err := sim.ParseMode(*mode)
	if err != nil {
		return err
	}
	config.Mode = parsed
	server, err := sim.Start(config, *listen)
	if err != nil {
		return err
	}
	fmt.Printf("simbackend %s listening on %s\n", config.Name, server.URL)
	<-ctx.Done()
	return server.Close()
}
