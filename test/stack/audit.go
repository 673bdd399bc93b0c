package stack

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// auditPolicy has each write noted once, when it is done, without what was written.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, verbs: [get, list, watch]}
- {level: Metadata}
`

func (c *controlPlane) auditLog() string { return filepath.Join(c.dir, "logs", "audit.log") }

func (c *controlPlane) audit() error {
	policy := filepath.Join(c.dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return fmt.Errorf("write the audit policy: %w", err)
	}
	c.plane.APIServer.Configure().Set("audit-policy-file", policy).Set("audit-log-path", c.auditLog()).
		Set("audit-log-mode", "blocking").  // a write is noted before it is answered
		Set("audit-log-maxsize", "1000000") // megabytes; one file, so that offsets stay
	return nil
}

// Write is one write through the API server.
type Write struct {
	At          time.Time // when it was done
	Verb        string
	Pod         string // of the ServiceAccount's token, or empty
	User        string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	Code        int
}

// Key is the object that was written: "resource/namespace/name".
func (w *Write) Key() string { return w.Resource + "/" + w.Namespace + "/" + w.Name }

// podClaim is where the API server tells of the Pod that a token is bound to.
const podClaim = "authentication.kubernetes.io/pod-name"

// auditEvent is the part of audit.k8s.io/v1 Event that we read.
type auditEvent struct {
	Verb string
	User struct {
		Username string
		Extra    map[string][]string
	}
	ObjectRef      struct{ Resource, Subresource, Namespace, Name string }
	ResponseStatus struct{ Code int }
	StageTimestamp time.Time
}

// ReadAudit returns the writes noted from an offset on, and the offset behind them. It needs Options.Audit.
func (s *Stack) ReadAudit(offset int64) (writes []Write, end int64, err error) {
	file, err := os.Open(s.plane.auditLog())
	if err != nil {
		return nil, offset, err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(offset, 0); err != nil {
		return nil, offset, err
	}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return writes, offset, nil // the rest of a line is for the next time
		}
		offset += int64(len(line))
		var e auditEvent
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
			return nil, offset, fmt.Errorf("read the audit log: %w", err)
		}
		writes = append(writes, Write{
			At: e.StageTimestamp, Verb: e.Verb, Pod: strings.Join(e.User.Extra[podClaim], ","), User: e.User.Username,
			Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource, Namespace: e.ObjectRef.Namespace,
			Name: e.ObjectRef.Name, Code: e.ResponseStatus.Code,
		})
	}
}
