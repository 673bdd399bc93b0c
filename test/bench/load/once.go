package load

import (
	"fmt"
	"time"
)

// Once sends one request on a connection of its own and reads its answer for at most limit. It returns how long the first
// token took; the error says what is wrong with the answer.
func Once(r *Request, limit time.Duration) (token time.Duration, err error) {
	c := newConn(r.addr)
	defer c.close()
	if err := c.dial(); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := c.nc.SetDeadline(began.Add(limit)); err != nil {
		return 0, fmt.Errorf("set the deadline: %w", err)
	}
	a, err := c.do(r, nil)
	if err == nil {
		err = a.Check(r)
	}
	return a.Token.Sub(began), err
}

// Leave sends a request, waits for what until waits for, and hangs up. It returns when it did.
func Leave(r *Request, until func() error) (time.Time, error) {
	c := newConn(r.addr)
	defer c.close()
	if err := c.dial(); err != nil {
		return time.Time{}, err
	}
	if _, err := c.nc.Write(r.bytes); err != nil {
		return time.Time{}, fmt.Errorf("send: %w", err)
	}
	err := until()
	return time.Now(), err
}
