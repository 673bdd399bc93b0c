//go:build linux

package node

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nameTTL is short: a Service that is made anew has another address.
const nameTTL = 1 // seconds

// lookupWithin bounds one question to the API server.
const lookupWithin = 5 * time.Second

// serveNames answers questions for NAME.NAMESPACE.svc.DOMAIN over UDP, which is all that a cluster's DNS is needed for here.
// Any other name does not exist.
func (n *Node) serveNames(context.Context) error {
	socket, err := net.ListenPacket("udp", net.JoinHostPort(Address, "53"))
	if err != nil {
		return err
	}
	go func() {
		for buffer := make([]byte, 1500); ; {
			size, from, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			question := make([]byte, size)
			copy(question, buffer)
			go func() {
				if answer, err := n.answer(question); err == nil {
					_, _ = socket.WriteTo(answer, from) // who asked asks again
				}
			}()
		}
	}()
	return nil
}

// answer builds the reply to one message.
func (n *Node) answer(message []byte) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(message)
	if err != nil {
		return nil, err
	}
	question, err := parser.Question()
	if err != nil {
		return nil, err
	}
	address, exists := n.serviceAddress(question.Name.String())
	reply := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true, RecursionDesired: header.RecursionDesired, RecursionAvailable: true},
		Questions: []dnsmessage.Question{question},
	}
	if !exists {
		reply.RCode = dnsmessage.RCodeNameError
	} else if question.Type == dnsmessage.TypeA {
		reply.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: nameTTL},
			Body:   &dnsmessage.AResource{A: address.As4()},
		}}
	}
	return reply.Pack()
}

// serviceAddress finds the address of the Service that a name stands for.
func (n *Node) serviceAddress(name string) (netip.Addr, bool) {
	service, found := strings.CutSuffix(strings.ToLower(name), ".svc."+Domain+".")
	if !found {
		return netip.Addr{}, false
	}
	name, namespace, found := strings.Cut(service, ".")
	if !found || strings.Contains(namespace, ".") {
		return netip.Addr{}, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupWithin)
	defer cancel()
	got, err := n.Client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return netip.Addr{}, false
	}
	address, err := netip.ParseAddr(got.Spec.ClusterIP)
	return address, err == nil && address.Is4()
}
