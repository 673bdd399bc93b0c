package apitest

import (
	"net/url"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/test/stack"
)

var _ = Describe("A connection that dies without a word", func() {
	It("is noticed and replaced", func(ctx SpecContext) {
		publish(ctx, table.Shards, "m")
		config, _ := identity(ctx, account, "proxy-1")
		server, err := url.Parse(config.Host)
		Expect(err).NotTo(HaveOccurred())
		network, err := stack.NewForwarder(server.Host)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(network.Close)
		config.Host = "https://" + network.Addr()
		p := runProxy("proxy-1", config, nil)
		Eventually(p.Ready).Should(Succeed())

		network.Freeze()
		publish(ctx, table.Shards, "m", "another")
		began := time.Now()
		Eventually(p.models).Should(ContainElement("another"))
		AddReportEntry("death of the connection to a new table", time.Since(began))
		p.stop()
	})
})
