// Package nonblock makes reads and writes of TCP connections cheaper than package net does, and else leaves them as they are.
//
// In the flow it stands below everything: internal/server wraps the connections of callers in it, internal/proxy those
// of backends. It knows nothing of what they carry.
//
// The runtime has to expect that a system call takes long, so it notes each one and its monitor looks, every 20
// microseconds while there are any, whether another thread has to take over. The sockets of package net never block: one
// that is not ready says so at once, and then the runtime's poller waits for it. Without that bookkeeping a chunk of a stream
// costs an eighth less CPU (docs/adr/0008). On other systems than Linux connections stay what they were.
package nonblock
