package tablestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// ErrGap is why a shard does not go on under [StopWhenTrimmed].
var ErrGap = errors.New("unread records were deleted by the service")

// failed makes sense of an error of reading. nil: reading goes on, from another place. The service's codes for what is gone are not
// documented, and may be those for what was never right, so the table and the listing are asked.
func (r *reader) failed(ctx context.Context, err error) error {
	if !refused(err) {
		return err
	}
	id, e := r.s.id(ctx, r.s.tries())
	if e != nil {
		return e
	}
	if gone := r.s.gone(ctx, id); gone != nil && !r.s.retired.Load() {
		return fmt.Errorf("%w: %s", gone, err.Error()) // and no longer "trimmed", behind which the engine goes on
	}
	listed, e := r.s.list(ctx, id)
	switch {
	case e != nil:
		return fmt.Errorf("find out why reading was refused: %w", e)
	case !slices.ContainsFunc(listed, func(s core.Shard) bool { return s.ID == r.shard }):
		return fmt.Errorf("%w: stream %s does not list the shard (any more): %s", core.ErrNotFound, id, err.Error())
	case errors.Is(err, core.ErrTrimmed):
		return r.trimmed(ctx, err)
	case r.at.Anchor != core.AfterToken:
		return fmt.Errorf("%w: the service lists the shard and gives no iterator of it: %s", core.ErrInvalid, err.Error())
	}
	return fmt.Errorf("%w: the service does not accept the position %q, and lists the shard (was the checkpoint written by hand, or for another shard?); "+
		"to begin at the oldest record set the checkpoint to TRIM_HORIZON: %s", core.ErrInvalid, r.at.Token, err.Error())
}

// trimmed decides what it means that the service no longer has what stands behind the position.
func (r *reader) trimmed(ctx context.Context, err error) error {
	switch now := r.s.clock.now(); {
	case r.oldest: // what was the oldest record when the iterator was made is not any more
		r.at = core.FromHorizon
		return fmt.Errorf("%w: the oldest record was deleted before it was read: %s", core.ErrUnavailable, err.Error())
	case !r.idle.empty.IsZero() && now.Sub(r.idle.empty) < keptFor(r.s.retention()):
		r.s.log.InfoContext(ctx, "the iterator of an idle shard has died of age; nothing is lost, since it was read empty a moment ago", "table", r.s.table, "shard", r.shard, "empty", r.idle.empty)
		r.at, r.again = core.FromHorizon, r.last != nil
		return nil
	case r.s.stop:
		return fmt.Errorf("%w behind position %q: the source is set to stop here (StopWhenTrimmed); to go on at the oldest record set the checkpoint to TRIM_HORIZON: %s", ErrGap, r.at.Token, err.Error())
	}
	return err
}

// keptFor is how long a record that comes now is kept for certain.
func keptFor(retention time.Duration) time.Duration {
	if retention <= 0 {
		return time.Hour
	}
	return retention / 2
}
