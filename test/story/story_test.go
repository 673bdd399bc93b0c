package story_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/spillway-dev/spillway/test/stack"
	"github.com/spillway-dev/spillway/test/story"
)

func TestStory(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "The founding case")
}

var _ = Describe("The founding case", Ordered, func() {
	var telling *story.Story

	BeforeAll(func(ctx SpecContext) {
		root, err := stack.FindRoot()
		Expect(err).NotTo(HaveOccurred())
		s, err := stack.Start(ctx, stack.Options{
			Root: root, Dir: GinkgoT().TempDir(), Backends: story.Backends(), Tokens: story.Tokens,
			Listen: []string{"127.0.0.1:0", "127.0.0.1:0"}, Progress: GinkgoWriter,
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(s.Stop()).To(Succeed()) })
		telling = story.New(s, GinkgoWriter)
	})

	for _, step := range story.Steps() {
		It(step.Title, func(ctx SpecContext) { Expect(telling.Tell(ctx, step)).To(Succeed()) })
	}
})
