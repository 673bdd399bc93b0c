package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Who is measured. direct is the mock backend itself: what others add is counted from it.
const (
	direct = "direct"
	nginx  = "nginx"
	goBase = "base"
	ours   = "spillway"
)

// arena starts what is measured, before two mock backends.
type arena struct {
	dir   string // configuration and logs
	self  string // this program
	proxy string
	nginx string // empty where there is none
	a, b  *process
}

func newArena(ctx context.Context, proxy string) (_ *arena, err error) {
	if _, err := os.Stat(proxy); err != nil {
		return nil, fmt.Errorf("the proxy is not built, run make build: %w", err)
	}
	ar := &arena{proxy: proxy}
	if ar.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if ar.nginx, err = exec.LookPath("nginx"); err != nil {
		ar.nginx = ""
		fmt.Fprintln(os.Stderr, "bench: there is no nginx in the PATH, so its column stays empty; on Debian: apt-get install nginx-light")
	}
	if ar.dir, err = os.MkdirTemp("", "spillway-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			ar.close()
		}
	}()
	if ar.a, err = ar.mock(ctx, "a"); err != nil {
		return nil, err
	}
	if ar.b, err = ar.mock(ctx, "b"); err != nil {
		return nil, err
	}
	return ar, ar.writeManifests()
}

func (ar *arena) close() {
	ar.a.stop()
	ar.b.stop()
	_ = os.RemoveAll(ar.dir) // what stays is in the system's folder for such things
}

func (ar *arena) mock(ctx context.Context, name string) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	return start(ctx, ar.dir, name, addr, ar.self, "serve-mock", addr)
}

// names are those that take part beside the backend itself.
func (ar *arena) names() []string {
	if ar.nginx == "" {
		return []string{goBase, ours}
	}
	return []string{nginx, goBase, ours}
}

// enter starts a contestant. stop ends it; for the backend itself it does nothing.
func (ar *arena) enter(ctx context.Context, name string) (p *process, stop func(), err error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, nil, err
	}
	switch name {
	case direct:
		return ar.a, func() {}, nil
	case nginx:
		p, err = ar.startNginx(ctx, addr)
	case goBase:
		p, err = start(ctx, ar.dir, name, addr, ar.self, "serve-base", addr, ar.a.addr)
	case ours:
		p, err = ar.startOurs(ctx, addr, ar.manifests())
	}
	if err != nil {
		return nil, nil, err
	}
	return p, p.stop, nil
}

// startOurs starts the proxy with everything on: the routes of a folder, metrics, the access log.
func (ar *arena) startOurs(ctx context.Context, addr, manifests string) (*process, error) {
	admin, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p, err := start(ctx, ar.dir, ours, addr, ar.proxy, "--manifests", manifests, "--listen", addr, "--admin-listen", admin,
		"--access-log", filepath.Join(ar.dir, "access.log"), "--drain-delay", "0s", "--drain-timeout", "1s")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	err = poll(ctx, 20*time.Millisecond, func() error { return fetch(ctx, "http://"+admin+"/readyz", nil) })
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("the proxy does not become ready: %w", err)
	}
	return p, nil
}

func (ar *arena) startNginx(ctx context.Context, addr string) (*process, error) {
	dir := filepath.Join(ar.dir, "nginx")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, addr, ar.a.addr), 0o600); err != nil {
		return nil, err
	}
	return start(ctx, ar.dir, nginx, addr, ar.nginx, "-p", dir+"/", "-c", conf)
}

// nginxConf takes the address to listen on and that of the backend.
const nginxConf = `daemon off; worker_processes auto; pid nginx.pid; error_log stderr warn;
worker_rlimit_nofile 20000;
events { worker_connections 8192; }
http {
  access_log off; keepalive_timeout 300s; keepalive_requests 100000000;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  client_max_body_size 32m; client_body_buffer_size 1m;
  upstream backend { server %[2]s; keepalive 1024; keepalive_requests 100000000; keepalive_timeout 300s; }
  server {
    listen %[1]s backlog=4096;
    location / {
      proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
      proxy_buffering off; proxy_read_timeout 600s; proxy_send_timeout 600s;
    }
  }
}
`

// fetch gets a URL, whose answer is decoded by decode unless that is nil.
func fetch(ctx context.Context, url string, decode func(*http.Response) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	if decode == nil {
		return nil
	}
	return decode(response)
}
