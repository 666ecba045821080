package dynamo_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// The store of a real program: a worker prepares it by itself.
func ExampleNew() {
	cfg, err := config.LoadDefaultConfig(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	store := dynamo.New(cfg, "my-application",
		dynamo.Tags(map[string]string{"team": "orders"}),
		dynamo.PointInTimeRecovery(),
		dynamo.Logger(slog.Default()))
	_ = store // worker.Config{Store: store, …}
}

// The life of a lease, against the emulator: no cloud, no network beyond loopback.
func Example() {
	server := httptest.NewServer(emulator.New(emulator.Config{}))
	defer server.Close()
	ctx := context.Background()
	cfg := aws.Config{Credentials: credentials.NewStaticCredentialsProvider("any", "any", "")}
	store := dynamo.New(cfg, "my-application", dynamo.Endpoint(server.URL))
	defer store.CloseIdle()
	if err := store.Prepare(ctx); err != nil {
		fmt.Println(err)
		return
	}

	key := core.LeaseKey{Stream: "123456789012:orders:1796039487", Shard: "shardId-000000000000"}
	l, err := store.Create(ctx, core.Lease{Key: key, Checkpoint: core.FromHorizon, Ready: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	write := func(w core.Write) {
		after, err := store.Update(ctx, l, w.Same, w.Set)
		if err != nil {
			fmt.Println(err)
			return
		}
		l = after
		fmt.Printf("owner %q counter %d checkpoint %s\n", l.Owner, l.Counter, l.Checkpoint)
	}
	write(core.Take(&l, "worker-1", core.NewRun("worker-1", "7f3a")))
	write(core.Store(core.Position{Token: "49680705611188130669320261729626273146362581759857524754"}, nil))
	write(core.Release())
	// Output:
	// owner "worker-1" counter 1 checkpoint TRIM_HORIZON
	// owner "worker-1" counter 2 checkpoint 49680705611188130669320261729626273146362581759857524754
	// owner "" counter 3 checkpoint 49680705611188130669320261729626273146362581759857524754
}

// A store that goes with whatever workers of the KCL do with the table, and what it found.
func ExampleLayout() {
	server := httptest.NewServer(emulator.New(emulator.Config{}))
	defer server.Close()
	ctx := context.Background()
	cfg := aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("AKIDTEST", "secret", "")}
	store := dynamo.New(cfg, "my-application", dynamo.Endpoint(server.URL), dynamo.Layout(dynamo.Auto))
	defer store.CloseIdle()
	if err := store.Prepare(ctx); err != nil {
		fmt.Println(err)
		return
	}
	in, err := store.Inspect(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("layout %s, rules %s: %s\n", in.Layout, in.Regime, in.Why)
	// Output:
	// layout native, rules native: there is nothing of the KCL
}
