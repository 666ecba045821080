package kclsim

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/shardwarden/shardwarden/core/worker"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// operator is a store as a command-line tool has it.
func (f *fleet) operator() *dynamo.Store {
	to := aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("AKIDTEST", "secret", ""), HTTPClient: &line{to: f.tables, latency: latency}}
	return dynamo.New(to, app, dynamo.Endpoint("http://tables.test"), dynamo.Layout(dynamo.Auto))
}

// migrate plans a migration and carries it out, stage by stage, as an operator does: again after each stage, until there is nothing to do.
func (f *fleet) migrate(to dynamo.LayoutKind, most time.Duration) {
	f.t.Helper()
	s := f.operator()
	for end := time.Now().Add(most); ; time.Sleep(20 * time.Second) {
		m, err := s.PlanMigration(f.ctx, to)
		if err != nil {
			f.t.Fatalf("plan a migration to %s: %v", to, err)
		}
		if len(m.Steps) == 0 && len(m.Refused) == 0 && m.Next == "" {
			return
		}
		if time.Now().After(end) {
			f.tell()
			f.stop()
			f.t.Fatalf("the migration to %s is not done after %v: refused %q, next %q", to, most, m.Refused, m.Next)
		}
		if len(m.Refused) > 0 {
			f.said("refused: " + strings.Join(m.Refused, "; "))
			continue
		}
		if err := s.Migrate(f.ctx, m, func(x dynamo.MigrationStep) { f.said(x.Text) }); err != nil {
			f.t.Fatalf("migrate to %s: %v", to, err)
		}
		f.said("next: " + m.Next)
		if len(m.Steps) == 0 {
			return // workers do the rest
		}
	}
}

func (f *fleet) said(what string) { f.t.Logf("%v: %s", time.Since(f.began), what) }

// A fleet of both kinds goes from the 2.x rules to those of 3.x and back, by our tool; Java's workers and ours follow.
func TestOperatorMovesAMixedFleet(t *testing.T) {
	for _, v := range led3x {
		t.Run(v.String(), func(t *testing.T) {
			within(t, v, 4, stolen, func(f *fleet) {
				single := map[Version]dynamo.LayoutKind{V34: dynamo.KCL3Tables, V35: dynamo.KCL3Single}[v]
				compatible := func(s *Settings) { s.Compatible, s.Stabilise = true, time.Minute }
				f.joinJava("java-1", compatible)
				f.settle(3 * time.Minute)
				g := f.joinGo("go-1")
				f.settle(4 * time.Minute)
				// Of these two owners the Go worker is the one that lists, by Java's rule, so no Java worker flips the fleet.
				f.migrate(single, 5*time.Minute)
				f.await(10*time.Minute, "Java is led", func() bool { return f.java["java-1"].Led() })
				f.settle(4 * time.Minute)
				f.migrate(dynamo.KCL2, 5*time.Minute)
				f.await(2*time.Minute, "Java takes again", func() bool { return !f.java["java-1"].Led() })
				f.settle(3 * time.Minute)
				f.migrate(single, 5*time.Minute)
				f.await(10*time.Minute, "Java is led again", func() bool { return f.java["java-1"].Led() })
				f.joinGo("go-2")
				f.settle(5 * time.Minute)
				if !g.said(worker.RegimeChanged) {
					f.t.Error("the Go worker told of no change of the rules")
				}
				f.calm(time.Minute)
			})
		})
	}
}

// Three tables become one under a mixed fleet, by our tool. What takes an hour and a day is made to have begun so long ago.
func TestOperatorMovesToASingleTable(t *testing.T) {
	within(t, V35, 4, stolen, func(f *fleet) {
		f.layout = V34
		f.seed()
		f.layout = V35
		f.migrateTable("INIT")
		f.joinJava("java-1")
		f.settle(3 * time.Minute)
		f.joinGo("go-1")
		f.settle(4 * time.Minute)
		f.age(time.Hour)
		f.await(2*time.Minute, "DEPLOYED", func() bool { return f.status() == "DEPLOYED" })
		f.age(time.Hour)
		if m, err := f.operator().PlanMigration(f.ctx, dynamo.KCL3Single); err != nil || len(m.Refused) == 0 {
			f.t.Errorf("planned while workers write to the old tables: %v, %v", m, err)
		}
		f.joinJava("java-2", func(s *Settings) { s.MigrateAll = true })
		f.settle(4 * time.Minute)
		f.stopJava("java-1")
		f.joinGoWith("go-2", []dynamo.Option{dynamo.Layout(dynamo.KCL3Single)})
		f.settle(4 * time.Minute)
		f.stopGo("go-1")
		f.settle(4 * time.Minute)
		f.stage("PENDING")
		f.settle(4 * time.Minute)
		f.calm(time.Minute)
		f.age(25 * time.Hour)
		f.stage("COMPLETE")
		f.await(3*time.Minute, "the leader has its lock in the lease table", func() bool { return f.item(app, "leaseKey", leaderKey) != nil })
		f.joinJava("java-3")
		f.joinGo("go-3")
		f.settle(5 * time.Minute)
		f.calm(time.Minute)
		for _, id := range []string{"java-2", "java-3", "go-2", "go-3"} {
			if f.item(app, "leaseKey", id) == nil {
				f.t.Errorf("%s has no row in the lease table", id)
			}
		}
	})
}

// status is the state of the table migration.
func (f *fleet) status() string {
	return strings.TrimPrefix(textOf(f.item(app+"-CoordinatorState", "key", tableMigrationKey), "tm"), statusPrefix)
}

// stage plans and carries out until the table migration is at a state.
func (f *fleet) stage(status string) {
	f.t.Helper()
	s := f.operator()
	f.await(4*time.Minute, "the migration at "+status, func() bool {
		m, err := s.PlanMigration(f.ctx, dynamo.KCL3Single)
		if err != nil {
			f.t.Fatal(err)
		}
		if len(m.Refused) > 0 {
			f.said("refused: " + strings.Join(m.Refused, "; "))
			f.watch(15*time.Second, func() {})
			return false
		}
		if err := s.Migrate(f.ctx, m, func(x dynamo.MigrationStep) { f.said(x.Text) }); err != nil {
			f.said(err.Error())
		}
		f.said("next: " + m.Next)
		return f.status() == status
	})
}

// age makes the state of the table migration so much older.
func (f *fleet) age(by time.Duration) {
	f.t.Helper()
	at, ok := intOf(f.item(app+"-CoordinatorState", "key", tableMigrationKey), "mts")
	if !ok {
		f.t.Fatal("the row of the table migration has no mts")
	}
	f.persist(func() error {
		_, err := f.db.UpdateItem(f.ctx, &dynamodb.UpdateItemInput{
			TableName: aws.String(app + "-CoordinatorState"), Key: item{"key": str(tableMigrationKey)}, UpdateExpression: aws.String("SET mts = :t"),
			ExpressionAttributeValues: item{":t": num(at - by.Milliseconds())},
		})
		return err
	})
}
