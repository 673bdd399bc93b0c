package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// build makes the pin that the flags ask for. A duration without a start is left to the API server's clock.
func (f *pinFlags) build(namespace string, now time.Time, zone *time.Location) (*v1alpha1.BackendPin, error) {
	pin, err := f.object(namespace)
	if err != nil {
		return nil, err
	}
	now = now.In(zone)
	start := now
	if f.from != "" {
		if start, err = parseTime(f.from, now, zone); err != nil {
			return nil, fmt.Errorf("--at: %w", err)
		}
		pin.Spec.StartsAt = seconds(start)
	}
	if f.until != "" {
		end, err := parseTime(f.until, start, zone)
		if err != nil {
			return nil, fmt.Errorf("--until: %w", err)
		}
		pin.Spec.ExpiresAt = seconds(end)
		return pin, checkSpan("--until", start, end, now)
	}
	pin.Spec.Duration = v1alpha1.Duration(f.lasts)
	span, err := pin.Spec.Duration.Parse()
	if err != nil || span <= 0 {
		return nil, fmt.Errorf("--for: %q is not a duration such as 3h or 1h30m", f.lasts)
	}
	return pin, checkSpan("--for", start, start.Add(span), now)
}

// checkSpan refuses a pin that would be over already: the API server takes it, and written over one that is in force it would
// end that. How long a pin may last is the manager's to say. flag is the one that says the end.
func checkSpan(flag string, start, end, now time.Time) error {
	switch {
	case !end.After(now):
		return fmt.Errorf("%s: %s is over", flag, end.In(now.Location()).Format("2006-01-02 15:04:05 MST"))
	case !end.After(start):
		return fmt.Errorf("%s: the pin would end before it starts", flag)
	}
	return nil
}

// seconds rounds up to a whole second: objects hold no less.
func seconds(t time.Time) *metav1.Time {
	rounded := t.UTC().Truncate(time.Second)
	if rounded.Before(t) {
		rounded = rounded.Add(time.Second)
	}
	return &metav1.Time{Time: rounded}
}

// longestName keeps names readable; what does not fit is replaced by a hash.
const longestName = 63

// defaultName is the same for the same routes, mode and backend, whatever the times.
func (f *pinFlags) defaultName(routes []string) string {
	what := strings.Join(routes, "-")
	switch {
	case f.all:
		what = "every-route"
	case f.selector != "":
		what = "selected-" + digest(f.selector)
	}
	tail := "-" + strings.ToLower(f.mode) + "-" + f.backend
	if len(what)+len(tail) > longestName {
		what = digest(what)
	}
	return what + tail
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// put creates the pin, or changes the one of its name, and says which. A pin of that name that has ended is replaced, so
// that the new one is the newest and has the last word.
func (p *pinCommand) put(ctx context.Context, api client.Client, wanted *v1alpha1.BackendPin) (pin *v1alpha1.BackendPin, did string, err error) {
	var existing v1alpha1.BackendPin
	err = api.Get(ctx, keyOf(wanted), &existing)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err): // who may create need not be allowed to read
		return wanted, "created", api.Create(ctx, wanted)
	case err != nil:
		return nil, "", err
	}
	now := p.Clock.Now()
	if judge([]v1alpha1.BackendPin{existing}, now).over(&existing) {
		return wanted, "created, in place of one that had ended", p.replace(ctx, api, &existing, wanted)
	}
	changed := existing.DeepCopy()
	changed.Spec = wanted.Spec
	if wanted.Spec.StartsAt == nil {
		// It goes on from its own start; a duration would count from there, but it is meant from now.
		if span, err := wanted.Spec.Duration.Parse(); err == nil {
			changed.Spec.Duration, changed.Spec.ExpiresAt = "", seconds(now.Add(span))
		}
	}
	if wanted.Spec.Reason == "" {
		changed.Spec.Reason = existing.Spec.Reason
	}
	if equality.Semantic.DeepEqual(changed.Spec, existing.Spec) {
		return &existing, "unchanged", nil
	}
	return changed, "changed", api.Update(ctx, changed)
}

func (p *pinCommand) replace(ctx context.Context, api client.Client, old, wanted *v1alpha1.BackendPin) error {
	if p.dryRun {
		return nil // creating it would meet the old one
	}
	err := api.Delete(ctx, old, client.Preconditions{UID: &old.UID})
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	return api.Create(ctx, wanted)
}
