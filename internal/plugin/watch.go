package plugin

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// watchAgain is the pause before a watch that ended is begun again.
const watchAgain = time.Second

// follower shows the routes of a scope, and each one again when something about it is different.
type follower struct {
	*statusCommand
	what  scope
	shown map[types.NamespacedName]routeView
}

// follow returns when ctx ends, or when the API server refuses.
func (s *statusCommand) follow(ctx context.Context, api client.WithWatch, what scope) error {
	routes, err := listRoutes(ctx, api, what)
	if err != nil {
		return err
	}
	f := &follower{statusCommand: s, what: what, shown: map[types.NamespacedName]routeView{}}
	for i := range routes {
		f.isNew(&routes[i])
	}
	if err := s.show(routes, what); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := f.watchOnce(ctx, api); err != nil {
			return err
		}
		select { // a watch ends now and then; the next one begins with all that there is
		case <-ctx.Done():
		case <-time.After(watchAgain):
		}
	}
	return nil
}

// watchOnce shows changes until the watch ends.
func (f *follower) watchOnce(ctx context.Context, api client.WithWatch) error {
	options := []client.ListOption{client.InNamespace(f.what.namespace)}
	if f.what.name != "" {
		options = append(options, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", f.what.name)})
	}
	w, err := api.Watch(ctx, &v1alpha1.LLMRouteList{}, options...)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if again, err := f.take(event); again || err != nil {
				return err
			}
		}
	}
}

// take shows what an event says that is new. again asks for another watch.
func (f *follower) take(event watch.Event) (again bool, err error) {
	route, ok := event.Object.(*v1alpha1.LLMRoute)
	switch {
	case event.Type == watch.Error:
		err := apierrors.FromObject(event.Object)
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return true, nil
		}
		return true, err
	case !ok:
		return false, nil
	case event.Type == watch.Deleted:
		delete(f.shown, client.ObjectKeyFromObject(route))
		if !f.format.structured() {
			f.headline()
			fmt.Fprintf(f.Out, "%s/%s was deleted.\n", route.Namespace, route.Name)
		}
		return false, nil
	case !f.isNew(route):
		return false, nil
	}
	if !f.format.structured() {
		f.headline()
	}
	return false, f.show([]v1alpha1.LLMRoute{*route}, f.what)
}

func (f *follower) headline() {
	fmt.Fprintf(f.Out, "\n%s\n", f.Clock.Now().In(f.Zone).Format("15:04:05 MST"))
}

// isNew remembers a route and says whether something that is shown differs from before.
func (f *follower) isNew(r *v1alpha1.LLMRoute) bool {
	key := client.ObjectKeyFromObject(r)
	is := routeView{r.Namespace, r.Name, r.Generation, r.Status}
	was, known := f.shown[key]
	f.shown[key] = is
	return !known || !equality.Semantic.DeepEqual(was, is)
}
