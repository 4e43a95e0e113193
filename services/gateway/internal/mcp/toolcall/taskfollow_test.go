package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// Notices of tasks reach who may use them, under the caller's ids; what may have changed while a stream was away is asked
// for.
func TestFollowTasks(t *testing.T) {
	c, w := working(t)
	id := becomesTask(t, c)
	synctest.Test(t, func(t *testing.T) {
		begun := 0
		w.tasks.follow = func(_ context.Context, f *upstream.TaskFollow) error {
			begun++
			if f.Organization != "acme" || !slices.Equal(f.IDs, []string{"theirs"}) || !strings.Contains(string(f.Capabilities), wire.ExtensionTasks) {
				t.Errorf("%+v", f)
			}
			f.Begun(f.IDs)
			f.Changed(taskOf(t, "working", ""))
			return errors.New("ended")
		}
		all, err := c.FollowTasks(t.Context(), asker(), taskClient(), "", []string{id, "none"}, json.RawMessage(`{"m":1}`))
		if err != nil || len(all) != 0 {
			t.Errorf("of another caller: %d, %v", len(all), err)
		}
		of := request(read, "").Asker
		all, err = c.FollowTasks(t.Context(), &of, taskClient(), "files", []string{"none", id}, json.RawMessage(`{"m":1}`))
		if err != nil || len(all) != 1 {
			t.Fatalf("%d, %v", len(all), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			all[0].Run(ctx, func(ids []string) { got = append(got, fmt.Sprintf("%d %t", len(ids), ids[0] == id)) }, func(of string, notice json.RawMessage) {
				read := gjson.ParseBytes(notice)
				got = append(got, fmt.Sprintf("%t %t %s %d", of == id, read.Get("taskId").Str == id, read.Get("status").Str, read.Get("_meta.m").Int()))
			})
		}()
		time.Sleep(leastAgain + leastAgain/2)
		want := []string{"1 true", "true true working 1", "true true completed 1", "true true working 1"}
		synctest.Wait()
		if begun != 2 || !slices.Equal(got, want) {
			t.Errorf("begun %d times, got %v, want %v", begun, got, want)
		}
		w.distrust()
		time.Sleep(3 * leastAgain)
		synctest.Wait()
		if !slices.Equal(got, want) {
			t.Errorf("without trust: %v", got)
		}
		cancel()
		<-done
	})
}
